"""Which runs other programs support: Transformers of Vaswani et al. 2017 that write text; and their folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.files import atomic_write_bytes, to_json
from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.fields.base import Source
from seq2seq_suite.tasks.fields.text import Subwords, Text

# The values of `backbone` that every other program knows; a program may know more of some keys.
KNOWN: dict[str, tuple[Any, ...]] = {
    "attention_score": ("dot",),
    "activation": ("relu", "gelu", "swish"),
    "norm": ("layer",),
    "positions": ("sinusoidal",),
    "encoder": ("self_attention",),
    "encoder_kernel": (0,),
    "decoder_kernel": (0,),
    "decoder": ("transformer",),
    "encoder_steps": (1,),
    "decoder_steps": (1,),
    "experts": (0,),
    "embedding_width": (0,),
    "embedding_norm": (False,),
    "scale_embeddings": (True,),
    "source_tag": (False,),
}
REMEDY = "use the suite itself, to which --to hub-folder and predict without --engine give any run"


def check_plain(
    config: Config,
    task: Task,
    directory: Path,
    *,
    program: str,
    more: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
    reads: type[Source] = Subwords,
) -> None:
    """Raise an error that names each unsupported option.

    Args:
        config, task: of a run.
        directory: the run's.
        program: its name.
        more: values of `backbone` that it knows instead of those in `KNOWN`.
        reads: what its sources are.

    Raises:
        ConfigError: the run has other parts, reads something else, writes something else than text, or writes in
            parallel. Of blocks there is the left-to-right half, if it was learned.
    """

    def refuse(got: str, expected: str) -> None:
        raise ConfigError(f"{program} cannot express {got}", file=str(directory), expected=expected, remedy=REMEDY)

    if not isinstance(task.source, reads) or not isinstance(task.target, Text) or task.constraint() is not None:
        refuse(f"task {config.task}, whose {_beyond(task)}", "a run that reads text in subwords and writes free text")
    if config.strategy.kind not in ("autoregressive", "blocks"):
        refuse(f"strategy.kind {config.strategy.kind}", "autoregressive, or the left-to-right half of blocks")
    if not getattr(config.strategy, "joint", 1.0):
        refuse("strategy.joint 0, by which blocks have learned no left-to-right half", "strategy.joint above 0")
    if config.components:
        refuse(f"components {', '.join(config.components)} of your own", "the suite's own parts")
    for key, values in {**KNOWN, **more}.items():
        if (value := getattr(config.backbone, key)) not in values:
            refuse(f"backbone.{key} {value}".lower(), " or ".join(map(str, values)).lower())


def _beyond(task: Task) -> str:
    """What of a task is no plain text."""
    if not isinstance(task.source, Subwords):
        return f"sources are read as {type(task.source).__name__.lower()}"
    return "decoder is guided by a constraint" if task.shape().target.num_focus else "outputs are no free text"


def both_sides(task: Task) -> tuple[Subwords, Text]:
    """The two sides of a task that `check_plain` accepts."""
    assert isinstance(task.source, Subwords) and isinstance(task.target, Text)
    return task.source, task.target


def tensors(model: Seq2Seq) -> dict[str, Tensor]:
    """All parameters and buffers in float32 by their names, tied ones under each of theirs."""
    found = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    return {name: tensor.detach().to("cpu", torch.float32) for name, tensor in found.items()}


def write_folder(folder: Path, files: Mapping[str, Any], weights: Mapping[str, Tensor]) -> list[str]:
    """Write files, bytes as they are and others as JSON, and model.safetensors; returns the files' names."""
    from safetensors.torch import save

    whole = {name: one.clone(memory_format=torch.contiguous_format) for name, one in weights.items()}
    content = {
        **{
            name: one if isinstance(one, bytes) else f"{to_json(one, indent=2)}\n".encode()
            for name, one in files.items()
        },
        "model.safetensors": save(whole, metadata={"format": "pt"}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in content.items():
        atomic_write_bytes(folder / name, one)
    return [*content]
