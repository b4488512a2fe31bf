"""Modules under the names that they had in 0.1.0, for tasks and components that users have written."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = __name__.partition(".")[0]
# Name in 0.1.0 -> today's, both inside the package. The next release drops them.
RENAMED = {
    "types": ("common.types", "common.examples", "common.errors"),
    "shapes": ("common.shapes",),
    "trees": ("common.trees",),
    "library": ("api",),
    "tasks.sides": ("tasks.fields.base",),
    "strategies.search": ("search.step", "common.types"),
    "strategies.beam": ("search.beam",),
    "strategies.sampling": ("search.sampling",),
}


class _OldNames(MetaPathFinder, Loader):
    """Finds a renamed module, and warns."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        return ModuleSpec(name, self) if package == PACKAGE and module in RENAMED else None

    def exec_module(self, module: ModuleType) -> None:
        today = [f"{PACKAGE}.{name}" for name in RENAMED[module.__name__.partition(".")[2]]]
        warnings.warn(f"{module.__name__} is now {' and '.join(today)}", DeprecationWarning, stacklevel=2)
        for name in today:
            vars(module).update(
                {key: value for key, value in vars(importlib.import_module(name)).items() if key[:1] != "_"}
            )
        if module.__name__.startswith(f"{PACKAGE}.strategies."):  # the searches of 0.1.0 imported it by this name
            vars(module)["SearchOptions"] = importlib.import_module(f"{PACKAGE}.options.search").Search


def install() -> None:
    """Let the old names be imported."""
    if not any(isinstance(one, _OldNames) for one in sys.meta_path):
        sys.meta_path.append(_OldNames())
