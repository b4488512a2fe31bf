"""From a configuration to parts: the only place where configuration meets model, strategy and machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from seq2seq_suite import kernels
from seq2seq_suite.config import Config, Search
from seq2seq_suite.kernels import torch_private
from seq2seq_suite.model.build import build_model
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.sizes import Sizes
from seq2seq_suite.strategies.agreement import Agreement
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.boxes import BoxAutoregressive
from seq2seq_suite.strategies.collapsing import Collapsing
from seq2seq_suite.strategies.continuing import Continuing
from seq2seq_suite.strategies.dag import DirectedAcyclic
from seq2seq_suite.strategies.length import CutAtEnd, LengthFirst, MaskPredict
from seq2seq_suite.strategies.parallel import Glancing
from seq2seq_suite.strategies.search import SearchOptions
from seq2seq_suite.strategies.sets import SetAutoregressive
from seq2seq_suite.strategies.slots import BoxSlots
from seq2seq_suite.training.distributed import ALONE, Ranks
from seq2seq_suite.training.evaluate import Decoder
from seq2seq_suite.types import ConfigError, Task


def build_decoder(config: Config, task: Task, *, device: torch.device, like: Sequence[tuple[Sizes, Seq2Seq]] = ()
                  ) -> Decoder:
    """A model with fresh weights for a task whose vocabularies are there, and how to decode with it.

    `like` are models that it shares weights with: see `build_model`.
    """
    with kernels.use(config.kernels, config.components):
        model = build_model(config.backbone, sizes_of(config, task), like=like).to(device)
        strategy = _build_strategy(config, task)
    return Decoder(task, model, strategy, _search_options(config.search), device,
                   (config.search.max_length_factor, config.search.max_length_extra), config.search.batch_sentences)


def sizes_of(config: Config, task: Task) -> Sizes:
    """What task and strategy ask of the model."""
    return replace(task.sizes(), length_ratio=getattr(config.strategy, "length_ratio", None),
                   link_heads=getattr(config.strategy, "link_heads", 0), slots=getattr(config.strategy, "grid", ()),
                   language=getattr(config.strategy, "language_weight", 0.0) > 0.0)


def _build_strategy(config: Config, task: Task) -> Strategy:
    options = config.strategy
    auxiliaries = Auxiliaries(task.label_weights, getattr(options, "ctc_weight", 0.0), config.backbone.balance_weight,
                              getattr(options, "language_weight", 0.0))
    start, end = getattr(options, "glancing", (0.0, 0.0))
    agreement = getattr(options, "agreement", (0.0, 0.0))
    agreement = Agreement(*agreement) if any(agreement) else None
    shared = {"auxiliaries": auxiliaries, "glancing": Glancing(start, end) if start or end else None}
    match options.kind:
        case "autoregressive" if getattr(task, "box_options", None) is not None:
            return BoxAutoregressive(task.box_options, auxiliaries=auxiliaries)
        case "autoregressive" if getattr(task, "set_options", None) is not None:
            return SetAutoregressive(task.set_options, label_smoothing=options.label_smoothing,
                                     scheduled_sampling=options.scheduled_sampling, auxiliaries=auxiliaries)
        case "autoregressive" if getattr(task, "continues", False):
            return Continuing(label_smoothing=options.label_smoothing,
                              scheduled_sampling=options.scheduled_sampling, auxiliaries=auxiliaries)
        case "autoregressive":
            return Autoregressive(label_smoothing=options.label_smoothing,
                                  scheduled_sampling=options.scheduled_sampling, auxiliaries=auxiliaries)
        case "length_head":
            return LengthFirst(label_smoothing=options.label_smoothing, length_weight=options.length_weight, **shared)
        case "mask_predict":
            return MaskPredict(label_smoothing=options.label_smoothing, length_weight=options.length_weight,
                               auxiliaries=auxiliaries)
        case "cut_at_end":
            return CutAtEnd(factor=options.factor, extra=options.extra, end_weight=options.end_weight,
                            label_smoothing=options.label_smoothing, **shared)
        case "ctc":
            return Collapsing(factor=options.factor, agreement=agreement, **shared)
        case "dag":
            return DirectedAcyclic(factor=options.factor, agreement=agreement, **shared)
        case "slots":
            return BoxSlots(task.box_options, grid=options.grid, anchor_weight=options.anchor_weight,
                            auxiliaries=auxiliaries)
    raise AssertionError(options.kind)


def _search_options(search: Search) -> SearchOptions:
    return SearchOptions(beam_size=search.beam_size, length_penalty=search.length_penalty,
                         num_hypotheses=search.num_hypotheses, sampling=search.sampling,
                         temperature=search.temperature, top_k=search.top_k, top_p=search.top_p,
                         constraint=search.constraint, ctc_weight=search.ctc_weight, iterations=search.iterations,
                         lookahead=search.lookahead)


def choose_device(wanted: str, ranks: Ranks = ALONE) -> torch.device:
    """The one place that decides where a run computes: `auto` is CUDA, then MPS, then the CPU.

    Of several processes on a machine each has a GPU of its own; MPS has none to share out.

    Raises:
        ConfigError: the wanted device is not there.
    """
    found = {"cuda": torch.cuda.is_available(), "cpu": True,
             "mps": torch.backends.mps.is_available() and ranks.world == 1}
    if wanted == "auto":
        wanted = next(name for name in ("cuda", "mps", "cpu") if found[name])
    if not found[wanted]:
        raise ConfigError(f"device: {wanted} is not to be had here",
                          expected=f"one of {', '.join(name for name in found if found[name])}",
                          remedy="use device=auto")
    if wanted == "cuda" and ranks.world > 1:
        if ranks.local_rank >= torch.cuda.device_count():
            raise ConfigError(f"device: process {ranks.local_rank + 1} of this machine finds "
                              f"{torch.cuda.device_count()} GPUs", expected="a GPU for each process",
                              remedy="start fewer with --nproc_per_node, or use device=cpu")
        torch.cuda.set_device(ranks.local_rank)
        return torch.device("cuda", ranks.local_rank)
    return torch.device(wanted)


def choose_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The one place that decides in which precision matrices are multiplied in training."""
    if wanted != "auto":
        return getattr(torch, wanted)
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    if device.type == "cpu":
        # Without these instructions bfloat16 on a CPU is emulated and far slower than float32.
        return torch.bfloat16 if torch_private.cpu_multiplies_bfloat16() else torch.float32
    return torch.float32


def use_threads(threads: int) -> None:
    """Compute with so many CPU threads; 0 leaves torch's own choice."""
    if threads:
        torch.set_num_threads(threads)
