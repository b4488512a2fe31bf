"""Second way to a length: write a long sequence, ignore what stands behind END."""


def cut_at_end(symbols: list[int], end: int) -> list[int]:
    """What stands before the first END; all symbols where there is none.

    Args:
        symbols: what was written, at a fixed number of positions.
        end: the symbol END.

    Returns:
        A list; `symbols` stays as it is.

    Example: END is 2.
        >>> cut_at_end([7, 8, 2, 9, 2], end=2)
        [7, 8]

    Source: "output a very long sequence, ignores tokens after END" in note 003.
    """
    # BEGIN SOLUTION
    return symbols[: symbols.index(end)] if end in symbols else symbols
    # END SOLUTION
