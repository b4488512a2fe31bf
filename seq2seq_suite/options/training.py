"""The sections `training` and `mixture`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from seq2seq_suite.common.errors import truncate
from seq2seq_suite.common.user_code import is_code
from seq2seq_suite.options.schedules import SCHEDULES
from seq2seq_suite.options.section import (
    LARGEST,
    Few,
    FewOrNone,
    Fraction,
    Limit,
    NotNegative,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    ShareOrNone,
    name_or_code,
)


@dataclass(frozen=True)
class Optimizer:
    """What `training.optimizer` names.

    Args:
        builder: function of `training/`, as module.NAME: called with the model, the section `training` and the
            options, it gives the optimiser.
        options: what `training.optimizer_options` may set, and the defaults.
        without: a key -> why it must be false with this optimiser.
    """

    builder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)


_ADAMW = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, section 5.3

# The list of all. A new one is its file and its row.
OPTIMIZERS = {
    "adamw": Optimizer("optimizer.adamw", _ADAMW),
    "muon": Optimizer(
        "muon.muon", {**_ADAMW, "momentum": 0.95, "factor": 3.0}, without={"training.shard": "it needs whole matrices"}
    ),
}
_OWN = Optimizer("optimizer.of_user", without={"training.shard": "code of your own may need whole matrices"})


def optimizer_of(name: str) -> Optimizer:
    """The row of an optimiser; that of `FILE.py:NAME` is one for all."""
    return _OWN if is_code(name) else OPTIMIZERS[name]


if TYPE_CHECKING:
    OptimizerName = ScheduleName = str
else:
    OptimizerName = name_or_code(OPTIMIZERS)
    ScheduleName = Literal[*SCHEDULES]


class Training(Section):
    """How the weights are learned. Both limits hold; the learning rate decays to whichever comes first."""

    max_updates: Positive = 10_000  # each of `accumulate` batches
    max_minutes: Limit = float("inf")  # of training, validation included
    batch_tokens: Positive = 2048  # padded target symbols in a batch; several processes share it
    accumulate: Positive = 1  # batches per update
    optimizer: OptimizerName = "adamw"  # muon:
    # orthogonalised updates for matrices between hidden states; FILE.py:NAME: a class or function of yours, called
    # with groups of parameters, lr and optimizer_options; the path is relative to this YAML, and the file's code is run
    optimizer_options: dict[str, Any] = {}  # adamw: betas, eps; muon: those, momentum, factor (its rate is factor
    # times learning_rate); or the arguments of your own
    learning_rate: PositiveFloat = 1e-3  # peak
    schedule: ScheduleName = "cosine"
    decay_power: PositiveFloat = 0.8  # of schedule `power`: (1 - progress)^power
    warmup_updates: NotNegative = 200  # the learning rate rises to its peak
    freeze: tuple[str, ...] = ()  # what does not learn: embeddings, frontend, encoder, decoder, output, another part by
    # its name, or a glob of parameters, such as "model.encoder.layers.[0-3].*"
    weight_decay: NotNegativeFloat = 0.01  # of matrices, decoupled from the gradient
    clip_norm: Limit = 1.0  # largest norm of the gradient of all parameters
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 where the hardware supports it
    ema_decay: Fraction = 0.0  # exponential moving average of the weights, used for validation and kept; 0 is off
    validate_every: Positive = 500  # updates
    validate_examples: NotNegative = 0  # validation examples that are decoded, a fixed random subset; 0: all
    patience: NotNegative = 0  # validations without improvement before stopping; 0 never stops early
    save_every: Positive = 500  # updates
    keep_checkpoints: Few = 2  # newest ones to keep, besides the best
    log_every: Positive = 50  # updates
    compile: bool = False  # layers through torch.compile, on a GPU; a CPU refuses it, where it takes 1.4 times as long
    shard: bool = False  # processes share weights and optimizer state, not only batches: less memory each, more traffic
    threads: FewOrNone = 0  # CPU threads; 0: all
    tensorboard: bool = False  # write scalars and texts for TensorBoard into the run's directory; needs its extra

    @model_validator(mode="after")
    def _optimizer_fits(self) -> Training:
        known = optimizer_of(self.optimizer).options
        for key in self.optimizer_options if not is_code(self.optimizer) else ():
            if key not in known:
                raise ValueError(
                    f"training.optimizer_options.{truncate(key)}: {self.optimizer} has no such option: "
                    f"choose from {', '.join(known)}"
                )
        return self

    def warnings(self) -> list[str]:
        """What a run says before it begins: that its warm-up does not end."""
        return [
            f"training.warmup_updates={self.warmup_updates} is not below max_updates={self.max_updates}: the learning "
            "rate never reaches its peak"
        ] * (self.warmup_updates >= self.max_updates)


class Mixture(Section):
    """How the tasks of a joint run are mixed; each batch has one task."""

    temperature: Annotated[float, Field(ge=1.0, le=LARGEST)] = 2.0  # tau: a task of n examples has a share ~ n^(1/tau)
    max_epochs: Limit = 30.0  # most epochs of a task within training.max_updates
    balance: ShareOrNone = 0.0  # 1: scales the tasks' gradients to one norm; 0: adds them unscaled
