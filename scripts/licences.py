"""Checks the licences of all that the suite installs, as its packages' metadata name them.

    python scripts/licences.py

Exit code 1 where a package has none that is known to be permissive, or a copyleft one outside of an extra; CUDA's
libraries, which come with PyTorch, may have NVIDIA's own.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = re.compile(
    r"(?i)\b(mit|mit-cmu|0?bsd|freebsd|apache|isc|psf|python|hpnd|zlib|unlicense|cc0|"
    r"public domain|mpl|mozilla)\b"
)
COPYLEFT = re.compile(r"(?i)\b(a?gpl|gnu (affero )?general public)")
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# NVIDIA's libraries are under a licence of its own; PyTorch's CUDA build needs them, its CPU build has none.
OF_CUDA = re.compile("(nvidia|cuda)-")
# eSpeak NG, which speaks the embedded sentences, is under the GPL: it is fetched with the extra `speech` alone.
IN_AN_EXTRA = {"espeakng-loader": "the library that it brings, eSpeak NG, is under GPL-3.0-or-later"}


def required(names: list[str]) -> set[str]:
    """The packages, and all that they need on this machine, as far as they are installed."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        waiting += [Requirement(need) for need in needs]
    return found


def licence(name: str) -> str:
    """What a package's metadata say: expression, classifiers, else the first line of the licence."""
    given = metadata(name)
    classifiers = [
        one.rpartition(" :: ")[2] for one in given.get_all("Classifier") or () if one.startswith("License ::")
    ]
    return given.get("License-Expression") or ", ".join(classifiers) or (given.get("License") or "").partition("\n")[0]


def problem(name: str, said: str, *, optional: bool) -> str:
    """What is wrong with a package's licence; empty if nothing is.

    >>> problem("a", "BSD-3-Clause", optional=False), problem("b", "", optional=True)
    ('', 'no licence is named')
    >>> problem("c", "GPL-3.0-or-later", optional=False)
    'copyleft: GPL-3.0-or-later'
    """
    if name in IN_AN_EXTRA:
        return "" if optional else f"not in an extra: {IN_AN_EXTRA[name]}"
    if PERMISSIVE.search(said):
        return ""
    if COPYLEFT.search(said):
        return f"copyleft: {said}"
    if OF_CUDA.match(name):
        return ""
    return f"not known: {said}" if said else "no licence is named"


def main() -> int:
    """Print a line for each package; the exit code."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    core = required(project["dependencies"])
    extras = required(
        [
            need
            for name, needs in project["optional-dependencies"].items()
            if name not in ("test", "bench")
            for need in needs
        ]
    )
    wrong = 0
    for name in sorted(core | extras):
        said = licence(name)
        found = problem(name, said, optional=name not in core)
        wrong += bool(found)
        print(
            f"{name:28} {'core' if name in core else 'extra':6} {said[:60] or IN_AN_EXTRA.get(name, '')}"
            + (f"  <- {found}" if found else "")
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
