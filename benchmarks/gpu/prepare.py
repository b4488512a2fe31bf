"""What a machine without a network lacks: wheels, data, and a script that installs the ones beside the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from seq2seq_suite.common.errors import ConfigError, DataError

PYTHON = "3.12"
# What the image with PyTorch, transformers and scikit-learn does not have.
PACKAGES = (
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-inspection",
    "typing-extensions",
    "datasets",
    "dill<0.4.1",
    "multiprocess",
    "xxhash",
    "nltk",
    "sacremoses",
    "jiwer",
    "rapidfuzz",
    "soundfile",
    "cffi",
    "pycparser",
    "espeakng-loader",
    "pycocotools",
    "rich",
)  # without their dependencies, so that dill has to be one that datasets takes
_SOURCES = ("seqeval", "rouge-score")  # there are no wheels of; Python alone, and built here
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "any")
_DATA = ("multi30k-en-de", "genia-const")
_SOUNDS = 100
_MOST_BYTES = 60 * 2**20  # with the repository
_REPOSITORY = Path(__file__).parents[2]
_SETUP = r"""#!/usr/bin/env bash
# The suite beside what the machine has, without a network.
set -euo pipefail
cd "$(dirname "$0")"
python3 -c 'import sys; sys.version_info[:2] == (3, 12) or sys.exit("python3: the wheels are for 3.12")' || exit 2
python3 -m venv --system-site-packages --without-pip venv
# What this Python sees is seen there too, also where it comes from an environment of its own.
python3 -c 'import sys; print("\n".join(path for path in sys.path if path.endswith("-packages")))' \
    > "$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/outer.pth"
python3 -m pip --python venv/bin/python install --quiet --no-index --find-links wheels --no-deps wheels/*.whl
venv/bin/python -c 'import pydantic, datasets, soundfile, pycocotools, nltk, sacremoses, jiwer, seqeval, rouge_score'
"""


def prepare(folder: Path, data: Path | None) -> None:
    """Fill a folder.

    Raises:
        ConfigError: a wheel does not fit, or all is too large to travel.
        DataError: there are no data.
    """
    data = data or Path(os.environ.get("S2S_SHARED", _REPOSITORY.parent / "shared")) / "data"
    missing = [name for name in (*_DATA, "an4") if not (data / name).is_dir()]
    if missing:
        raise DataError(f"no {', '.join(missing)}", file=str(data), expected="a folder of each", remedy="--data FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    found = _download(wheels)
    for name in _DATA:
        shutil.copytree(data / name, folder / "data" / name, dirs_exist_ok=True)
    _few_sounds(data / "an4", folder / "data" / "an4")
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")  # it travels by name
    (folder / "setup.sh").write_text(_SETUP, encoding="utf-8")
    sizes = {"wheels": _size(wheels), "data": _size(folder / "data"), "rest": 0, "repository": _tracked_size()}
    sizes["rest"] = _size(folder) - sizes["wheels"] - sizes["data"]  # an environment or results of before
    for name in found:
        print(f"  {name}")
    print("; ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in sizes.items()))
    if sum(sizes.values()) > _MOST_BYTES:
        raise ConfigError(
            f"{sum(sizes.values()) / 2**20:.0f} MiB together",
            expected="60 MiB at most",
            remedy=f"empty {folder}" if sizes["rest"] else "fewer wheels or data",
        )


def _download(wheels: Path) -> list[str]:
    _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), *_SOURCES)
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    given = ("--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", *platforms)
    _pip("download", *given, "-d", str(wheels), *PACKAGES)
    names = sorted(file.name for file in wheels.iterdir())
    for name in names:
        check_tag(name)
    return names


def _pip(command: str, *given: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, "--quiet", *given], capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    if done.returncode:
        raise ConfigError(
            f"pip {command}: {errors[-1] if errors else done.returncode}",
            remedy="needs a network, or a mirror that pip knows",
        )


def check_tag(name: str) -> None:
    """Whether a wheel fits CPython 3.12 on Linux.

    Raises:
        ConfigError: it does not.

    >>> check_tag("rich-14.0-py3-none-any.whl")
    """
    tag = name.removesuffix(".whl").split("-")[-3:]
    python, abi, platform = tag if len(tag) == 3 and name.endswith(".whl") else ("", "", "")
    versions = python.split(".")
    fits = (
        ({"py3", "py312"} & {*versions} and abi == "none")
        or "cp312" in versions
        or (abi == "abi3" and any(one[:3] == "cp3" and int(one[3:] or 0) <= 12 for one in versions))
    )
    if not fits or not (platform == "any" or ("manylinux" in platform and platform.endswith("x86_64"))):
        raise ConfigError(f"{name} does not fit", expected="CPython 3.12, Linux x86_64")


def _few_sounds(source: Path, target: Path) -> None:
    """A hundred utterances, spread over the splits as they are."""
    tables = sorted(source.glob("*/metadata.*")) or sorted(source.glob("*/*.jsonl"))
    if not tables:
        raise DataError("no table of sounds", file=str(source), expected="SPLIT/metadata.jsonl or .csv")
    lines = {table: table.read_text(encoding="utf-8").splitlines() for table in tables}
    total = sum(map(len, lines.values()))
    shutil.rmtree(target, ignore_errors=True)
    for table, rows in lines.items():
        head = 1 if table.suffix == ".csv" else 0
        kept = rows[: head + max(8, round(_SOUNDS * len(rows) / total))]
        place = target / table.parent.name
        place.mkdir(parents=True)
        (place / table.name).write_text("\n".join(kept) + "\n", encoding="utf-8")
        text = "\n".join(kept)
        for sound in table.parent.rglob("*"):
            if sound.is_file() and sound != table and sound.name in text:
                inside = place / sound.relative_to(table.parent)
                inside.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(sound, inside)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _tracked_size() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    files = [_REPOSITORY / name for name in listed.stdout.split("\0") if name]
    return sum(file.stat().st_size for file in files if file.is_file())
