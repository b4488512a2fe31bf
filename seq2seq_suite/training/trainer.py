"""The training loop, readable from top to bottom."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import Interrupted, RunError
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.types import Batch
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.data.mixture import Mixture
from seq2seq_suite.options.training import Training
from seq2seq_suite.runs import weights
from seq2seq_suite.runs.distributed import ALONE, Ranks
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.strategies.learner import JointLearner, Learner, Trained
from seq2seq_suite.terminal.progress import Progress as ProgressDisplay
from seq2seq_suite.training import checkpoint, choosing
from seq2seq_suite.training.balance import GradientBalance
from seq2seq_suite.training.choosing import Metric
from seq2seq_suite.training.interval import Interval
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer, learning_rate, set_rate
from seq2seq_suite.training.stopping import StopRequest


@dataclass(kw_only=True)
class Trainer:
    """Everything that a run trains with.

    Args:
        run: where to write.
        options: the configuration's `training`.
        learner: what is trained.
        batches: the training data in batches.
        validate: gives the metrics on the validation split; calls its argument before each batch.
        metric: chooses the best checkpoint.
        device: of the learner.
        precision: torch.float32 or torch.bfloat16 for matrix products.
        origins: where each training example came from, for messages.
        ranks: the processes that train together, this one among them.
        balance: how the gradients of a joint run's tasks are added; None adds them as they are.
    """

    run: RunDirectory
    options: Training
    learner: Learner | JointLearner
    batches: Bucketed | Mixture
    validate: Callable[[Callable[[], None]], dict[str, float]]
    metric: Metric
    device: torch.device
    precision: torch.dtype
    origins: Sequence[str]
    ranks: Ranks = ALONE
    balance: GradientBalance | None = None
    progress: checkpoint.Progress = field(default_factory=checkpoint.Progress)

    def __post_init__(self) -> None:
        self.shards = None
        if self.options.shard and self.ranks.world > 1:
            from seq2seq_suite.training.shards import Shards  # half a second that other runs need not wait

            self.shards = Shards(self.learner, self.options, self.ranks)
        self.trained = self.learner if self.shards is None else self.shards.parts
        self.engine = self.shards or self.ranks.wrap(self.learner, some_unused=isinstance(self.learner, JointLearner))
        self.optimizer = build_optimizer(self.trained, self.options)
        self.average = MovingAverage(self.trained, self.options.ema_decay) if self.options.ema_decay else None
        self._started = time.monotonic()
        self._unchecked: list[tuple[int, tuple[int, ...], Tensor]] = []

    def run_to_best(self, *, resume: bool) -> None:
        """Train to the limits, from the newest checkpoint if asked, and load the best checkpoint's weights."""
        if resume:
            self.resume()
        if self.progress.finished and self.limit_reached():
            print(finished(self.progress, self.limit_reached()))
        else:
            self.train()
        self.learner.to(self.device)  # shards leave it on the CPU
        if self.ranks.is_first:
            weights.load_best(self.run.path, self.learner)
        self.ranks.copy_weights(self.learner)

    def cost(self) -> dict[str, Any]:
        """The cost of training and the model's size, for the summary; memory is the device's, or of the process."""
        progress = self.progress
        return {
            "seconds": round(progress.seconds, 2),
            "updates": progress.update,
            "best_update": progress.best_update,
            "tokens": progress.tokens,
            "parameters": self.learner.num_parameters(),
            "core_parameters": self.learner.num_core_parameters(),
            "learning_parameters": self.learner.num_parameters(learning=True),
            "tokens_per_second": round(progress.tokens / max(progress.seconds, 1e-9), 1),
            "peak_memory_mb": round(peak_memory(self.device) / 1e6, 1),
        }

    def resume(self) -> None:
        """Continue from the newest valid checkpoint, if there is one; print the result."""
        parts = self._to_save()
        found, complaints = checkpoint.load_newest(self.run.checkpoints, *parts) if self.ranks.is_first else (None, [])
        found = self.ranks.first(found)
        if found is not None:
            self.ranks.copy_files(self.run.checkpoints, f"step-{found.update}/*")
            if not self.ranks.is_first:
                checkpoint.load_newest(self.run.checkpoints, *parts)
                shutil.rmtree(self.run.checkpoints)
        for complaint in complaints:
            self.run.say(complaint)
        if found is None:
            self.run.say("nothing to resume: no checkpoint yet, starting from the beginning")
            self.run.truncate_metrics(0, validated=0)
            return
        if self.shards is not None:
            self.shards.scatter(*parts[1:], self.optimizer, self.average)
        self.progress = found
        if self.balance is not None:
            self.balance.norms = dict(found.gradient_norms)
        ended_early = found.update > 1 and found.update % self.options.log_every > 0  # with a row that goes on now
        self.run.truncate_metrics(found.update - ended_early, validated=found.validated_update)
        self.run.say(
            f"resuming at update {found.update} of {self.options.max_updates} "
            f"(epoch {found.epoch + 1}, {found.seconds / 60:.1f} minutes trained); limits count from the start"
        )

    def train(self) -> None:
        """Train to the limits.

        Raises:
            Interrupted: a signal came; the state was saved.
            RunError: the loss is no longer finite.
        """
        progress, options = self.progress, self.options
        progress.finished = False
        self._started = time.monotonic() - progress.seconds
        self._display = ProgressDisplay(options.max_updates)
        stream = self.batches.batches(progress.epoch, progress.position)
        self._interval, began = Interval(progress), progress.update
        self._logged = began
        with StopRequest(self.ranks).listening() as stop, self._display:
            try:
                # A run stopped between update and validation has not validated.
                if progress.update and progress.update % options.validate_every == 0 and self._validate(stop):
                    self._save()
                while not self.limit_reached():
                    stop.raise_if_set()
                    losses, rate = self._update([next(stream) for _ in range(options.accumulate)])
                    self._interval.add(losses)
                    if progress.update == 1 or progress.update % options.log_every == 0 or self.limit_reached():
                        self._check_finite()
                        self._log(rate)
                    elif progress.update == began + 1:  # soon, not only after `log_every`
                        self._show(rate)
                    validated = progress.update % options.validate_every == 0 and self._validate(stop)
                    if validated or progress.update % options.save_every == 0:
                        self._save()
                if self._logged < progress.update:  # after `training.patience`
                    self._check_finite()
                    self._log(rate)
                if self.progress.validated_update != progress.update:
                    self._validate(stop)
                if said := choosing.constancy(progress, self.metric.name, ended=True):
                    self.run.say(said)
                self.run.say(f"training ends at update {progress.update}: {self.limit_reached()}")
                progress.finished = True
                self._save()
                stop.raise_if_set()
            except Interrupted:
                self._save()
                raise

    def _update(self, parts: list[tuple[int, int, Batch]]) -> tuple[dict[str, Tensor], float]:
        """One step of the optimiser over `accumulate` batches; the named mean losses, and the learning rate."""
        progress = self.progress
        batches = [batch for _, _, batch in parts]
        counts = [self.learner.counts(batch) for batch in batches]
        names = dict.fromkeys(name for count in counts for name in count)  # tasks have different losses
        totals = {name: max(1, int(sum(count.get(name, 0) for count in counts))) for name in names}
        self.trained.train()
        self.trained.set_fraction_done(_fraction(self.options, progress))
        self.ranks.reseed(self.batches.seed, progress.update)
        means: dict[str, Tensor] = {}
        groups = grouped((batch.task, batch) for batch in batches)
        ends = [group[-1] for group in groups.values()]  # after which gradients are exchanged
        ends = ends[-1:] if self.balance is None else ends
        for task, group in groups.items():
            with nullcontext() if self.balance is None else self.balance.of(task):
                for batch in group:
                    share, spare = self.ranks.share(batch)
                    with nullcontext() if any(batch is end for end in ends) else self.ranks.keeping_apart(self.engine):
                        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
                            loss = self.engine(share.to(self.device))
                        mean = {name: loss.sums[name] / (math.inf if spare else totals[name]) for name in loss.sums}
                        reduce(add, (loss.weights[name] * mean[name] for name in loss.weights)).backward()
                    means |= {name: means.get(name, 0.0) + value.detach() for name, value in mean.items()}
        means = self.ranks.summed(means)
        norm = torch.nn.utils.clip_grad_norm_(self.trained.parameters(), self.options.clip_norm)
        norm = norm if self.shards is None else self.shards.full(norm)
        rate = learning_rate(self.options, progress.update, _fraction(self.options, progress))
        set_rate(self.optimizer, rate)
        rows = tuple(index for batch in batches for index in batch.indices)
        self._unchecked.append((progress.update + 1, rows, norm + sum(means.values())))
        if self.device.type == "cpu":
            self._check_finite()
        self.optimizer.step()
        self.optimizer.zero_grad()
        progress.update += 1
        progress.epoch, progress.position = parts[-1][0], parts[-1][1]
        progress.tokens += sum(int(batch.target_mask.sum()) + int(batch.source_mask.sum()) for batch in batches)
        progress.seconds = self._seconds()
        if self.average is not None:
            self.average.update(self.trained, progress.update)
        return means, rate

    def _validate(self, stop: StopRequest) -> bool:
        """Decode the validation split, at most once per update; note whether it is the best so far."""
        progress = self.progress
        if progress.validated_update == progress.update:
            return False
        began = time.monotonic()
        with self._weights_to_use():
            figures = self.ranks.first(self.validate(stop.raise_if_set))
        better = choosing.note_validation(progress, figures, self.metric)
        progress.seconds = self._seconds()
        progress.validation_seconds += time.monotonic() - began
        self.run.append_metrics(
            {
                "update": progress.update,
                "split": "validation",
                "seconds": progress.seconds,
                "tokens": progress.tokens,
                **figures,
            }
        )
        self.run.log(
            f"validation at update {progress.update}: "
            + "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
            + ("  (best)" if better else "")
        )
        self._display.validation(progress.update, figures, better)
        if said := choosing.constancy(progress, self.metric.name):
            self.run.say(said)
        return True

    def _weights_to_use(self) -> AbstractContextManager[None]:
        """Within, the learner has the weights to decode with: their averages if they are kept."""
        if self.shards is not None:
            return self.shards.decoding(self.average)
        return nullcontext() if self.average is None else self.average.swapped(self.learner)

    def _to_save(self) -> tuple[Trained, torch.optim.Optimizer, MovingAverage | None]:
        """Learner, optimiser and averages, whole."""
        if self.shards is not None:
            return self.shards.gathered(self.optimizer, self.average)
        return self.learner, self.optimizer, self.average

    def limit_reached(self) -> str:
        """Why training ends; empty while it continues."""
        return limit_reached(self.options, self.progress, self.metric.name)

    def _save(self) -> None:
        self._check_finite()
        self.progress.since_logged = self._interval.state()
        norms = {} if self.balance is None else self.balance.norms
        self.progress.gradient_norms = {task: float(norm) for task, norm in norms.items()}
        self.run.check_there()
        parts = self._to_save()
        if self.ranks.is_first:
            checkpoint.save(self.run.checkpoints, *parts, self.progress, keep=self.options.keep_checkpoints)
        self.ranks.highest(0)  # wait until the first process has saved

    def _seconds(self) -> float:
        """Seconds trained, the same in all processes, because the learning rate may depend on it."""
        return self.ranks.highest(time.monotonic() - self._started)

    def _check_finite(self) -> None:
        """Raise RunError with the rows of the first update whose loss or gradient is not finite."""
        unchecked, self._unchecked = self._unchecked, []
        values = torch.stack([value for *_, value in unchecked]).tolist() if unchecked else []
        for (update, rows, _), value in zip(unchecked, values, strict=True):
            if not math.isfinite(value):
                origins = [self.origins[row] for row in rows]
                first = ", ".join(origins[:8]) + (f" and {len(origins) - 8} more" if len(origins) > 8 else "")
                raise RunError(
                    f"the loss or its gradient is not finite at update {update}; the batch had {first}. "
                    f"The last checkpoint is untouched. A lower training.learning_rate, a longer "
                    f"training.warmup_updates or training.precision=float32 usually helps."
                )

    def _show(self, rate: float) -> tuple[dict[str, float], float, str]:
        """Show the mean losses since `log_every` was reached last, and tokens a second; returns both, and in words."""
        progress, interval = self.progress, self._interval
        means = interval.means()
        speed = (progress.tokens - interval.tokens) / max(1e-9, progress.seconds - interval.seconds)
        own = {name.rpartition("/")[0]: mean for name, mean in reversed(means.items())}  # of each task the first loss
        words = self._display.update(
            progress.update,
            fraction=_fraction(self.options, progress),
            loss=sum(own.values()) / len(own),
            tokens_per_second=speed,
            learning_rate=rate,
        )
        return means, speed, words

    def _log(self, rate: float) -> None:
        """A row of metrics.jsonl and its words in log.txt: of the first update, every `log_every`th and the last."""
        progress, (means, speed, words) = self.progress, self._show(rate)
        self._logged = progress.update
        self.run.log(words)
        self.run.append_metrics(
            {
                "update": progress.update,
                "split": "train",
                "epoch": progress.epoch + 1,
                "seconds": progress.seconds,
                "tokens": progress.tokens,
                "learning_rate": rate,
                "tokens_per_second": speed,
                **{f"loss_{name}": mean for name, mean in means.items()},
            }
        )
        if progress.update % self.options.log_every == 0:  # a run that goes on has the same rows as one in one piece
            progress.since_logged = {}
            self._interval = Interval(progress)


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that tensors on a GPU took, or this process on a CPU; 0 where it is not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def limit_reached(options: Training, progress: checkpoint.Progress, metric: str) -> str:
    """Why training is over, `metric` being what `training.patience` watches; empty while it continues."""
    if progress.update >= options.max_updates:
        return f"training.max_updates={options.max_updates} is reached"
    if _fraction(options, progress) >= 1.0:
        return f"training.max_minutes={options.max_minutes:g} is reached"
    if options.patience and progress.validations_since_best >= options.patience:
        watched = choosing.watched(progress, metric)
        return f"{options.patience} validations without a better {watched} (training.patience)"
    return ""


def finished(progress: checkpoint.Progress, why: str) -> str:
    """The message for a run that has nothing left to train."""
    return f"this run is finished ({progress.update} updates): {why}; raise the limit to extend it"


def _fraction(options: Training, progress: checkpoint.Progress) -> float:
    return max(progress.update / options.max_updates, progress.seconds / 60 / options.max_minutes)
