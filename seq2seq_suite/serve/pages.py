"""The pages of the server, each one file without outside resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_suite.report.page import drawings, render


def live_page(state: dict[str, Any]) -> str:
    """The page to type, speak or drop a picture into.

    Args:
        state: as GET /api/runs gives it.
    """
    scripts = [*drawings(), "inspection.js", "live_input.js", "live_replay.js", "live.js"]
    return render("live.html", title="Try it", scripts=scripts, data={"live": state})


def docs_page(schema: dict[str, Any], runs: Sequence[dict[str, Any]], address: str) -> str:
    """The JSON interface for a reader.

    Args:
        schema: OpenAPI.
        runs: what is open, for the examples.
        address: of the server.
    """
    places = [{"path": path, "method": method.upper(), **one} for path, methods in schema["paths"].items()
              for method, one in methods.items()]
    return render("docs.html", title="JSON interface", places=places, schemas=schema["components"]["schemas"],
                  address=address, runs={run["takes"]: run["name"] for run in reversed(runs)})
