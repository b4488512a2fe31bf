"""Figures as tables: drawn on a terminal, plain aligned text in a file or a pipe."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

NONE = "\N{EN DASH}"  # in the place of a figure that is missing


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's figures, the signature they were computed by and what they cost.

    Args:
        summary: `splits` maps a split to its figures; `signature`, `parameters`, `seconds` and
            `tokens_per_second` are shown where present.
    """
    splits: Mapping[str, Mapping[str, Any]] = summary["splits"]
    metrics = list(dict.fromkeys(name for figures in splits.values() for name in figures))
    print_table(("metric", *splits), [(name, *(figure(figures.get(name)) for figures in splits.values()))
                                      for name in metrics])
    if summary.get("signature"):
        print(summary["signature"])
    costs = {"parameters": "{:,.0f} parameters", "seconds": "{:,.0f} seconds", "tokens_per_second": "{:,.0f} tokens/s"}
    known = [words.format(summary[name]) for name, words in costs.items() if summary.get(name) is not None]
    if known:
        print(", ".join(known))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of figures, or with an empty `header` one of labels and text."""
    if not header and not rows:
        return
    if sys.stdout.isatty():
        _draw(header, rows)
    else:
        print(aligned(header, rows))


def print_text(text: str) -> None:
    """Print a paragraph of at most 80 columns, nothing for an empty one."""
    print(*textwrap.wrap(text, 80), sep="\n", end="\n\n" if text else "")


def print_json(value: Any) -> None:
    """Print strict JSON."""
    from seq2seq_suite.files import to_json

    print(to_json(value, indent=1))


def figure(value: Any) -> str:
    """A figure as a table shows it: two decimals, a dash for one that is absent or not a number.

    >>> figure(90.126), figure(3), figure(None) == figure(float("nan")) == NONE
    ('90.13', '3', True)
    """
    if value is None or value != value:
        return NONE
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def chance(value: float) -> str:
    """A p-value.

    >>> chance(0.0314), chance(0.00001), chance(float("nan")) == NONE
    ('0.031', '< 0.001', True)
    """
    return NONE if value != value else "< 0.001" if value < 0.001 else f"{value:.3f}"


def signed(value: float) -> str:
    """A difference.

    >>> signed(1.5), signed(-0.25) == "\N{MINUS SIGN}0.25"
    ('+1.50', True)
    """
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def span(low: float, high: float, *, sign: str = "") -> str:
    """An interval, or a dash for none.

    >>> span(1.0, 2.5), span(0.25, 0.5, sign="+")
    ('1.00 to 2.50', '+0.25 to +0.50')
    """
    return NONE if low != low else f"{low:{sign}.2f} to {high:{sign}.2f}".replace("-", "\N{MINUS SIGN}")


def is_number(value: Any) -> bool:
    """Whether a value can be drawn and counted with: a file may hold any text, and whole numbers of any length."""
    return isinstance(value, (int, float)) and abs(value) < 2**63


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text; figures stand to the right, text without a header to the left.

    >>> print(aligned(("metric", "test"), [("f1", "90.10"), ("exact_match", "9.00")]))
    metric        test
    f1           90.10
    exact_match   9.00
    """
    lines = [tuple(header), *rows] if header else list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    indented = "\n" + " " * (widths[0] + 2)  # for cells that span lines, which only the last column has
    written = []
    for line in lines:
        cells = [cell.rjust(width) if header and place else cell.ljust(width)
                 for place, (cell, width) in enumerate(zip(line, widths, strict=True))]
        written.append("  ".join(cells).rstrip().replace("\n", indented))
    return "\n".join(written)


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=bool(header), show_edge=False, box=SIMPLE_HEAD if header else None)
    for place, title in enumerate(header or [""] * len(rows[0])):
        table.add_column(title, justify="right" if header and place else "left", style="" if place else "bold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
