"""The parser's automaton: every output is one tree over exactly the words, whatever the model says."""

import itertools
from functools import cache

import pytest
import torch
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from task_tools import parser_batch

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.trees import Tree
from seq2seq_suite.common.types import END, UNKNOWN
from seq2seq_suite.config.schema import Config
from seq2seq_suite.tasks.parsing.automaton import ParserAutomaton
from seq2seq_suite.tasks.parsing.linearisation import Brackets, InOrder
from seq2seq_suite.tasks.parsing.task import ParsingTask
from seq2seq_suite.tasks.parsing.tetra_automaton import TetraAutomaton
from seq2seq_suite.tasks.parsing.tetra_tags import TetraTags

LABELS = ("S", "NP", "VP", "PP", "ADJP")


def make_task(linearisation: str) -> ParsingTask:
    config = Config.model_validate({"task": "parsing", "parsing": {"linearisation": linearisation}})
    task = ParsingTask(config.parsing, config.data)
    leaf = Tree("NN", ("word",))
    tree = Tree("TOP", (Tree("S", tuple(Tree(label, (leaf, leaf)) for label in LABELS)),))
    task.fit([Example(tuple(tree.words()), tree)])
    return task


def decode_at_random(
    task: ParsingTask, lengths: torch.Tensor, limits: torch.Tensor, generator: torch.Generator, *, sharpness: float
) -> list[list[str]]:
    """Outputs of a model whose logits are noise; a large sharpness makes it stubborn about one symbol."""
    automaton = task.constraint()
    lowest = torch.tensor([1, -1]) if isinstance(automaton, TetraAutomaton) else 0  # a word's own tag has one word
    state = automaton.start(parser_batch(lengths.tolist()), limits)
    fixed = torch.randn(len(lengths), len(task.target.vocabulary), generator=generator) * sharpness
    columns = []
    ended = torch.zeros(len(lengths), dtype=torch.bool)
    while not ended.all():
        allowed = automaton.allowed(state)
        assert allowed.any(1).all()
        logits = fixed + torch.randn(fixed.shape, generator=generator)
        symbols = logits.masked_fill(~allowed, float("-inf")).argmax(1)
        focus = automaton.focus(state)
        assert ((focus >= lowest) & (focus <= lengths.unsqueeze(1) + 1))[~ended].all()
        columns.append(symbols.masked_fill(ended, END))
        ended |= symbols == END
        assert (ended | (limits > len(columns))).all(), "an output beyond its limit"
        state = automaton.advance(state, symbols)
    names = task.target.vocabulary.decode(range(len(task.target.vocabulary)))
    return [[names[symbol] for symbol in row[: row.index(END)]] for row in torch.stack(columns, 1).tolist()]


@pytest.mark.parametrize(
    ("sharpness", "linearisation"),
    daily(
        itertools.product([0.0, 4.0], ["in_order", "brackets", "tetra_tags"]),
        (4.0, "in_order"),
        (0.0, "brackets"),
        (4.0, "tetra_tags"),
    ),
)
def test_ten_thousand_random_decodes_are_trees_over_exactly_the_words(linearisation, sharpness):
    task, decodes = make_task(linearisation), 2500
    generator = torch.Generator().manual_seed(7)
    lengths = torch.randint(1, 24, (decodes,), generator=generator)
    # From the tightest limit that any tree fits in to a generous one.
    limits = lengths + 3 + (torch.rand(decodes, generator=generator) * 6 * lengths).long()
    if linearisation == "tetra_tags":
        limits = limits.maximum(2 * lengths)  # the one length there is
    outputs = decode_at_random(task, lengths, limits, generator, sharpness=sharpness)
    for length, output in zip(lengths.tolist(), outputs, strict=True):
        words = tuple(f"w{place}" for place in range(length))
        tree = task.target.parse(output, Example(words))
        assert tree is not None, output
        assert tree.words() == list(words)


def trees(depth: int = 4):
    leaf = st.builds(
        lambda tag, word: Tree(tag, (word,)),
        st.sampled_from(["NN", "DT", "."]),
        st.sampled_from(["a", "dog", "-LRB-", "XX", "SHIFT", ")"]),
    )
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda label, children: Tree(label, tuple(children)),
            st.sampled_from((*LABELS, "TOP")),
            st.lists(inner, min_size=1, max_size=4),
        ),
        max_leaves=12,
    )


@pytest.mark.parametrize("linearisation", [Brackets(), InOrder(), TetraTags()])
@given(tree=trees())
@settings(max_examples=100)
def test_reading_what_was_written_gives_the_tree(linearisation, tree):
    whole = Tree("TOP", (Tree("S", (tree,)),))
    symbols = linearisation.write(whole)
    assert linearisation.read(symbols, whole.words(), whole.tags()) == whole


@pytest.mark.parametrize("linearisation", [Brackets(), InOrder(), TetraTags()])
@given(
    symbols=st.lists(
        st.sampled_from(
            ["SHIFT", "REDUCE", "PJ-NP", "PJ-S", "XX", ")", "(NP", "<unknown>", "l", "r NP", "L S", "R", "L"]
        ),
        max_size=12,
    )
)
@settings(max_examples=100)
def test_malformed_symbols_are_none_and_never_raise(linearisation, symbols):
    tree = linearisation.read(symbols, ["a", "b"], ["X", "Y"])
    assert tree is None or tree.words() == ["a", "b"]


TETRA_TAGS = ["<pad>", "<begin>", "<end>", "<unknown>", "l", "r", "L S", "R VP", "R", "r NP"]


@cache
def all_tetra_tags(length: int) -> list[tuple[int, ...]]:
    """The tags of every tree over so many words."""
    words = [f"w{place}" for place in range(length)]
    return [
        tags
        for tags in itertools.product(range(4, len(TETRA_TAGS)), repeat=2 * length - 1)
        if TetraTags().read([TETRA_TAGS[tag] for tag in tags], words, words) is not None
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_best_tetra_tags_are_those_of_enumeration(seed):
    names = TETRA_TAGS
    automaton, lengths = TetraAutomaton(names), torch.tensor([4, 1, 3])
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 7, len(names), generator=generator).log_softmax(-1)
    found = automaton.best(scores, parser_batch(lengths.tolist())).tolist()
    for row, length in enumerate(lengths.tolist()):
        best = max(
            all_tetra_tags(length),
            key=lambda tags: sum(float(scores[row, step, tag]) for step, tag in enumerate(tags)),
        )
        assert found[row] == [*best, *[END] * (7 - len(best))]
    assert automaton.lengths(parser_batch(lengths.tolist())).tolist() == [7, 1, 5]


def after(automaton: ParserAutomaton, symbols: list[int], *, words: int) -> list[bool]:
    """Which symbols may follow."""
    state = automaton.start(parser_batch([words]), torch.tensor([90]))
    for symbol in symbols:
        assert automaton.allowed(state)[0, symbol]
        state = automaton.advance(state, torch.tensor([symbol]))
    return automaton.allowed(state)[0].tolist()


SHIFT, CLOSE, S, NP = range(4, 8)


def test_so_many_brackets_may_open_in_a_row_until_a_word_comes():
    automaton = ParserAutomaton(top_down=True, shift=SHIFT, close=CLOSE, opens=[S, NP], num_symbols=8, max_run=3)
    assert after(automaton, [S, NP], words=4)[S]
    assert not any(after(automaton, [S, NP, S], words=4)[S:])
    assert after(automaton, [S, NP, S, SHIFT], words=4)[S]
    assert not any(after(automaton, [S, NP, S, SHIFT, S, NP, S], words=4)[S:])


def test_so_many_nodes_of_one_child_may_stand_over_each_other():
    automaton = ParserAutomaton(top_down=False, shift=SHIFT, close=CLOSE, opens=[S, NP], num_symbols=8, max_run=3)
    chain = [SHIFT, S, CLOSE, NP, CLOSE]
    assert after(automaton, [*chain, S], words=2)[CLOSE]
    assert not after(automaton, [*chain, S, CLOSE, NP], words=2)[CLOSE]
    assert after(automaton, [*chain, S, CLOSE, NP, SHIFT], words=2)[CLOSE]
    assert not any(after(automaton, [*chain, S, CLOSE], words=1)[S:])  # nothing is left that would join the new node


def test_a_tag_never_seen_hangs_to_the_right_if_it_can_and_nothing_follows_the_end():
    names = ["<pad>", "<begin>", "<end>", "<unknown>", "l", "r", "L", "R"]
    automaton = TetraAutomaton(names)
    state = automaton.start(parser_batch([4]), torch.tensor([9]))
    depths, taken = [], []
    for symbol in (UNKNOWN, UNKNOWN, 4, UNKNOWN, UNKNOWN, 7, 7, END, END):
        state = automaton.advance(state, torch.tensor([symbol]))
        depths.append(int(state.depth))
        taken.append(int(state.tagged))
    # l, L, l, R, r; then R of a stack of one and a word of no meaning, and the end.
    assert depths == [1, 1, 2, 1, 1, 0, 0, 0, 0] and taken == [1, 1, 2, 2, 3, 3, 4, 4, 4]
    again = automaton.advance(automaton.start(parser_batch([4]), torch.tensor([9])), torch.tensor([5]))
    assert int(automaton.advance(again, torch.tensor([7])).depth) == 0  # never below nought
