"""A learner divided among the processes of a run, by PyTorch's fully_shard (Zhao et al. 2023; Rajbhandari et al. 2020).

Each process keeps its share of weights, gradients, averages and optimiser state, and gathers a layer's weights while
it computes the layer.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.export import register_dataclass

from seq2seq_suite.common.types import Batch, Loss
from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.model.layers import TransformerLayer
from seq2seq_suite.options.training import Training
from seq2seq_suite.runs.distributed import Ranks
from seq2seq_suite.strategies.learner import JointLearner, Learner
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer

register_dataclass(KeysValues)  # in PyTorch 2.11 fully_shard finds tensors in no other dataclass


class Shards:
    """The shards of a learner; called with a batch, the loss of this process's rows.

    The whole learner stays beside them, in the CPU's memory except to decode: checkpoints are those of one process.

    Args:
        whole: the learner.
        options: the configuration's `training`.
        ranks: the processes.
    """

    def __init__(self, whole: Learner | JointLearner, options: Training, ranks: Ranks):
        ranks.copy_weights(whole)
        self.whole, self.options, self.parts = whole, options, copy.deepcopy(whole)
        self.device, self.first = next(whole.parameters()).device, ranks.is_first
        mesh, self._root = init_device_mesh(self.device.type, (ranks.world,)), _Fields(self.parts)
        for module in list(self.parts.modules()):
            for name, parameter in list(module.named_parameters(recurse=False)):
                if not parameter.numel():  # of a guide without symbols, say; fully_shard cannot divide it
                    delattr(module, name)
                    setattr(module, name, parameter.detach())
            if isinstance(module, TransformerLayer):
                if module.cross_attention is not None:  # it is also called without its layer
                    fully_shard(module.cross_attention, mesh=mesh)
                    for name in ("memory_keys_values", "cross"):
                        register_fsdp_forward_method(module.cross_attention, name)
                fully_shard(module, mesh=mesh)
        fully_shard(self._root, mesh=mesh)
        for module in self._root.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # their sum; the default is their mean
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        whole.cpu()

    def __call__(self, batch: Batch) -> Loss:
        with warnings.catch_warnings():  # keys and values are views, as PyTorch says; nothing changes them in place
            warnings.filterwarnings("ignore", "FSDP2-wrapped module")
            return Loss(*self._root(batch))

    @contextmanager
    def decoding(self, average: MovingAverage | None) -> Iterator[None]:
        """The whole learner is on the device, with these averages or else the weights."""
        self._gather({} if average is None else average.weights)
        self.whole.to(self.device)
        try:
            yield
        finally:
            self.whole.cpu()

    @torch.no_grad()
    def gathered(
        self, optimizer: torch.optim.Optimizer, average: MovingAverage | None
    ) -> tuple[Learner | JointLearner, torch.optim.Optimizer, MovingAverage | None]:
        """The whole learner, and optimiser and averages of its parameters, on the CPU; those of the first process hold
        what the shards do."""
        self._gather({})
        whole = build_optimizer(self.whole, self.options)
        averages = None if average is None else MovingAverage(self.whole, average.decay)
        for name, parameter, part in self._pairs():
            for key, value in optimizer.state[part].items():
                value = self.full(value)
                if self.first:
                    whole.state[parameter][key] = value.cpu()
            if averages is not None and average is not None and name in averages.weights:
                averages.weights[name].copy_(self.full(average.weights[name]))
        return self.whole, whole, averages

    @staticmethod
    def full(tensor: Tensor) -> Tensor:
        """The whole of a tensor in shards; all processes must ask for it."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    @torch.no_grad()
    def scatter(
        self,
        whole: torch.optim.Optimizer,
        averages: MovingAverage | None,
        optimizer: torch.optim.Optimizer,
        average: MovingAverage | None,
    ) -> None:
        """Take over the whole learner's weights, and the state of its optimiser and averages."""
        for name, parameter, part in self._pairs():
            part.copy_(_like(part, parameter))
            optimizer.state[part] = {key: _like(part, value) for key, value in whole.state[parameter].items()}
            if average is not None and averages is not None and name in averages.weights:
                average.weights[name] = _like(part, averages.weights[name])
        for buffer, part in zip(self.whole.buffers(), self.parts.buffers(), strict=True):
            part.copy_(buffer)

    @torch.no_grad()
    def _gather(self, averages: dict[str, Tensor]) -> None:
        for name, whole, part in self._pairs():
            whole.copy_(self.full(averages.get(name, part)))
        for whole, part in zip(self.whole.buffers(), self.parts.buffers(), strict=True):
            whole.copy_(part)

    def _pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Each parameter's name, whole and in shards; empty ones have none."""
        parts = dict(self.parts.named_parameters())
        return ((name, whole, parts[name]) for name, whole in self.whole.named_parameters() if whole.numel())


class _Fields(nn.Module):
    """A learner's loss as a tuple, in which fully_shard finds the tensors."""

    def __init__(self, learner: Learner | JointLearner):
        super().__init__()
        self.learner = learner

    def forward(self, batch: Batch) -> tuple[dict, dict, dict]:
        loss = self.learner(batch)
        return loss.sums, loss.counts, loss.weights


def _like(part: Tensor, whole: Tensor) -> Tensor:
    """A tensor in shards like a parameter's; scalars, such as Adam's count of steps, are whole in each process."""
    whole = whole.detach().to(part.device)
    if not isinstance(part, DTensor) or whole.shape != part.shape:
        return whole
    return distribute_tensor(whole, part.device_mesh, part.placements, src_data_rank=None)
