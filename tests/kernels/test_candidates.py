"""The quick way to a row's largest scores finds what sorting finds."""

import pytest
import torch

from seq2seq_suite.common.types import NEVER
from seq2seq_suite.kernels.candidates import likeliest, top_k


@pytest.mark.parametrize("symbols", [3, 27, 300, 640, 2560, 2561, 8000, 8039])
@pytest.mark.parametrize("count", [1, 4, 10])
def test_top_is_topk_at_any_number_of_symbols(symbols, count):
    generator = torch.Generator().manual_seed(symbols)
    scores = torch.stack([torch.randperm(symbols, generator=generator).float() for _ in range(5)])
    scores[scores < symbols // 2] = NEVER
    best, places = top_k(scores, count)
    assert torch.equal(best, scores.topk(min(count, symbols), 1).values)
    assert torch.equal(best, scores.gather(1, places))


def test_the_last_symbols_count_although_they_fill_no_block():
    scores = torch.zeros(2, 1000)
    scores[:, -1], scores[:, -2] = 2.0, 1.0
    best, places = top_k(scores, 2)
    assert best.tolist() == [[2.0, 1.0]] * 2 and places.tolist() == [[999, 998]] * 2


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("symbols", [64, 300, 512, 571])
def test_the_likeliest_symbol_is_the_first_of_largest_score(rows, symbols):
    scores = torch.randint(0, 40, (rows, symbols), generator=torch.Generator().manual_seed(symbols)).float()
    scores[:, 1:4] = float("-inf")
    scores[0, -1] = 50.0  # behind the last whole block, where there is one
    best, places = likeliest(scores)
    assert best.tolist() == scores.amax(1).tolist()
    assert places.tolist() == [row.index(max(row)) for row in scores.tolist()]
