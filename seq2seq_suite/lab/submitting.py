"""What a student hands in, as one zip; and zips and folders read back, with care."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seq2seq_suite.lab.folder import GIVEN, Folder
from seq2seq_suite.lab.starting import named
from seq2seq_suite.lab.telling import shown
from seq2seq_suite.types import DataError, UserError

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
    files += [file for run in runs for file in sorted(run.parent.rglob("*"))
              if file.name not in _LEFT_OUT and "__pycache__" not in file.parts]
    files = [file for file in files if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files)
    if size > LARGEST:
        raise DataError(f"{size / 2**20:,.0f} MB", file=str(directory), expected=f"at most {LARGEST >> 20} MB",
                        remedy="delete runs that experiment.yaml does not name")
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(directory))
    print(f"{shown(output)}: {len(files)} files, {output.stat().st_size / 2**20:.1f} MB")
    for name in missing:
        print(f"  missing: {name}")
    for part in assignment.parts:
        facts = folder.known(part.name)
        if f"{part.name}.py" in folder.files and not facts.get("done"):
            print(f"  not all laws hold: {part.name}.py" if facts else f"  not checked: {part.name}.py")
    if not folder.student:
        print("  no student: write your id behind `student:` in lab.yaml")
    if (directory / "experiment.yaml").is_file() and not runs:
        print(f"  no runs: python -m seq2seq_suite lab run {shown(directory)}")
    return output


def submissions(path: Path, scratch: Path) -> list[Submission]:
    """Those of a folder or a zip: one, or many as a learning platform gives them.

    Args:
        scratch: an empty folder for what is unpacked.
    """
    if not path.exists():
        raise DataError("no such file or folder", file=str(path), expected="a submission, or a folder of them")
    one = _opened(path, scratch / "0")
    if one.folder is None or _holder(one.folder) is not None or one.problem:
        return [Submission(one.name, one.folder and (_holder(one.folder) or one.folder), one.problem)]
    found = []
    for number, child in enumerate(sorted(one.folder.iterdir(), key=lambda file: file.name), 1):
        if child.name.startswith((".", "__")) or not (child.is_dir() or child.suffix == ".zip"):
            continue
        found.append(_one_of_many(child, scratch / str(number)))
    if not found:
        raise DataError("no submission in it", file=str(path), expected="zips or folders with lab.yaml in them")
    return found


def _one_of_many(path: Path, scratch: Path) -> Submission:
    """A zip, a folder, or a folder with a zip in it."""
    opened = _opened(path, scratch / "outer")
    folder = opened.folder
    if folder is not None and _holder(folder) is None:
        inner = sorted(folder.rglob("*.zip"))
        if len(inner) == 1:
            opened = _opened(inner[0], scratch / "inner")
            folder = opened.folder
    if folder is None or opened.problem:
        return Submission(path.stem, None, opened.problem)
    holder = _holder(folder)
    return Submission(path.stem, holder, "" if holder else "no lab.yaml in it")


def _holder(folder: Path) -> Path | None:
    """The folder with lab.yaml: itself, or the only one in it."""
    inside = [child for child in folder.iterdir() if not child.name.startswith((".", "__"))]
    places = [folder, *(inside if len(inside) == 1 else ())]
    return next((place for place in places if (place / "lab.yaml").is_file()), None)


def _opened(path: Path, scratch: Path) -> Submission:
    """A folder as it is, a zip unpacked."""
    if path.is_dir():
        return Submission(path.name, path)
    try:
        unpack(path, scratch)
    except UserError as error:
        return Submission(path.stem, None, error.got)
    return Submission(path.stem, scratch)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a zip of unknown origin.

    Raises:
        DataError: it is no zip, too large, or has members that lie outside of it or are links.
    """
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            many = any(one.filename.endswith(".zip") for one in members)
            most = LARGEST * (200 if many else 1)
            if len(members) > MOST_FILES * (20 if many else 1) or sum(one.file_size for one in members) > most:
                raise DataError("too large", file=str(path), expected=f"at most {most >> 20} MB")
            for member, parts in _checked(members, path):
                target = folder.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(_Bounded(source, member.file_size), file)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
        raise DataError(f"no zip that can be read ({type(error).__name__})", file=str(path)) from None


def _checked(members: list[zipfile.ZipInfo], path: Path) -> Iterator[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if stat.S_ISLNK(member.external_attr >> 16):
            raise DataError(f"a link in it: {member.filename[:80]}", file=str(path))
        if not parts or parts[0] in ("/", "..") or ".." in parts or ":" in parts[0]:
            raise DataError(f"a file outside of it: {member.filename[:80]}", file=str(path))
        if "__MACOSX" not in parts and parts[-1] != f"{GIVEN}.py":
            yield member, parts


class _Bounded:
    """A stream that ends where its header says, whatever its data say."""

    def __init__(self, stream: object, size: int):
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left))
        self._left -= len(data)
        return data
