"""Third way: blanks between the symbols, as in speech recognition."""


def collapse(path: list[int], blank: int) -> list[int]:
    """The symbols that a path of CTC spells: equal neighbours are one symbol, and blanks are none.

    Args:
        path: one symbol or blank for each position.
        blank: the symbol that stands for nothing.

    Returns:
        A list.

    Example: a blank is 0; between two 7 it makes them two.
        >>> collapse([7, 7, 0, 7, 8, 0], blank=0)
        [7, 7, 8]

    Source: Graves et al. 2006, section 3.1, the map B; Libovický & Helcl 2018 for translation.
    """
    # BEGIN SOLUTION
    merged = [symbol for place, symbol in enumerate(path) if place == 0 or symbol != path[place - 1]]
    return [symbol for symbol in merged if symbol != blank]
    # END SOLUTION
