"""Figures as tables: drawn on a terminal, plain aligned text in a file or a pipe."""

from __future__ import annotations

import csv
import io
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, truncate
from seq2seq_suite.common.files import atomic_write_text

_FORMATS = (".md", ".tex", ".csv")
NONE = "\N{EN DASH}"  # in the place of a figure that is missing


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a run's figures, the signature they were computed by and what they cost.

    Args:
        summary: `splits` maps a split to its figures; `signature`, `parameters`, `seconds` and
            `tokens_per_second` are shown where present.
    """
    splits: Mapping[str, Mapping[str, Any]] = summary["splits"]
    metrics = list(dict.fromkeys(name for figures in splits.values() for name in figures))
    bounds = summary.get("intervals") or {}

    def cell(name: str, split: str) -> str:
        ends = bounds.get(split, {}).get(name)
        return figure(splits[split].get(name)) + (f" ({span(*ends)})" if ends else "")

    limits = {
        f"without learning: {summary.get('primary_metric', '')}": summary.get("baseline") or {},
        "best possible": summary.get("ceiling") or {},
    }
    print_table(
        ("metric", *splits),
        [
            *((name, *(cell(name, split) for split in splits)) for name in metrics),
            *((name, *(figure(found.get(split)) for split in splits)) for name, found in limits.items() if found),
            *(
                (name, *(f"{value} ({note})" if note else value for value, note in cells))
                for name, cells in beside(summary, list(splits))
            ),
        ],
    )
    if summary.get("signature"):
        print(summary["signature"])
    if any(bounds.values()):
        print("In brackets: the 95 % interval over the examples.")
    costs = {"parameters": "parameter", "seconds": "second", "tokens_per_second": "token/s"}
    known = [counted(round(summary[name]), word) for name, word in costs.items() if summary.get(name) is not None]
    if known:
        print(", ".join(known))


def print_rows(summary: Mapping[str, Any]) -> None:
    """Print the figures of a summary with a row for each split: many settings of a search."""
    splits: Mapping[str, Mapping[str, Any]] = summary["splits"]
    metrics = list(dict.fromkeys(name for figures in splits.values() for name in figures))
    columns = [(name, [figure(figures.get(name)) for figures in splits.values()]) for name in metrics]
    columns += [(name, [value for value, _ in cells]) for name, cells in beside(summary, list(splits))]
    print_table(
        ("split", *(name for name, _ in columns)), list(zip(splits, *(cells for _, cells in columns), strict=True))
    )


def beside(summary: Mapping[str, Any], splits: Sequence[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What stands below the metrics: how likely the targets are, and what decoding took.

    Args:
        summary: as `summary.json` has it, of a joint run `task/figure`, or any other data, of which nothing is shown.
        splits: the columns.

    Returns:
        name and, for each split, a value and a note, which may be empty.

    >>> beside({"likelihood": {"test": {"nats_per_symbol": 0.842, "interval": [0.835, 0.849]}}}, ["test", "other"])
    [('nats per symbol', [('at most 0.842', '0.835 to 0.849'), ('', '')])]
    >>> beside({"decoding": {"test": {"qa/milliseconds_per_sentence": 1.5, "qa/sentences_at_a_time": 128}}}, ["test"])
    [('qa/ms a sentence', [('1.500', 'batch 128')])]
    """
    found = []
    for name, section, key in (
        ("nats per symbol", "likelihood", "nats_per_symbol"),
        ("passes per symbol", "decoding", "passes_per_symbol"),
        ("ms a sentence", "decoding", "milliseconds_per_sentence"),
    ):
        of_splits = [mapping(mapping(summary.get(section)).get(split)) for split in splits]
        # of a joint run's tasks as task/figure
        before = dict.fromkeys(one.removesuffix(key) for figures in of_splits for one in figures if one.endswith(key))
        for prefix in before:
            cells = [_beside(figures, prefix, key) for figures in of_splits]
            found += [(prefix + name, cells)] if any(value for value, _ in cells) else []
    return found


def _beside(found: Mapping[str, Any], prefix: str, key: str) -> tuple[str, str]:
    if not is_number(value := found.get(prefix + key)):
        return "", ""
    ends, batch = found.get(f"{prefix}interval"), found.get(f"{prefix}sentences_at_a_time")
    if isinstance(ends, list) and all(map(is_number, ends)):
        return f"at most {value:.3f}", " to ".join(f"{end:.3f}" for end in ends)
    return f"{value:.3f}", f"batch {batch}" if key.startswith("milliseconds") else ""


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
    from seq2seq_suite.common.files import to_json

    print(to_json(value, indent=1))


def figure(value: Any) -> str:
    """A figure as a table shows it: two decimals, a dash for one that is absent or not a number.

    >>> figure(90.126), figure(3), figure(None) == figure(float("nan")) == NONE
    ('90.13', '3', True)
    """
    return NONE if value is None or value != value else f"{value:.2f}" if isinstance(value, float) else str(value)


def counted(number: int, word: str) -> str:
    """A number of things, in the singular for one.

    >>> counted(1, "run"), counted(1234, "token/s")
    ('1 run', '1,234 tokens/s')
    """
    head, slash, unit = word.partition("/")
    return f"{number:,} {head}{'s' * (number != 1)}{slash}{unit}"


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


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value can be drawn and counted with: a file may hold any text, and whole numbers of any length."""
    return isinstance(value, (int, float)) and abs(value) < 2**63


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


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
    sides = [str.ljust, *[str.rjust if header else str.ljust] * (len(widths) - 1)]
    padded = ([side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip().replace("\n", indented) for cells in padded)


def check_table(path: Path | None) -> None:
    """Raises ConfigError for a file that `write_tables` cannot write."""
    if path is not None and path.suffix not in _FORMATS:
        raise ConfigError(
            f"--table {truncate(str(path), 255)}",
            file=COMMAND_LINE,
            remedy="choose another name",
            expected=f"a file whose name ends in {', '.join(_FORMATS)}",
        )


def write_tables(path: Path, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]) -> None:
    """Write tables, each with its title, as Markdown, LaTeX (package booktabs) or CSV, by the end of the file's name.

    Args:
        path: ends in .md, .tex or .csv.
        tables: title, header and rows of each; empty ones are left out.
    """
    from tabulate import tabulate

    parts = []
    for title, header, rows in tables:
        if not rows:
            continue
        if path.suffix == ".csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([header, *rows])
            parts.append(text.getvalue())
            continue
        figures = [
            any(cell[:1].isdigit() or cell[:1] in "+<\N{MINUS SIGN}" for cell in column if cell)
            for column in zip(*rows, strict=True)
        ]
        alike = {
            "headers": header,
            "disable_numparse": True,
            "colalign": ["right" if place and one else "left" for place, one in enumerate(figures)],
        }
        if path.suffix == ".md":
            cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            parts.append(f"{title}\n\n{tabulate(cells, tablefmt='pipe', **alike)}\n")
        else:
            text = tabulate(rows, tablefmt="latex_booktabs", **alike)
            parts.append(f"% {title}\n" + text.replace("\N{MINUS SIGN}", "$-$").replace(NONE, "--") + "\n")
    atomic_write_text(path, "\n".join(parts))


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """On a terminal. Where it is too narrow, what all rows have in common stands above, and further columns go below,
    each time behind those that tell the rows apart, without rows that say nothing there."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = [max(map(len, column)) for column in zip(*([header] if header else []), *rows, strict=True)]
    visible, names = [*range(len(widths))], 1
    if header and rows and len(_fitting(widths, visible, names, console.width)) > 1:
        common = [place for place in visible if len({row[place] for row in rows}) == 1]
        console.print(
            "; ".join(f"{header[place]}: {rows[0][place]}" for place in common), markup=False, highlight=False
        )
        visible = [place for place in visible if place not in common]
        different = [len({tuple(row[place] for place in visible[:many]) for row in rows}) for many in (1, 2, 3)]
        names = different.index(len(rows)) + 1 if len(rows) in different else 1
    for number, columns in enumerate(_fitting(widths, visible, names, console.width) if header else [visible]):
        table = Table(show_header=bool(header), show_edge=False, box=SIMPLE_HEAD if header else None)
        for place in columns:
            table.add_column(
                header[place] if header else "",
                justify="left" if not header or place in visible[:names] else "right",
                style="bold" if place in visible[:names] else "",
                overflow="fold",
            )
        for row in (row for row in rows if not number or {row[place] for place in columns[names:]} - {"", NONE}):
            table.add_row(*(Text(row[place]) for place in columns))
        console.print(*[""] * bool(number), table, sep="\n")


def _fitting(widths: Sequence[int], visible: Sequence[int], names: int, room: int) -> list[list[int]]:
    """The columns of each table that fits, the first ones, which name a row, in all of them.

    >>> _fitting([9, 5, 5, 5], [0, 1, 2, 3], 1, 80), _fitting([9, 5, 5, 5], [0, 1, 2, 3], 1, 27)
    ([[0, 1, 2, 3]], [[0, 1, 2], [0, 3]])
    >>> _fitting([9, 5, 5, 5], [0, 1, 2, 3], 2, 27), _fitting([9, 5], [0, 1], 1, 9)
    ([[0, 1, 2], [0, 1, 3]], [[0, 1]])
    """
    found = [[*visible[:names]]]
    for place in visible[names:]:
        if len(found[-1]) > names and sum(widths[one] + 3 for one in (*found[-1], place)) > room + 1:
            found.append([*visible[:names]])
        found[-1].append(place)
    return found
