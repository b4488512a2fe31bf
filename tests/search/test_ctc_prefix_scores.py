"""CTC against brute force over all paths: loss, prefix probabilities, best path, and search by them."""

import itertools
import math

import pytest
import torch

from seq2seq_suite.common.types import BLANK, END, NEVER, States
from seq2seq_suite.search.ctc_beam import ctc_beam
from seq2seq_suite.search.ctc_prefix_scores import Prefixes, ctc_greedy
from seq2seq_suite.strategies.ctc_head import CtcHead, positions_needed

SYMBOLS = 6  # blank, BEGIN, END, UNKNOWN and two letters
LETTERS = (4, 5)


def collapse(path):
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK)


def outputs(scores):
    """Probability of each output of one item, by enumeration; scores (S,V)."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product((BLANK, *LETTERS), repeat=scores.size(0)):
        probability = math.exp(sum(float(scores[place, symbol]) for place, symbol in enumerate(path)))
        found[collapse(path)] = found.get(collapse(path), 0.0) + probability
    return found


@pytest.fixture
def scores():
    """(2,5,V) over blank and letters alone; the second item ends after three positions."""
    torch.manual_seed(0)
    logits = torch.randn(2, 5, SYMBOLS, dtype=torch.float64)
    logits[..., [1, END, 3]] = float("-inf")
    found = logits.log_softmax(-1)
    found[1, 3:] = float("-inf")
    found[1, 3:, BLANK] = 0.0
    return found


def test_prefix_probabilities_are_sums_over_outputs(scores):
    for prefix in ((), (4,), (4, 4), (4, 5), (5, 5, 4)):
        state = Prefixes.empty(scores)
        for symbol in prefix:
            state = state.advance(torch.full((2,), symbol))
        for item in range(2):
            all_outputs = outputs(scores[item, : 5 if item == 0 else 3])
            whole = sum(p for output, p in all_outputs.items() if output[: len(prefix)] == prefix)
            assert math.exp(float(state.total[item])) == pytest.approx(whole, abs=1e-12)
            if whole == 0.0:
                continue
            gains = state.log_probs()[item]
            assert float(gains[BLANK]) == NEVER
            for letter in LETTERS:
                longer = sum(p for output, p in all_outputs.items() if output[: len(prefix) + 1] == (*prefix, letter))
                assert math.exp(float(gains[letter])) == pytest.approx(longer / whole, abs=1e-12)
            assert math.exp(float(gains[END])) == pytest.approx(all_outputs.get(prefix, 0.0) / whole, abs=1e-12)


def test_a_wide_beam_finds_all_outputs_with_the_sums_over_their_paths(scores):
    for item, places in enumerate((5, 3)):
        expected = outputs(scores[item, :places])
        found = dict(ctc_beam(scores[item, :places], 200))
        assert {output: math.exp(score) for output, score in found.items()} == pytest.approx(expected, abs=1e-12)
        assert next(iter(found)) == max(expected, key=expected.get)


def test_a_wide_beam_adds_what_the_language_says_of_each_symbol_and_of_the_end(scores):
    def language(output, symbol):
        return 0.1 * len(output) - 0.3 * symbol - 0.2 * (output[-1:] == (symbol,))

    for item, places in enumerate((5, 3)):
        expected = {
            output: math.log(p) + sum(language(output[:place], symbol) for place, symbol in enumerate((*output, END)))
            for output, p in outputs(scores[item, :places]).items()
        }
        found = ctc_beam(scores[item, :places], 200, language)
        assert dict(found) == pytest.approx(expected, abs=1e-9)
        assert found[0][0] == max(expected, key=expected.get)


def test_with_a_language_symbols_of_less_than_a_thousandth_are_not_tried():
    scores = torch.tensor([[0.9985, 0.0, 0.0, 0.0, 0.0005, 0.001 + 1e-6]]).log()
    found = ctc_beam(scores, 9, lambda output, symbol: 9.0 if symbol == 4 else 0.0)
    assert [output for output, _ in found] == [(), (5,)]
    assert len(ctc_beam(scores, 9)) == 3


def test_a_narrow_beam_keeps_what_is_likeliest():
    scores = torch.tensor([[0.4, 0.0, 0.0, 0.0, 0.6, 0.0], [0.4, 0.0, 0.0, 0.0, 0.5, 0.1]]).log()
    (output, score), other = ctc_beam(scores, 2)
    assert output == (4,) and math.exp(score) == pytest.approx(0.6 * 0.4 + 0.6 * 0.5 + 0.4 * 0.5)
    assert other[0] == () and math.exp(other[1]) == pytest.approx(0.16)


def test_rows_are_selected_and_repeated_side_by_side(scores):
    state = Prefixes.empty(scores).select(torch.tensor([0, 0, 1, 1])).advance(torch.tensor([4, 5, 4, 5]))
    apart = [Prefixes.empty(scores).advance(torch.full((2,), letter)) for letter in LETTERS]
    for row, (item, letter) in enumerate(itertools.product(range(2), range(2))):
        assert torch.equal(state.log_probs()[row], apart[letter].log_probs()[item])
    last = state.select(torch.tensor([3]))
    assert torch.equal(last.log_probs()[0], apart[1].log_probs()[1])


def test_the_loss_is_that_of_all_paths_and_of_nothing_else():
    torch.manual_seed(1)
    head, values = CtcHead(4, SYMBOLS).requires_grad_(False), torch.randn(3, 5, 4)
    states = States(values, torch.arange(5) < torch.tensor([[5], [3], [2]]))
    transcript = torch.tensor([[4, 4, 5], [5, 0, 0], [4, 4, 0]])  # the last one needs three positions and has two
    expected = 0.0
    for item, length in ((0, 5), (1, 3)):
        wanted = tuple(transcript[item][transcript[item] != BLANK].tolist())
        probabilities = head(states)[item, :length].double()
        total = sum(
            math.exp(sum(float(probabilities[place, symbol]) for place, symbol in enumerate(path)))
            for path in itertools.product(range(SYMBOLS), repeat=length)
            if collapse(path) == wanted
        )
        expected -= math.log(total)
    assert float(head.loss(states, transcript)) == pytest.approx(expected, rel=1e-5)
    assert positions_needed(transcript).tolist() == [4, 1, 3]


def test_beyond_an_items_end_the_blank_is_certain():
    torch.manual_seed(2)
    head, values = CtcHead(4, SYMBOLS), torch.randn(2, 5, 4)
    states = States(values, torch.arange(5) < torch.tensor([[5], [3]]))
    alone = head(States(values[1:, :3], states.mask[1:, :3]))
    assert torch.allclose(head(states)[1, :3], alone[0])
    (symbols, score), (expected, total) = ctc_greedy(head(states))[1], ctc_greedy(alone)[0]
    assert symbols == expected and score == pytest.approx(total)
