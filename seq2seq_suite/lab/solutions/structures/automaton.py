"""Which symbols may follow, so that whatever is written is a tree over the sentence's words."""

from typing import NamedTuple


class State(NamedTuple):
    """What has to be remembered of the symbols so far."""

    words: int  # still to be written
    children: tuple[int, ...]  # of each open node, the outermost first
    run: int  # nodes opened in a row just now
    done: bool  # the outermost node is closed


def start(words: int) -> State:
    """The state before the first symbol of a tree over so many words."""
    # BEGIN SOLUTION
    return State(words, (), 0, False)
    # END SOLUTION


def allowed(state: State, most_in_a_row: int) -> dict[str, bool]:
    """What may come next: "open" a node, "shift" a word, "close" the innermost node, "end" the output.

    Args:
        state: so far.
        most_in_a_row: nodes that may be opened one directly inside the other; without a bound a model could open
            nodes for ever.

    Returns:
        For each of the four, whether a tree can still come of it. Something is always allowed.

    Example: at first a node has to be opened.
        >>> allowed(start(2), most_in_a_row=3)
        {'open': True, 'shift': False, 'close': False, 'end': False}

    Source: the suite's tasks.parsing; constrained decoding as in Vinyals et al. 2015, section 3.2, done at each step.
    """
    # BEGIN SOLUTION
    words, children, run, done = state
    may_open = not done and words > 0 and run < most_in_a_row
    may_shift = bool(children) and words > 0
    may_close = bool(children) and children[-1] > 0 and not (len(children) == 1 and words > 0)
    return {"open": may_open, "shift": may_shift, "close": may_close, "end": done}
    # END SOLUTION


def advance(state: State, kind: str) -> State:
    """The state after "open", "shift", "close" or "end"; `state` stays as it is."""
    # BEGIN SOLUTION
    words, children, run, done = state
    if kind == "open":
        return State(words, (*children, 0), run + 1, done)
    if kind == "shift":
        return State(words - 1, (*children[:-1], children[-1] + 1), 0, done)
    if kind == "close":
        outer = children[:-1]
        outer = (*outer[:-1], outer[-1] + 1) if outer else outer
        return State(words, outer, 0, not outer)
    return state
    # END SOLUTION
