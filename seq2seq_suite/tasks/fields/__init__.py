"""What a side of a task is made of: words, characters, subwords, symbols; `base` has the interface."""

from pathlib import Path

from seq2seq_suite.common.lazy_imports import classes_in, exports

__getattr__, __dir__ = exports(__name__, classes_in(Path(__file__).parent))
