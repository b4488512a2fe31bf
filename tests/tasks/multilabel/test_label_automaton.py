"""Sets of labels: whatever a model's figures are, no label comes twice and END only behind a label."""

import pytest
import torch
from making import strategy_of

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END, SPECIALS
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton

SYMBOLS = 10


@pytest.mark.parametrize("allow_empty", [False, True])
@pytest.mark.parametrize("sharpness", [0.0, 5.0])
def test_ten_thousand_random_decodes_are_sets_of_labels(allow_empty, sharpness):
    generator = torch.Generator().manual_seed(3)
    automaton = LabelAutomaton(SYMBOLS, allow_empty=allow_empty)
    rows = 2500
    state = automaton.start(None, torch.full((rows,), 99))
    fixed = torch.randn(rows, SYMBOLS, generator=generator) * sharpness
    ended, outputs = torch.zeros(rows, dtype=torch.bool), [[] for _ in range(rows)]
    for _ in range(SYMBOLS):
        allowed = automaton.allowed(state)
        assert allowed.any(1).all()
        logits = fixed + torch.randn(fixed.shape, generator=generator)
        symbols = logits.masked_fill(~allowed, float("-inf")).argmax(1)
        for row in (~ended & (symbols != END)).nonzero().flatten().tolist():
            outputs[row].append(int(symbols[row]))
        ended |= symbols == END
        state = automaton.advance(state, symbols)
    assert ended.all()
    assert all(len(set(output)) == len(output) and min(output, default=4) >= len(SPECIALS) for output in outputs)
    assert any(not output for output in outputs) == allow_empty


def test_selected_rows_keep_their_own_past():
    automaton = LabelAutomaton(SYMBOLS)
    state = automaton.advance(automaton.start(None, torch.tensor([9, 9])), torch.tensor([5, 7]))
    allowed = automaton.allowed(state.select(torch.tensor([1, 1, 0])))
    assert allowed[:, 5].tolist() == [True, True, False]
    assert allowed[:, 7].tolist() == [False, False, True]
    assert automaton.focus(state).shape == automaton.context(state).shape == (2, 0)


@pytest.mark.parametrize(
    "options",
    [SearchOptions(), SearchOptions(sampling=True), SearchOptions(beam_size=4, num_hypotheses=4)],
    ids=["greedy", "sampling", "beam"],
)
def test_every_search_gives_a_set_under_a_rough_model(make_model, make_batch, options):
    model = make_model(Shape(TokenShape(11), TargetShape(SYMBOLS)), noise=1.0)
    batch = make_batch([3, 7, 5], [2, 2, 2])
    found = strategy_of(Autoregressive).generate(
        model, batch, options=options, limit=torch.tensor([20, 20, 20]), constraint=LabelAutomaton(SYMBOLS)
    )
    for hypotheses in found:
        for hypothesis in hypotheses:
            assert hypothesis.symbols
            assert len(set(hypothesis.symbols)) == len(hypothesis.symbols)
            assert min(hypothesis.symbols) >= len(SPECIALS)


def test_without_a_single_label_the_end_is_the_only_way_out():
    automaton = LabelAutomaton(len(SPECIALS))
    assert automaton.allowed(automaton.start(None, torch.tensor([9])))[0].nonzero().flatten().tolist() == [END]
