"""One Transformer core, many sequence-to-sequence tasks.

`import seq2seq_suite as s2s` gives `s2s.train`, `s2s.load`, `s2s.check` and `s2s.compare`: see `seq2seq_suite.api`.
Classes are in `seq2seq_suite.tasks` (with their constraints), `seq2seq_suite.strategies` and `seq2seq_suite.model`.
What is heavy is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seq2seq_suite.common import old_names
from seq2seq_suite.common.lazy_imports import exports

if TYPE_CHECKING:
    from seq2seq_suite.api import Prediction, Run, check, compare, load, read_config, train
    from seq2seq_suite.common.errors import ConfigError, DataError, RunError
    from seq2seq_suite.config.schema import Config

__version__ = "0.1.0"
__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "Prediction",
    "Run",
    "RunError",
    "check",
    "compare",
    "load",
    "read_config",
    "train",
]

_ELSEWHERE = {
    "Config": "config.schema",
    "ConfigError": "common.errors",
    "DataError": "common.errors",
    "RunError": "common.errors",
}
__getattr__, __dir__ = exports(__name__, {name: _ELSEWHERE.get(name, "api") for name in __all__})
old_names.install()
