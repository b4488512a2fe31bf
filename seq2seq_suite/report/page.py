"""Makes a page: one file without outside resources, from a template, the common style and the scripts it needs.

How scripts meet: each is a file of `static/`, embedded in the order in which it is named, behind `page.js`, which
defines the registries, and `save.js`, which saves tables and charts. A script that draws outputs is called
`draw_NAME.js` and registers `drawings.NAME = function (element, example, options)`, NAME being the `drawing` of a
task; what several need stands in `draw_text.js`, which is always embedded first. `inspection.js` defines `const
inspection = {show(element, record)}` for records of `inspection/SPLIT.json`. A script that fills
`<div data-section="ID">` registers `sections.ID = function (element, data)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.files import to_json

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


def render(
    template: str, *, title: str, scripts: Sequence[str] = (), data: Mapping[str, Any] | None = None, **facts: Any
) -> str:
    """A page as text.

    Args:
        template: a file of `templates/`; it extends `base.html`.
        title: of the page, as text.
        scripts: files of `static/` that it needs beside `page.js`, in order.
        data: id of a section -> what its script draws, as JSON; `page.data(id)` reads it.
        facts: the template's own variables; text is escaped.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=static("style.css"),
            scripts=[static(name) for name in ("page.js", "save.js", *scripts)],
            data={name: script_json(value) for name, value in (data or {}).items()},
            **facts,
        )
    )


def static(name: str) -> str:
    """A file of `static/`, style or script."""
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def drawings(names: Iterable[str] | None = None) -> list[str]:
    """The scripts that draw outputs, the common one first: all, or those of the named drawings."""
    wanted = None if names is None else {f"draw_{name}.js" for name in ("text", *names)}
    found = sorted(
        (path.name for path in (_HERE / "static").glob("draw_*.js")), key=lambda name: (name != "draw_text.js", name)
    )
    return [name for name in found if wanted is None or name in wanted]


def script_json(value: Any) -> str:
    """JSON that can stand in a `<script>` element: nothing in it can end the element or begin a comment.

    >>> print(script_json({"text": "</script><!--"}))
    {"text": "\\u003c/script>\\u003c!--"}
    """
    return to_json(value).replace("<", "\\u003c")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
