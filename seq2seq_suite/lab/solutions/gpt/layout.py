"""A task as one sequence, for a decoder without an encoder."""


def layout(source: list[int], target: list[int], begin: int, end: int) -> tuple[list[int], list[bool], list[bool]]:
    """Source, BEGIN, target, END in one row; L1 predicts the source, L2 the answer.

    Args:
        source, target: symbols.
        begin: delimiter between them.
        end: behind the target.

    Returns:
        The tokens, and for each of them two answers. Predicted: does L1 count it, a symbol of the source that has one
        before it? Answered: does L2 count it, a symbol of the target or END?

    Example: BEGIN 1, END 2.
        >>> tokens, predicted, answered = layout([5, 6], [8], begin=1, end=2)
        >>> tokens
        [5, 6, 1, 8, 2]
        >>> [int(one) for one in predicted], [int(one) for one in answered]
        ([0, 1, 0, 0, 0], [0, 0, 0, 1, 1])

    Source: Radford et al. 2018, section 3.3; "delimiter tokens" in note 001.
    """
    # BEGIN SOLUTION
    tokens = [*source, begin, *target, end]
    predicted = [0 < place < len(source) for place in range(len(tokens))]
    answered = [place > len(source) for place in range(len(tokens))]
    return tokens, predicted, answered
    # END SOLUTION
