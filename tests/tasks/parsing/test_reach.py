"""The parser's automaton against all sequences there are: it allows exactly what some tree still begins with."""

import itertools

import pytest
import torch
from task_tools import parser_batch

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.common.types import END, SPECIALS, UNKNOWN
from seq2seq_suite.tasks.parsing.automaton import ParserAutomaton
from seq2seq_suite.tasks.parsing.linearisation import Brackets, InOrder
from seq2seq_suite.tasks.parsing.tetra_automaton import TetraAutomaton
from seq2seq_suite.tasks.parsing.tetra_tags import TetraTags

SHIFT, CLOSE, OPEN_A, OPEN_B = SYMBOLS = range(len(SPECIALS), len(SPECIALS) + 4)


def chain(node: Tree) -> int:
    """Nodes with one child, one above the other, from here down to a word or a wider node."""
    if node.is_preterminal() or len(node.children) > 1:
        return 0
    return 1 + chain(node.children[0])


def nodes(tree: Tree):
    yield tree
    for child in tree.children:
        if not child.is_preterminal():
            yield from nodes(child)


def is_in_order_tree(symbols: list[str], words: list[str], max_run: int) -> bool:
    """A tree without long chains and without X over X alone."""
    tree = InOrder().read(symbols, words, words)
    if tree is None:
        return False
    inside = [] if tree.children[0].is_preterminal() else list(nodes(tree.children[0]))
    return all(
        chain(node) <= max_run and not (len(node.children) == 1 and node.children[0].label == node.label)
        for node in inside
    )


def is_top_down_tree(symbols: list[str], words: list[str], max_run: int) -> bool:
    """A tree that begins with a bracket, with few opened in a row."""
    runs = (len(list(run)) for opens, run in itertools.groupby(symbol.startswith("(") for symbol in symbols) if opens)
    return (
        symbols[:1] != ["XX"] and max(runs, default=0) <= max_run and Brackets().read(symbols, words, words) is not None
    )


def stepped(automaton, symbols, start):
    """The states along the symbols."""
    states = [start]
    for symbol in symbols:
        states.append(automaton.advance(states[-1], torch.tensor([symbol])))
    return states


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("max_run", [1, 2])
@pytest.mark.parametrize("top_down", [False, True])
def test_exactly_what_a_tree_begins_with_is_allowed_at_every_limit(top_down, max_run, words):
    longest = 9  # symbols, END included: chains of three nodes, and of two in front of another word
    names = ["XX", ")", "(A", "(B"] if top_down else ["SHIFT", "REDUCE", "PJ-A", "PJ-B"]
    automaton = ParserAutomaton(
        top_down=top_down,
        shift=SHIFT,
        close=CLOSE,
        opens=[OPEN_A, OPEN_B],
        num_symbols=len(SPECIALS) + 4,
        max_run=max_run,
    )
    is_tree = is_top_down_tree if top_down else is_in_order_tree
    trees = [
        sequence
        for length in range(1, longest)
        for sequence in itertools.product(SYMBOLS, repeat=length)
        if sequence.count(SHIFT) == words
        and words + 2 * sequence.count(CLOSE) == length
        and is_tree([names[symbol - len(SPECIALS)] for symbol in sequence], ["w"] * words, max_run)
    ]
    for limit in range(min(map(len, trees)) + 1, longest + 1):
        following: dict[tuple[int, ...], set[int]] = {}
        for tree in trees:
            if len(tree) < limit:
                for place, symbol in enumerate((*tree, END)):
                    following.setdefault(tree[:place], set()).add(symbol)
        for begun, expected in following.items():
            start = automaton.start(parser_batch([words]), torch.tensor([limit]))
            state = stepped(automaton, begun, start)[-1]
            assert set(automaton.allowed(state)[0].nonzero().flatten().tolist()) == expected, (limit, begun)


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_exactly_what_tetra_tags_of_a_tree_begin_with_is_allowed(words):
    names = ["<pad>", "<begin>", "<end>", "<unknown>", "l", "r S", "L", "R VP"]
    automaton, following = TetraAutomaton(names), {}
    for tags in itertools.product(SYMBOLS, repeat=2 * words - 1):
        if TetraTags().read([names[tag] for tag in tags], ["w"] * words, ["X"] * words) is not None:
            for place, tag in enumerate((*tags, END)):
                following.setdefault(tags[:place], set()).add(tag)
    for begun, expected in following.items():
        state = stepped(automaton, begun, automaton.start(parser_batch([words]), torch.tensor([99])))[-1]
        assert set(automaton.allowed(state)[0].nonzero().flatten().tolist()) == expected, begun


@pytest.mark.parametrize("top_down", [False, True])
def test_focus_and_context_are_those_of_a_plain_stack(top_down):
    automaton = ParserAutomaton(
        top_down=top_down, shift=SHIFT, close=CLOSE, opens=[OPEN_A, OPEN_B], num_symbols=len(SPECIALS) + 4, max_run=9
    )
    generator = torch.Generator().manual_seed(1)
    state, rows = automaton.start(parser_batch([3 + row % 5 for row in range(40)]), torch.full((40,), 40)), range(40)
    stacks, last, shifted = [[] for _ in rows], [(0, 0) for _ in rows], [0 for _ in rows]
    deepest = 0
    for step in range(30):
        focus, context = automaton.focus(state).tolist(), automaton.context(state).tolist()
        for row in rows:
            outer, inner = ([(0, 0), (0, 0)] + stacks[row])[-2:]
            assert focus[row] == [shifted[row] + 1, shifted[row], last[row][1], inner[1], outer[1]], (row, step)
            assert context[row] == [inner[0], outer[0], last[row][0]], (row, step)
        scores = torch.rand(40, len(SPECIALS) + 4, generator=generator)
        symbols = scores.masked_fill(~automaton.allowed(state), -1.0).argmax(1)
        for row, symbol in enumerate(symbols.tolist()):
            if symbol == SHIFT:
                shifted[row] += 1
                last[row] = (SHIFT, shifted[row])
            elif symbol == CLOSE:
                last[row] = stacks[row].pop()
            elif symbol != END:
                stacks[row].append((symbol, shifted[row] + 1 if top_down else last[row][1]))
            deepest = max(deepest, len(stacks[row]))
        state = automaton.advance(state, symbols)
        if step == 9:  # a search keeps some rows, some of them twice
            kept = [(row * 7) % 20 for row in rows]
            state = state.select(torch.tensor(kept))
            stacks, last, shifted = (
                [list(stacks[row]) for row in kept],
                [last[row] for row in kept],
                [shifted[row] for row in kept],
            )
    assert deepest > 3


@pytest.mark.parametrize("top_down", [False, True])
def test_a_label_never_seen_opens_a_bracket_too(top_down):
    automaton = ParserAutomaton(
        top_down=top_down, shift=SHIFT, close=CLOSE, opens=[OPEN_A, OPEN_B], num_symbols=len(SPECIALS) + 4, max_run=9
    )
    written = (UNKNOWN, SHIFT, SHIFT, CLOSE) if top_down else (SHIFT, UNKNOWN, SHIFT, CLOSE)
    states = stepped(automaton, written, automaton.start(parser_batch([2]), torch.tensor([9])))
    assert [int(state.depth) for state in states] == ([0, 1, 1, 1, 0] if top_down else [0, 0, 1, 1, 0])
    assert automaton.allowed(states[-1])[0].nonzero().flatten().tolist()[:1] == [END]
    assert not automaton.allowed(states[-2])[0, UNKNOWN]  # though nothing else writes one
