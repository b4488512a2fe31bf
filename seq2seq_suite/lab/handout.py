"""A handout as one page that loads nothing: Markdown by markdown-it, formulas as MathML."""

from __future__ import annotations

import re
from html import escape

from markdown_it import MarkdownIt

_STYLE = """body{font:16px/1.6 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em;color:#222}
code,pre{font:14px/1.5 ui-monospace,monospace;background:#f4f4f4}pre{padding:.8em;overflow-x:auto}
table{border-collapse:collapse}td,th{border-bottom:1px solid #ddd;padding:.2em .8em;text-align:left}
details{margin:.6em 0}summary{cursor:pointer}"""


def page(markdown: str, language: str) -> str:
    """The page; without latex2mathml (the extra `teach`) formulas stay as they are written."""
    formulas: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        formulas.append(_formula(found[1] or found[2], display=found[1] is not None))
        return f"FORMULA{len(formulas) - 1}ENDS"

    pieces = re.split(r"(```.*?```|`[^`\n]+`)", markdown, flags=re.DOTALL)
    for number in range(0, len(pieces), 2):  # what is not code
        pieces[number] = re.sub(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", set_aside, pieces[number], flags=re.DOTALL)
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render("".join(pieces))
    body = re.sub(r"FORMULA(\d+)ENDS", lambda found: formulas[int(found[1])], body)
    title = re.search(r"^# (.+)$", markdown, flags=re.MULTILINE)
    return (
        f"<!doctype html><html lang='{language}'><meta charset='utf-8'><meta name='viewport' "
        f"content='width=device-width'><title>{escape(title[1] if title else '')}</title>"
        f"<style>{_STYLE}</style>\n{body}</html>\n"
    )


def _formula(text: str, *, display: bool) -> str:
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return f"<code>{escape(text)}</code>"
    return convert(text, display="block" if display else "inline")
