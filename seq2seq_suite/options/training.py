"""The sections `training` and `mixture`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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
)


class Training(Section):
    """How the weights are learned. Both limits hold; the learning rate decays to whichever comes first."""

    max_updates: Positive = 10_000  # each of `accumulate` batches
    max_minutes: Limit = float("inf")  # of training, validation included
    batch_tokens: Positive = 2048  # padded target symbols in a batch; several processes share it
    accumulate: Positive = 1  # batches per update
    optimizer: Literal["adamw", "muon"] = "adamw"  # muon: orthogonalised updates for matrices between hidden states
    learning_rate: PositiveFloat = 1e-3  # peak
    schedule: Literal["inverse_sqrt", "cosine", "power", "constant"] = "cosine"
    decay_power: PositiveFloat = 0.8  # of schedule `power`: (1 - progress)^power
    warmup_updates: NotNegative = 200  # the learning rate rises to its peak
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
    tensorboard: bool = False  # write scalars and texts for it into the run's directory; needs its extra


class Mixture(Section):
    """How the tasks of a joint run are mixed; each batch has one task."""

    temperature: Annotated[float, Field(ge=1.0, le=LARGEST)] = 2.0  # tau: a task of n examples has a share ~ n^(1/tau)
    max_epochs: Limit = 30.0  # most epochs of a task within training.max_updates
    balance: ShareOrNone = 0.0  # 1: scales the tasks' gradients to one norm; 0: adds them unscaled
