"""Expected bigrams against enumeration of all paths."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch.nn import functional

from seq2seq_suite.common.types import BLANK
from seq2seq_suite.strategies.parallel.bigram_loss import (
    bigram_disagreement,
    collapsed_disagreement,
    graph_disagreement,
)

BEGINNING, FINISH = "beginning", "end"


def disagreement(expected: Counter, target: list) -> float:
    wanted = Counter(itertools.pairwise(target))
    matched = sum(min(count, expected[pair]) for pair, count in wanted.items())
    return 1.0 - 2.0 * matched / (sum(expected.values()) + len(target) - 1)


def collapsed_by_enumeration(probabilities: torch.Tensor, target: list[int]) -> float:
    expected = Counter()
    positions, symbols = probabilities.shape
    for path in itertools.product(range(symbols), repeat=positions):
        chance = math.prod(float(probabilities[place, symbol]) for place, symbol in enumerate(path))
        output = [symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK]
        for pair in itertools.pairwise([BEGINNING, *output, FINISH]):
            expected[pair] += chance
    return disagreement(expected, [BEGINNING, *target, FINISH])


@pytest.mark.parametrize("seed", range(3))
def test_the_bigrams_of_collapsed_paths_are_those_of_all_paths(seed):
    torch.manual_seed(seed)
    probabilities = (2.0 * torch.randn(3, 6, 3)).softmax(-1)
    rows = [[1, 2, 2], [2, 1, 2, 1, 1], [2, 1]]  # the last symbol is a new one in the third alone
    lengths, positions = torch.tensor([3, 5, 2]), torch.tensor([4, 6, 5])
    target = torch.tensor([row + [BLANK] * (5 - len(row)) for row in rows])
    mask = torch.arange(6) < positions.unsqueeze(1)
    scores = probabilities.log().gather(2, functional.pad(target, (1, 0)).unsqueeze(1).expand(-1, 6, -1))
    got = collapsed_disagreement(scores * mask.unsqueeze(2), target, lengths, mask)
    for row in range(3):
        wanted = collapsed_by_enumeration(probabilities[row, : positions[row]], rows[row])
        assert float(got[row]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_bigrams_of_a_graph_are_those_of_all_its_paths(seed):
    torch.manual_seed(seed)
    vertices, target = [4, 5], [[1, 2, 3], [1, 1, 2, 1, 1]]
    backward = ~torch.ones(5, 5).triu(1).bool()
    mask = torch.arange(5) < torch.tensor(vertices).unsqueeze(1)
    unlinked = backward | ~mask.unsqueeze(1) | ~mask.unsqueeze(2)
    links = torch.randn(2, 5, 5).masked_fill(unlinked, -1e30).log_softmax(-1).masked_fill(unlinked, -1e30)
    writes = (2.0 * torch.randn(2, 5, 4)).softmax(-1)
    padded = torch.tensor([[1, 2, 3, 0, 0], target[1]])
    scores = writes.log().gather(2, padded.unsqueeze(1).expand(-1, 5, -1))
    got = graph_disagreement(scores * mask.unsqueeze(2), links, padded, torch.tensor([3, 5]), mask)
    for row, count in enumerate(vertices):
        expected = Counter()
        for inner in itertools.chain.from_iterable(
            itertools.combinations(range(1, count - 1), size) for size in range(count - 1)
        ):
            path = (0, *inner, count - 1)
            chance = math.prod(float(links[row, one, two].exp()) for one, two in itertools.pairwise(path))
            for one, two in itertools.pairwise(path):
                for pair in itertools.product(range(4), repeat=2):
                    expected[pair] += chance * float(writes[row, one, pair[0]] * writes[row, two, pair[1]])
        assert float(got[row]) == pytest.approx(disagreement(expected, target[row]), abs=1e-5)


def test_an_output_that_is_the_target_disagrees_in_nothing_and_another_in_all():
    target = torch.tensor([[1, 2, 1, 2], [1, 2, 3, 0]])
    lengths = torch.tensor([4, 3])
    exact = torch.tensor([[2.0, 1.0, 2.0], [1.0, 1.0, 0.0]])
    assert bigram_disagreement(exact, torch.tensor([3.0, 2.0]), target, lengths).tolist() == [0.0, 0.0]
    assert bigram_disagreement(torch.zeros(2, 3), torch.tensor([3.0, 2.0]), target, lengths).tolist() == [1.0, 1.0]
    more = bigram_disagreement(2.0 * exact, torch.tensor([6.0, 4.0]), target, lengths)  # said twice, counted once
    torch.testing.assert_close(more, torch.tensor([1.0 - 2.0 * 3 / 9, 1.0 - 2.0 * 2 / 6]))


def test_bigrams_are_counted_in_float32_under_autocast():
    torch.manual_seed(1)
    logits, target = torch.randn(2, 9, 6), torch.tensor([[1, 2, 3], [4, 5, 1]])
    scores = logits.log_softmax(-1).gather(2, functional.pad(target, (1, 0)).unsqueeze(1).expand(-1, 9, -1))
    given = scores, target, torch.tensor([3, 3]), torch.ones(2, 9, dtype=torch.bool)
    wanted = collapsed_disagreement(*given)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(collapsed_disagreement(*given), wanted)


def test_the_slope_is_that_of_small_differences():
    torch.manual_seed(1)
    logits = torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)
    target, mask = torch.tensor([[1, 3, 3]]), torch.ones(1, 5, dtype=torch.bool)
    columns = functional.pad(target, (1, 0)).unsqueeze(1).expand(-1, 5, -1)
    assert torch.autograd.gradcheck(
        lambda z: collapsed_disagreement(z.log_softmax(-1).gather(2, columns), target, torch.tensor([3]), mask), logits
    )
    backward = ~torch.ones(5, 5).triu(1).bool()
    weights = torch.randn(1, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w, z: graph_disagreement(
            z.log_softmax(-1).gather(2, columns[..., 1:]),
            w.masked_fill(backward, -1e30).log_softmax(-1).masked_fill(backward, -1e30),
            target,
            torch.tensor([3]),
            mask,
        ),
        (weights, logits),
    )
