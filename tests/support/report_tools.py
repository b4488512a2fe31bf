"""Reads a page as a browser does."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"meta", "br", "circle", "line", "polyline"}


class Balance(HTMLParser):
    """Fails if tags do not close in the order they were opened; collects the visible text and all attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes, self.tags = [], "", [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def read(page: Path) -> Balance:
    text = page.read_text(encoding="utf-8")
    found = Balance()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def comparison_row(**changes: Any) -> dict[str, Any]:
    """What a comparison tells of a run; all figures differ."""
    return {
        "run": "one",
        "task": "parsing",
        "split": "test",
        "metric": "f1",
        "figure": 90.126,
        "low": 88.0,
        "high": 92.5,
        "invalid": 1.25,
        "empty": 2.25,
        "repeated": 3.25,
        "truncated": 4.25,
        "core_parameters": 12345,
        "own_parameters": 678,
        "updates": 3000,
        "tokens": 4_000_000,
        "minutes": 5.55,
        "tokens_per_second": 6789.4,
        "latency_ms": 7.25,
        "sentences_per_second": 1234.5,
        "passes_per_symbol": 0.619,
        "milliseconds": 2.75,
        "seed": 1,
        "higher_is_better": True,
        "directory": "nowhere",
        **changes,
    }


def comparison_pair(**changes: Any) -> dict[str, Any]:
    """What it tells of two runs."""
    return {
        "first": "one",
        "second": "two",
        "task": "parsing",
        "metric": "f1",
        "difference": 1.5,
        "low": 0.5,
        "high": 2.5,
        "test": "randomisation test",
        "p_value": 0.004,
        "holm_p": 0.008,
        "verdict": "better",
        "seeds": (),
        **changes,
    }
