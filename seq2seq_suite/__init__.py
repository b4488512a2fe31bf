"""One Transformer core, many sequence-to-sequence tasks.

`import seq2seq_suite as s2s` gives `s2s.train`, `s2s.load`, `s2s.check` and `s2s.compare`: see `seq2seq_suite.library`.
What is heavy is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq_suite.config import Config
    from seq2seq_suite.library import Prediction, Run, check, compare, load, read_config, train
    from seq2seq_suite.types import ConfigError, DataError, RunError

__version__ = "0.1.0"
__all__ = ["Config", "ConfigError", "DataError", "Prediction", "Run", "RunError", "check", "compare", "load",
           "read_config", "train"]

_ELSEWHERE = {"Config": "config", "ConfigError": "types", "DataError": "types", "RunError": "types"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'library')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
