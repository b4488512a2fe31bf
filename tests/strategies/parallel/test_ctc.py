"""CTC over decoder positions: alignments and losses of paths against enumeration."""

import itertools

import pytest
import torch
from plain import collapse
from torch.nn import functional

from seq2seq_suite.common.types import BLANK, States
from seq2seq_suite.strategies.ctc_head import CtcHead
from seq2seq_suite.strategies.parallel.ctc import align, joint_path_losses, path_loss


@pytest.mark.parametrize("seed", range(3))
def test_ctc_aligns_as_enumeration_does(seed):
    torch.manual_seed(seed)
    scores = torch.randn(3, 5, 4).log_softmax(-1)
    targets, positions = ((1, 2), (3, 3), (2, 1, 3)), (5, 4, 2)
    padded = torch.tensor([[*target, *[BLANK] * (3 - len(target))] for target in targets])
    chosen = scores.gather(2, functional.pad(padded, (1, 0)).unsqueeze(1).expand(-1, 5, -1))
    found = align(chosen, torch.tensor(positions), padded, torch.tensor([2, 2, 3])).tolist()
    for row, (target, count) in enumerate(zip(targets, positions, strict=True)):
        possible = [path for path in itertools.product(range(4), repeat=count) if collapse(path) == target]
        if not possible:
            assert found[row] == [-1] * 5
            continue
        best = max(possible, key=lambda path: sum(float(scores[row, step, one]) for step, one in enumerate(path)))
        assert found[row] == [*best, *[-1] * (5 - count)]


def test_losses_of_paths_are_the_same_in_one_call():
    torch.manual_seed(1)
    head, values = CtcHead(4, 9), torch.randn(2, 4, 4, requires_grad=True)
    states = States(values, torch.arange(4) < torch.tensor([[4], [2]]))
    transcript, target = torch.tensor([[4, 4], [5, 0]]), torch.tensor([[4, 7, 8], [5, 5, 0], [6, 0, 0]])
    scores = torch.randn(3, 6, 4).log_softmax(-1).requires_grad_()
    paths = scores, torch.tensor([6, 5, 3]), target, torch.tensor([3, 2, 1])
    apart = [path_loss(*paths), head.loss(states, transcript)]
    together = joint_path_losses(paths, head.paths(states, transcript))
    torch.testing.assert_close(together, apart)
    learned = [scores, values, *head.parameters()]
    found, wanted = (torch.autograd.grad(sum(losses), learned) for losses in (together, apart))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_batch_of_empty_targets_has_the_loss_of_blanks_alone():
    torch.manual_seed(1)
    logits = torch.randn(2, 5, 3, requires_grad=True)
    positions, none = torch.tensor([5, 3]), torch.zeros(2, dtype=torch.int64)
    both = [
        path_loss(logits.log_softmax(-1)[:, :, : 1 + width], positions, torch.zeros(2, width, dtype=torch.int64), none)
        for width in (0, 2)
    ]
    torch.testing.assert_close(*both)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in both))
