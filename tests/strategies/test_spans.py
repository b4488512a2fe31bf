"""The classifier of spans, against a loop over all pairs of words."""

import itertools

import torch
from torch.nn.functional import relu, softplus

from seq2seq_suite.common.types import Batch, States
from seq2seq_suite.strategies.spans import SpanHead, Spans

WIDTH, LENGTHS = 8, (7, 5)  # with sentinels
BRACKETS = [[(1, 5), (2, 3), (5, 5)], [(1, 3), (-1, -1), (-1, -1)]]


def odds(head, states, first, last):
    """Of one span of one sentence (S,D)."""
    half = WIDTH // 2
    start = head.first(torch.cat((states[first - 1, :half], states[first, half:])))
    end = head.last(torch.cat((states[last, :half], states[last + 1, half:])))
    return head.output(relu(head.norm(start + end))).squeeze()


def test_the_loss_is_that_of_a_loop_over_all_spans_of_words():
    torch.manual_seed(1)
    spans = Spans("spans", SpanHead(WIDTH), 0.5)
    mask, nothing = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1), torch.zeros(2, 0)
    batch = Batch(nothing, mask, nothing, nothing, nothing, "parsing", auxiliary={"spans": torch.tensor(BRACKETS)})
    states = States(torch.randn(2, 7, WIDTH), mask)
    expected = 0.0
    for row, length in enumerate(LENGTHS):
        for first, last in itertools.combinations_with_replacement(range(1, length - 1), 2):
            found = odds(spans.head, states.values[row], first, last).detach()
            expected += softplus(-found if (first, last) in BRACKETS[row] else found)
    assert int(spans.count(batch)) == 4
    torch.testing.assert_close(spans.loss(states, batch), expected)
