"""The configuration of a run: its schema, reading of files, messages, formats of older runs."""

from seq2seq_suite.common.lazy_imports import exports

__getattr__, __dir__ = exports(__name__, {"Config": "schema"})
