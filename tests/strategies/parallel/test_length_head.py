"""A length is a difference from a share of the source's."""

import pytest
import torch

from seq2seq_suite.common.types import States
from seq2seq_suite.strategies.parallel.length_head import LengthClassifier


@pytest.mark.parametrize(("ratio", "classes"), [(0.0, (3, 2)), (1.5, (-6, -1))])
def test_a_length_is_predicted_as_its_difference_from_a_share_of_the_source(ratio, classes):
    head = LengthClassifier(4, ratio, 32).requires_grad_(False)
    states = States(torch.randn(2, 6, 4), torch.arange(6) < torch.tensor([[6], [2]]))
    assert float(head.loss(states, torch.tensor([3, 2]))) == pytest.approx(
        -sum(float(head(states)[row, head.middle + one]) for row, one in enumerate(classes)), rel=1e-5
    )
