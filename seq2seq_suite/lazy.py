"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def exports(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        places: name -> the module in the package that has it.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *places})

    return get, names


def classes_in(folder: Path) -> dict[str, str]:
    """Each public class of a package's modules, and its module, without importing any.

    Args:
        folder: the package's.
    """
    return {name: ".".join(path.relative_to(folder).with_suffix("").parts) for path in sorted(folder.rglob("*.py"))
            for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)}
