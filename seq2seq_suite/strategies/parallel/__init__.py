"""Parallel decoders: all target positions at once, one file for each kind; `base` has what they share."""

from pathlib import Path

from seq2seq_suite.common.lazy_imports import classes_in, exports

__getattr__, __dir__ = exports(__name__, classes_in(Path(__file__).parent))
