"""The families of models that can be imported, by `model_type` of their config.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from torch import Tensor

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.subwords import Subwords
from seq2seq_suite.imports.bart import Bart
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.marian import Marian
from seq2seq_suite.imports.t5 import T5
from seq2seq_suite.imports.whisper import Whisper


class Family(Protocol):
    """What a checkpoint is in the suite's terms."""

    @property
    def settings(self) -> dict[str, Any]:
        """Keys of the configuration by section, of `backbone` all that weights depend on."""
        raise NotImplementedError

    def pieces(self, config: Config) -> Mapping[str, Subwords]:
        """Those of `source` (of texts) and `target`, in the languages of a configuration; raises ConfigError."""
        raise NotImplementedError

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """Each parameter of the model by its name, whose `shapes` are given; takes all weights of the checkpoint."""
        raise NotImplementedError


FAMILIES: dict[str, Callable[[Checkpoint], Family]] = {
    "marian": Marian,
    "t5": T5,
    "bart": Bart,
    "mbart": Bart,
    "whisper": Whisper,
}


def family_of(checkpoint: Checkpoint) -> Family:
    """The checkpoint as its family reads it; raises DataError if the suite has none of its architecture."""
    kind = checkpoint.value("model_type", str)
    if kind not in FAMILIES:
        raise checkpoint.refusal(f"model_type is {kind}", f"one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind](checkpoint)
    for key, value in checkpoint.asked.items():
        raise ConfigError(
            f"--{key} {value}, which a model of the family {kind} has no choice of",
            file=COMMAND_LINE,
            expected="a multilingual model of the family whisper",
            remedy="leave it out",
        )
    return family
