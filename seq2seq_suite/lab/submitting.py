"""What a student hands in, as one zip; and zips and folders read back, with care."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from seq2seq_suite.common.errors import DataError, UserError
from seq2seq_suite.lab.folder import GIVEN, Folder, printable
from seq2seq_suite.lab.messages import relative_path
from seq2seq_suite.lab.starting import named

LARGEST, MOST_FILES = 64 * 2**20, 3000  # bytes and files of a submission
_LEFT_OUT = {"training.safetensors", "report.html"}


@dataclass(frozen=True)
class Submission:
    """One student's folder, or why there is none."""

    name: str
    folder: Path | None
    problem: str = ""


def submit(directory: Path, output: Path | None) -> Path:
    """Write the zip, and say what is missing in it.

    Raises:
        DataError: no file of the assignment is there, or they are too large.
    """
    folder = Folder.read(directory)
    assignment = named(folder.assignment)
    missing = [f"{part.name}.py" for part in assignment.parts if f"{part.name}.py" not in folder.files]
    if len(missing) == len(assignment.parts):
        raise DataError("nothing to hand in", file=str(directory), expected=", ".join(missing))
    if output is None:
        output = directory.resolve().parent / f"{assignment.name}-{folder.student or 'student'}.zip"
    files = [directory / name for name in ("lab.yaml", "answers.yaml", "experiment.yaml", *folder.files)]
    runs = sorted(directory.glob("runs/*/lab.json"))
    files += [
        file
        for run in runs
        for file in sorted(run.parent.rglob("*"))
        if file.name not in _LEFT_OUT and "__pycache__" not in file.parts
    ]
    files = [file for file in files if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files)
    if size > LARGEST:
        raise DataError(
            f"{size / 2**20:,.0f} MB",
            file=str(directory),
            expected=f"at most {LARGEST >> 20} MB",
            remedy="delete runs that experiment.yaml does not name",
        )
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(directory))
    print(f"{relative_path(output)}: {len(files)} files, {output.stat().st_size / 2**20:.1f} MB")
    for name in missing:
        print(f"  missing: {name}")
    for part in assignment.parts:
        facts = folder.known(part.name)
        if f"{part.name}.py" in folder.files and not facts.get("done"):
            print(f"  not all laws hold: {part.name}.py" if facts else f"  not checked: {part.name}.py")
    if not folder.student:
        print("  no student: write your id behind `student:` in lab.yaml")
    if (directory / "experiment.yaml").is_file() and not runs:
        print(f"  no runs: python -m seq2seq_suite lab run {relative_path(directory)}")
    return output


def submissions(path: Path, scratch: Path) -> list[Path]:
    """Where those of a folder or a zip lie: one, or many as a learning platform gives them; none is opened yet.

    Args:
        scratch: an empty folder, in which a zip of a class is unpacked.
    """
    if not path.exists():
        raise DataError("no such file or folder", file=str(path), expected="a submission, or a folder of them")
    folder = path
    if not path.is_dir():
        try:
            unpack(path, folder := scratch / "class", outermost=True)
        except UserError:
            return [path]  # opening it gives the reason
    if _holder(folder) is not None:
        return [path]
    found = [
        child
        for child in sorted(folder.iterdir(), key=lambda file: file.name)
        if child.name[:1] != "." and child.name[:2] != "__" and (child.is_dir() or _is_zip(child))
    ]
    if not found:
        raise DataError("no submission in it", file=str(path), expected="zips or folders with lab.yaml in them")
    return found


def opened(path: Path, name: str, scratch: Path) -> Submission:
    """A submission in a folder of its own: copied, or unpacked, also where it is a folder with a zip in it.

    Args:
        scratch: an empty folder.
    """
    folder = scratch / "outer"
    try:
        (copy if path.is_dir() else unpack)(path, folder)
        if _holder(folder) is None:
            inner = [file for file in sorted(folder.rglob("*")) if file.is_file() and _is_zip(file)]
            if len(inner) == 1:
                unpack(inner[0], folder := scratch / "inner")
        holder = _holder(folder)
    except UserError as error:
        return Submission(name, None, printable(error.got))
    except (OSError, RecursionError) as error:
        return Submission(name, None, f"cannot be read: {type(error).__name__}")
    return Submission(name, holder, "" if holder else "no lab.yaml in it")


def _is_zip(path: PurePath) -> bool:
    return path.suffix.lower() == ".zip"


def _holder(folder: Path) -> Path | None:
    """The folder with lab.yaml: itself, or the only one in it, which may lie beside files."""
    while not (folder / "lab.yaml").is_file():
        inside = [
            child
            for child in folder.iterdir()
            if child.name[:1] != "." and child.name[:2] != "__" and (child.is_dir() or _is_zip(child))
        ]
        if len(inside) != 1 or inside[0].is_symlink() or not inside[0].is_dir():
            return None
        folder = inside[0]
    return folder


def copy(path: Path, folder: Path) -> None:
    """Copy what a student handed in as a folder.

    Raises:
        DataError: it is too large, or holds a link or a device.
    """
    folder.mkdir(parents=True)
    count = size = 0
    for place, names, files in os.walk(path):
        names[:] = [name for name in names if name != "__pycache__"]
        for file in (Path(place) / name for name in (*names, *files)):
            found, target = file.lstat(), folder / file.relative_to(path)
            if stat.S_ISDIR(found.st_mode):
                target.mkdir()
                continue
            count, size = count + 1, size + found.st_size
            if not stat.S_ISREG(found.st_mode):
                raise DataError(f"a link or a device in it: {file.relative_to(path)}", file=str(path))
            if count > MOST_FILES or size > LARGEST:
                raise DataError("too large", file=str(path), expected=f"at most {LARGEST >> 20} MB")
            shutil.copyfile(file, target, follow_symlinks=False)


def unpack(path: Path, folder: Path, *, outermost: bool = False) -> None:
    """Unpack a zip of unknown origin.

    Args:
        outermost: it may hold the zips of a class.

    Raises:
        DataError: it is no zip, too large, or has members that lie outside of it or are links.
    """
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            many = outermost and any(_is_zip(PurePosixPath(one.filename)) for one in members)
            most = LARGEST * (200 if many else 1)
            if len(members) > MOST_FILES * (20 if many else 1) or sum(one.file_size for one in members) > most:
                raise DataError("too large", file=str(path), expected=f"at most {most >> 20} MB")
            for member, parts in _checked(members, path):
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(_Bounded(source, member.file_size), file)
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        OSError,
        RuntimeError,
        EOFError,
        ValueError,
        MemoryError,
    ) as error:
        raise DataError(f"no zip that can be read ({type(error).__name__})", file=str(path)) from None


def _checked(members: list[zipfile.ZipInfo], path: Path) -> Iterator[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise DataError(f"a link or a device in it: {member.filename[:80]}", file=str(path))
        if not parts or parts[0] in ("/", "..") or ".." in parts or ":" in parts[0]:
            raise DataError(f"a file outside of it: {member.filename[:80]}", file=str(path))
        if "__MACOSX" not in parts and parts[-1] != f"{GIVEN}.py":
            yield member, parts


class _Bounded:
    """A stream that ends where its header says, whatever its data say."""

    def __init__(self, stream: IO[bytes], size: int):
        self._stream, self._left = stream, size

    def read(self, size: int = LARGEST) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data
