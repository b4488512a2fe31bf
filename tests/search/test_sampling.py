"""Sampling from the head of a distribution."""

import torch

from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.sampling import sample


def test_top_k_and_top_p_keep_the_head_of_the_distribution():
    probabilities = torch.tensor([0.1, 0.4, 0.15, 0.3, 0.05]).log().expand(500, -1)
    torch.manual_seed(4)
    assert set(sample(probabilities, SearchOptions(top_k=2)).tolist()) == {1, 3}
    assert set(sample(probabilities, SearchOptions(top_p=0.69)).tolist()) == {1, 3}
    assert set(sample(probabilities, SearchOptions(top_p=0.71)).tolist()) == {1, 2, 3}
    assert set(sample(probabilities, SearchOptions()).tolist()) == {0, 1, 2, 3, 4}
