"""A task of your own: how its answers become symbols, how symbols become answers, and how answers are scored.

Any task whose answers are more than a sentence will do: shopping lists (as here), dates, formulas, opening hours,
family trees, moves of a game. An answer may be made of strings, numbers, lists, tuples and dictionaries.
"""

from random import Random

Answer = object


def own_examples(seed: int) -> list[tuple[str, Answer]]:
    """The data: at least 20 pairs of a source and its answer, drawn at random.

    Args:
        seed: of what is drawn: the same seed gives the same pairs, another one others. A run trains on one seed's,
            and is graded on those of a seed that nobody knows.

    Returns:
        (source, answer) each; no source twice, and at least 5 different answers.

    Example: of a task with shopping lists.
        >>> own_examples(5)[0]
        ('7 rolls and 2 plums', {'roll': 7, 'plum': 2})

    Source: "Output a sequence", the list of tasks at the top of note 003.
    """
    # BEGIN SOLUTION
    rng, pairs = Random(seed), {}
    while len(pairs) < 300:
        one, other = rng.sample(("apple", "pear", "plum", "egg", "roll"), 2)
        count, more = rng.randint(2, 9), rng.randint(2, 9)
        pairs[f"{count} {one}s and {more} {other}s"] = {one: count, other: more}
    return list(pairs.items())
    # END SOLUTION


def write_answer(answer: Answer) -> list[str]:
    """An answer as the symbols that a decoder writes one after the other, without BEGIN and END.

    Args:
        answer: as in the examples.

    Returns:
        Symbols without blanks in them. Different answers have different symbols.

    Example:
        >>> write_answer({"apple": 2, "pear": 3})
        ['apple', '2', 'pear', '3']
    """
    # BEGIN SOLUTION
    return [symbol for name, count in answer.items() for symbol in (name, str(count))]
    # END SOLUTION


def read_answer(symbols: list[str]) -> Answer | None:
    """The answer that symbols stand for; None where they stand for none. A model may write anything: nothing raises.

    Args:
        symbols: perhaps none, perhaps some that no answer has.

    Returns:
        The answer, or None.

    Example:
        >>> read_answer(["apple", "2"]), read_answer(["apple"])
        ({'apple': 2}, None)
    """
    # BEGIN SOLUTION
    names, counts = symbols[0::2], symbols[1::2]
    if len(names) != len(counts) or len(set(names)) != len(names) or not names:
        return None
    if not all(count.isdecimal() for count in counts):
        return None
    return {name: int(count) for name, count in zip(names, counts, strict=True)}
    # END SOLUTION


def score_answers(gold: list[Answer], predicted: list[Answer | None]) -> float:
    """How good a model's answers are, from 0 to 100.

    Args:
        gold: the right answers.
        predicted: the model's, in the same order; None where it wrote nothing that can be read.

    Returns:
        100 where all are right, 0 where all are None, something between where some are.

    Example: one of two things on the list is right.
        >>> score_answers([{"apple": 2, "pear": 3}], [{"apple": 2, "pear": 4}])
        50.0
    """
    # BEGIN SOLUTION
    hits = total = 0
    for right, found in zip(gold, predicted, strict=True):
        found = found or {}
        hits += len(right.items() & found.items())
        total += max(len(right), len(found))
    return 100 * hits / total
    # END SOLUTION
