"""The model: attention, layers, encoder, decoder, front-ends and variants; it knows tensors and no task.

Its classes and `build_model` are imported from here when they are first asked for.
"""

from __future__ import annotations

from pathlib import Path

from seq2seq_suite.common.lazy_imports import classes_in, exports

__getattr__, __dir__ = exports(__name__, {**classes_in(Path(__file__).parent), "build_model": "build"})
