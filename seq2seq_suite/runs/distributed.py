"""A run in several processes: each takes its share of every batch, the first one writes, and all end together.

Each process holds the whole model and the whole optimiser, and all make the same batches in the same order. PyTorch's
DistributedDataParallel sums the gradients; torchrun stops all processes when one fails.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from seq2seq_suite.common.types import Batch

_PATIENCE = timedelta(hours=12)  # the first process may fit vocabularies or score for long while the others wait
_NOTICE = 0.2  # seconds that the others wait before they report an error, so that the first process reports it

Value = TypeVar("Value")


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run. All processes must call its collective operations.

    In one process all methods return their argument.

    Args:
        rank: number of this process; 0 is the first, the one that reads and writes the run directory.
        world: how many there are.
        local_rank: number of this process among those of its machine.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """True for the one process that writes."""
        return self.rank == 0

    # -- shares -------------------------------------------------------------------------------------------------

    def share(self, batch: Batch) -> tuple[Batch, bool]:
        """Rows rank, rank + world, ... of a batch, padded as the whole.

        Returns:
            The share, and True if there was none left for this process. It then holds the first row, whose loss must
            not count, so that every process runs the same passes.
        """
        if self.world == 1:
            return batch, False
        rows = range(self.rank, batch.target.size(0), self.world)
        return batch.select(rows or (0,)), not rows

    def deal(self, items: Iterable[Value]) -> Iterator[Value | None]:
        """Every `world`-th item, and None at the end if this process gets fewer than others."""
        return (dealt[self.rank] for dealt in zip_longest(*[iter(items)] * self.world))

    def reseed(self, *place: int) -> None:
        """Seed dropout by a position in the run and the rank.

        The first process keeps its random state, which checkpoints store, so that the others need none.
        """
        if not self.is_first:
            torch.manual_seed(int(np.random.SeedSequence([*place, self.rank]).generate_state(1, np.uint64)[0]))

    # -- sums ---------------------------------------------------------------------------------------------------

    def wrap(self, learner: nn.Module, *, some_unused: bool = False) -> nn.Module:
        """The learner in DistributedDataParallel, with the first process's weights.

        Args:
            learner: its loss is summed over the processes, and so are its gradients.
            some_unused: a pass may leave parameters unused; those that no process used get no gradient.
        """
        if self.world == 1:
            return learner
        device = next(learner.parameters()).device
        wrapped = DistributedDataParallel(
            learner, device_ids=[device] if device.type == "cuda" else None, find_unused_parameters=some_unused
        )
        wrapped.broadcast_buffers = False  # the argument has another name from PyTorch 2.13 on
        wrapped.register_comm_hook(None, _sum)
        return wrapped

    def keeping_apart(self, wrapped: object) -> AbstractContextManager[None]:
        """Accumulates gradients locally within, for a later pass to exchange."""
        return wrapped.no_sync() if isinstance(wrapped, DistributedDataParallel) else nullcontext()

    def summed(self, named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums of scalars over all processes, by name."""
        if self.world == 1:
            return named
        flat = torch.stack(list(named.values()))
        distributed.all_reduce(flat)
        return dict(zip(named, flat.unbind(), strict=True))

    # -- agreement ----------------------------------------------------------------------------------------------

    def first(self, value: Value) -> Value:
        """The first process's value; plain data."""
        if self.world == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box)
        return box[0]

    def highest(self, number: float) -> float:
        """The maximum over all processes; also a barrier."""
        if self.world == 1:
            return number
        found = torch.tensor(number, dtype=torch.float64)
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return float(found)

    def union(self, entries: dict[int, Value]) -> dict[int, Value]:
        """The entries of all processes."""
        if self.world == 1:
            return entries
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, entries)
        return {key: value for part in found for key, value in part.items()}

    @torch.no_grad()
    def copy_weights(self, model: nn.Module) -> None:
        """Give all processes the first one's parameters and buffers."""
        if self.world > 1:
            for tensor in (*model.parameters(), *model.buffers()):
                distributed.broadcast(tensor, 0)

    # -- files --------------------------------------------------------------------------------------------------

    @contextmanager
    def own(self, directory: Path) -> Iterator[Path]:
        """The run's directory for the first process, a temporary directory for each other one."""
        if self.is_first:
            yield directory
        else:
            with tempfile.TemporaryDirectory() as scratch:
                yield Path(scratch)

    def copy_files(self, folder: Path, pattern: str) -> None:
        """Copy files that match the pattern from the first process's folder to the other processes'."""
        if self.world == 1:
            return
        found = [file for file in folder.glob(pattern) if file.is_file()] if self.is_first else []
        files = self.first({str(file.relative_to(folder)): file.read_bytes() for file in found})
        for name, content in () if self.is_first else files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def _sum(_, bucket):  # PyTorch looks into annotations, which are text here
    """The sum of a bucket's gradients over the processes, a future; PyTorch's default is their mean."""
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None  # it is None for processes outside the group
    return work.get_future().then(lambda done: done.value()[0])


ALONE = Ranks()


def ranks() -> Ranks:
    """This process among those that `together` joined; `ALONE` if it did not."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return ALONE
    return Ranks(distributed.get_rank(), distributed.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))


def together(command: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Run a command as one of the processes that torchrun started: gloo between CPUs, NCCL between GPUs.

    Only the first process prints. When one fails, torchrun ends the others, or their next collective operation fails.
    Of the others only the first to fail reports; the first process always says why it ends.

    Args:
        command: returns the exit code and an error message; an exception counts as exit code 1.

    Returns:
        What the command returned; of processes that fail for one reason, one returns its error message.
    """
    from torch.distributed.rendezvous import rendezvous  # a build of torch may lack it

    store, rank, world = next(rendezvous("env://"))
    errors = io.StringIO()
    with ExitStack() as quiet:
        if rank:
            quiet.enter_context(redirect_stdout(quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))))
            quiet.enter_context(redirect_stderr(errors))
        try:
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=_PATIENCE)
            ranks().highest(0.0)  # a process that ended here would break connections that others still make
            code, complaint = command()
        except KeyboardInterrupt:  # before the command, which handles its own
            code, complaint = 130, "interrupted"
        except Exception as error:
            if not _is_loss(error):
                raise
            code, complaint = 1, "the processes of this run have lost their connection"
    if not code:
        distributed.destroy_process_group()
        return code, complaint
    try:
        time.sleep(_NOTICE if rank else 0.0)  # an error of all processes is reported by the first
        reported = store.add("failed", 1) > 1 and rank > 0
    except (KeyboardInterrupt, distributed.DistError):  # torchrun ends this process, too, or has lost the first one
        reported = True
    return code, "" if reported else complaint or errors.getvalue().strip()


def _is_loss(error: BaseException) -> bool:
    """Whether a collective operation failed because another process is gone; gloo and NCCL have no type."""
    return isinstance(error, distributed.DistError) or (
        isinstance(error, RuntimeError) and re.search(r"\bgloo\b|\bNCCL\b", str(error)) is not None
    )
