"""The directories of a joint run's tasks, inside its own."""

from __future__ import annotations

from pathlib import Path

_FOLDER = "tasks"


def task_directory(directory: Path, name: str) -> Path:
    """The directory of one task of a joint run."""
    return directory / _FOLDER / name


def task_directories(directory: Path) -> list[Path]:
    """The directories of a joint run's tasks; none for another run."""
    folder = directory / _FOLDER
    return sorted(path for path in folder.iterdir() if (path / "config.yaml").is_file()) if folder.is_dir() else []
