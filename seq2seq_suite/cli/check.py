"""The verb `check`."""

from __future__ import annotations

from seq2seq_suite.cli.arguments import yamls_and_overrides
from seq2seq_suite.cli.parameters import Overrides, TrustCode, Yaml
from seq2seq_suite.terminal.tables import print_table


def check(yaml: Yaml, overrides: Overrides = None, trust_code: TrustCode = False) -> None:
    """Examine a configuration and its data without training.

    Prints sizes, lengths, the share of unknown symbols, a sample and an estimate of memory.

    \b
    Example:
      python -m seq2seq_suite check parsing backbone.size=base
    """
    paths, changes = yamls_and_overrides([yaml, *(overrides or [])], most=1)
    from seq2seq_suite import api
    from seq2seq_suite.config import config_file

    with config_file.locating(paths[0], changes):
        rows = api.check(paths[0], settings=changes)
    print_table((), rows)
