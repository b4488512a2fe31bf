"""The command line: one file for each group of verbs; `app` puts them together."""

from seq2seq_suite.common.lazy_imports import exports

__getattr__, __dir__ = exports(__name__, {"main": "app"})
