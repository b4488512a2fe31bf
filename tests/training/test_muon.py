"""Muon is PyTorch's, in the precision that the processor has."""

import pytest
import torch
from torch import nn

from seq2seq_suite.training import muon
from seq2seq_suite.training.muon import Muon


def test_muon_is_torchs():
    torch.manual_seed(1)
    shapes = [(8, 24), (8, 24), (24, 8), (6, 6), (8, 24)]
    ours, theirs = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    own = Muon(ours, lr=0.1, weight_decay=0.3)
    other = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for one, two in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            two.grad = one.grad.clone()
        ours[4].grad = theirs[4].grad = None  # not every matrix is used in every update
        own.step()
        other.step()
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0.01, atol=0.005)
    with pytest.raises(ValueError, match="matrices only"):
        Muon([nn.Parameter(torch.ones(3))], lr=0.1, weight_decay=0.0)


@pytest.mark.parametrize(("can", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_muon_multiplies_in_bfloat16_only_where_that_is_not_emulated(can, dtype, monkeypatch):
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda device: can)
    found = muon.orthogonal(torch.randn(2, 6, 9, generator=torch.Generator().manual_seed(0)))
    values = torch.linalg.svdvals(found.float())
    assert found.dtype == dtype and float(values.min()) > 0.5 and float(values.max()) < 1.4
