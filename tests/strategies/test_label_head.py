"""The head that asks of each label whether it belongs to a source, against plain loops."""

import math

import pytest
import torch

from seq2seq_suite.common.types import SPECIALS, States
from seq2seq_suite.strategies.sets import LabelHead, LabelPointing

WIDTH, SYMBOLS, FIRST = 6, 9, len(SPECIALS)


def some(roughen, **options) -> tuple[LabelHead, States]:
    torch.manual_seed(3)
    head = roughen(LabelHead(WIDTH, SYMBOLS, **options), noise=0.5)
    return head, States(torch.randn(2, 4, WIDTH), torch.tensor([[True] * 4, [True] * 3 + [False]]))


@torch.no_grad()
def vectors_of(head: LabelHead, memory: torch.Tensor) -> torch.Tensor:
    """(V,D): what each label's attention finds in a source (S,D)."""
    found = []
    for query in head.queries:
        scores = [math.exp(float(query @ (head.keys.weight @ vector)) / math.sqrt(WIDTH)) for vector in memory]
        found.append(
            sum(score / sum(scores) * head.values(vector) for score, vector in zip(scores, memory, strict=True))
        )
    return torch.stack(found)


@torch.no_grad()
def test_each_label_looks_at_the_source_for_itself(roughen):
    head, states = some(roughen, label_wise=True)
    view = head(states)
    for row, size in enumerate((4, 3)):
        vectors = vectors_of(head, states.values[row, :size])
        torch.testing.assert_close(view.vectors[row], vectors)
        expected = [float(head.weight[label] @ vectors[label] + head.bias[label]) for label in range(FIRST, SYMBOLS)]
        torch.testing.assert_close(view.logits[row], torch.tensor([0.0] * FIRST + expected))


@torch.no_grad()
def test_a_pooled_head_reads_the_mean_and_has_no_pointer(roughen):
    head, states = some(roughen)
    logits = head(states).logits
    for row, size in enumerate((4, 3)):
        expected = head.weight @ states.values[row, :size].mean(0) + head.bias
        torch.testing.assert_close(logits[row, FIRST:], expected[FIRST:])
    assert not hasattr(head, "project")
    with pytest.raises(ValueError, match="label-wise"):
        LabelHead(WIDTH, SYMBOLS, pointer=True)


@pytest.mark.parametrize("beams", [1, 2])
@torch.no_grad()
def test_a_pointer_adds_the_scaled_product_and_a_share_of_the_logit(roughen, beams):
    head, states = some(roughen, label_wise=True, pointer=True)
    view, hidden = head(states), torch.randn(2 * beams, 3, WIDTH)
    pointing = LabelPointing(view, head.project.weight, head.gain)
    found = pointing(hidden)
    torch.testing.assert_close(pointing.select(torch.tensor([1]))(hidden[beams:]), found[beams:])
    for row in range(2 * beams):
        for step in range(3):
            projected = head.project.weight @ hidden[row, step]
            expected = [
                float(projected @ view.vectors[row // beams, label]) / math.sqrt(WIDTH)
                + float(head.gain * view.logits[row // beams, label])
                for label in range(SYMBOLS)
            ]
            torch.testing.assert_close(found[row, step], torch.tensor(expected))


@torch.no_grad()
def test_the_loss_asks_of_every_label_once(roughen):
    head, states = some(roughen)
    view = head(states)
    targets, mask = torch.tensor([[4, 6, 2], [8, 2, 5]]), torch.tensor([[True] * 3, [True, True, False]])
    expected = 0.0
    for row, wanted in enumerate(({4, 6}, {8})):
        for label in range(FIRST, SYMBOLS):
            chance = torch.sigmoid(view.logits[row, label])
            expected = expected - torch.log(chance if label in wanted else 1 - chance)
    torch.testing.assert_close(head.loss(view, targets, mask), expected)
