"""Builds a run's parts from its configuration: the only place that knows configuration, model and machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seq2seq_suite import kernels
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, SoundShape
from seq2seq_suite.config.schema import Config
from seq2seq_suite.kernels import memory, native, torch_private
from seq2seq_suite.model.build import build_model
from seq2seq_suite.model.frontends import Tokens
from seq2seq_suite.model.layers import TransformerLayer
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.runs.distributed import ALONE, Ranks
from seq2seq_suite.strategies.auxiliary import Auxiliaries, Auxiliary
from seq2seq_suite.strategies.auxiliary_losses import Labels, Language, Transcript
from seq2seq_suite.strategies.ctc_head import CtcHead
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.strategies.spans import SpanHead, Spans

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Backbone
    from seq2seq_suite.options.strategies import StrategyOptions
    from seq2seq_suite.tasks.base import Task


def build_predictor(
    config: Config,
    task: Task,
    *,
    device: torch.device,
    like: Sequence[tuple[Shape, Seq2Seq]] = (),
    drawn: bool = True,
) -> Predictor:
    """A model with fresh weights for a task whose vocabularies are there, and how to decode with it.

    `like` are models that it shares weights with: see `build_model`. Unless `drawn`, what would be random is left as it
    is in memory, which it then does not occupy before weights are loaded.
    """
    if config.search.compile and device.type == "cpu":
        native.library()  # a machine without a compiler says so before anything takes long
    shape = task.shape()
    _check_suppressed(config, shape.target.symbols)
    with nullcontext() if drawn else _Undrawn():
        model = build_model(config.backbone, shape, like=like)
        strategy = config.strategy_class(
            config.strategy,
            shape.target,
            config.backbone.width,
            build_auxiliaries(config.backbone, config.strategy, shape, model),
        )
    strategy.language = task.language()
    learner = Learner(
        model, strategy, balance_weight=config.backbone.balance_weight, norm_warmup=config.backbone.norm_warmup
    ).to(device)
    kernels.accelerate(learner, config.kernels, config.components)
    return Predictor(task, learner, config.search, device)


def _check_suppressed(config: Config, size: int) -> None:
    """Raise ConfigError where the search excludes a symbol that there is not."""
    for key in ("suppress", "begin_suppress"):
        if (given := getattr(config.search, key)) and max(given) >= size:
            raise ConfigError(
                f"search.{key}: no symbol has the number {max(given)}",
                expected=f"numbers below {size}, the run's count of symbols",
                remedy="correct it",
            )


class _Undrawn(TorchFunctionMode):
    """Within, PyTorch's functions that draw weights leave them as they are."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return (*args, *given.values())[0] if function in _DRAW else function(*args, **given)


_DRAW = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_uniform_,
    nn.init.xavier_uniform_,
}


def build_auxiliaries(backbone: Backbone, strategy: StrategyOptions, shape: Shape, model: Seq2Seq) -> Auxiliaries:
    """What is learned beside the target: labels of the source, its transcript, and the source itself."""
    width, weights = backbone.width, strategy.auxiliary_weights
    parts: list[Auxiliary] = [
        Labels(kind, nn.Linear(width, classes), weight) for kind, classes, weight in shape.target.source_labels
    ]
    if shape.target.span_weight:
        parts.append(Spans("spans", SpanHead(width), shape.target.span_weight))
    if isinstance(shape.source, SoundShape) and weights.get("ctc"):
        parts.append(Transcript("ctc", CtcHead(width, shape.source.transcript), weights["ctc"]))
    if weights.get("language"):
        frontend = model.frontend
        tied = frontend.embedding if isinstance(frontend, Tokens) and backbone.tie_embeddings else None
        parts.append(Language("language", OutputLayer(width, shape.source.symbols, tied=tied), weights["language"]))
    return Auxiliaries(parts)


def choose_device(wanted: str, ranks: Ranks = ALONE) -> torch.device:
    """The device of a run: `auto` is CUDA, then MPS, then the CPU.

    Several processes on a machine have a GPU each; MPS has only one.

    Raises:
        ConfigError: the requested device is not available.
    """
    found = {
        "cuda": torch.cuda.is_available(),
        "cpu": True,
        "mps": torch.backends.mps.is_available() and ranks.world == 1,
    }
    if wanted == "auto":
        wanted = next(name for name in ("cuda", "mps", "cpu") if found[name])
    if not found[wanted]:
        raise ConfigError(
            f"device: {wanted} is not available here",
            expected=f"one of {', '.join(name for name in found if found[name])}",
            remedy="use device=auto",
        )
    if wanted == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True  # products in float32 at several times the speed
    if wanted == "cuda" and ranks.world > 1:
        if ranks.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"device: process {ranks.local_rank + 1} of this machine finds {torch.cuda.device_count()} GPUs",
                expected="a GPU for each process",
                remedy="start fewer with --nproc_per_node, or use device=cpu",
            )
        torch.cuda.set_device(ranks.local_rank)
        return torch.device("cuda", ranks.local_rank)
    return torch.device(wanted)


def choose_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The precision of matrix products in training."""
    if wanted != "auto":
        return getattr(torch, wanted)
    return torch.bfloat16 if torch_private.multiplies_bfloat16(device) else torch.float32


def compile_layers(learner: nn.Module, device: torch.device) -> None:
    """Compile the layers of encoder and decoder for training by torch.compile.

    Raises:
        ConfigError: the device is no GPU.
    """
    if device.type != "cuda":
        raise ConfigError(
            f"training.compile true: the device is {device.type}",
            expected="device cuda; on a CPU compiled layers train at 0.72 times the speed of plain ones",
            remedy="leave training.compile at false",
        )
    for layer in learner.modules():
        if isinstance(layer, TransformerLayer):
            torch_private.compile_layer(layer)


def use_threads(threads: int) -> None:
    """Set the number of CPU threads, 0 for torch's default, and bound the memory of products' shapes."""
    memory.bound_shapes()
    if threads:
        torch.set_num_threads(threads)
