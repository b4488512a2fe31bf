"""`lab list`, `lab start` and `lab next`: what there is to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, UserError
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.folder import LANGUAGES, Folder
from seq2seq_suite.lab.messages import relative_path, says, score
from seq2seq_suite.lab.starting import handout, named
from seq2seq_suite.lab.starting import start as write


def print_list(directory: Path) -> None:
    """The twelve, and how far the folders below a directory are."""
    folders = {}
    for file in sorted(directory.glob("*/lab.yaml")) if directory.is_dir() else ():
        try:
            folder = Folder.read(file.parent)
        except UserError:
            continue
        folders.setdefault(folder.assignment, folder)
    print("Assignments: their files with points (* bonus), and the notes to read first.")
    for one in ASSIGNMENTS:
        parts = ", ".join(f"{part.name}{'*' if part.bonus else ''} {part.points:g}" for part in one.parts)
        facts = (
            "notes " + " ".join(one.notes),
            one.extra and f"needs the extra `{one.extra}`",
            _state(folders.get(one.name)),
        )
        print(f"{one.number:02}  {one.name:<10}  {parts}\n{'':16}{'; '.join(filter(None, facts))}")


def _state(folder: Folder | None) -> str:
    if folder is None:
        return ""
    known = [folder.known(part.name) for part in named(folder.assignment).parts]
    done, points = sum(bool(one.get("done")) for one in known), sum(one.get("points", 0) for one in known)
    return f"you have {done} of {len(known)} files, {score(points)} points"


def begin(name: str, directory: Path, *, student: str, language: str, html: bool) -> None:
    """Write the files and say what comes next."""
    if language not in LANGUAGES:
        raise ConfigError(f"--language {language[:20]}", file=COMMAND_LINE, expected=" or ".join(LANGUAGES))
    assignment = named(name)
    files = write(assignment, directory, student=student, language=language)
    if html:
        from seq2seq_suite.lab.handout import page

        (directory / "README.html").write_text(page(handout(assignment, language), language), encoding="utf-8")
        files.append("README.html")
    print(f"{relative_path(directory)}: {', '.join(sorted(files))}")
    zh = language == "zh"
    print(("先读 " if zh else "read ") + relative_path(directory / "README.md") + ("，然后：" if zh else ", then:"))
    print(f"  python -m seq2seq_suite lab check {relative_path(directory)} --watch")


def print_next(directories: Sequence[Path]) -> int:
    """The first thing that is open.

    Returns:
        0 where nothing is, else 1.
    """
    folders = [Folder.read(path) for path in directories]
    for folder in sorted(folders, key=lambda one: named(one.assignment).number):
        assignment, zh = named(folder.assignment), folder.language == "zh"
        for part in assignment.parts:
            facts = folder.known(part.name)
            if facts.get("done") or (part.bonus and facts):
                continue
            law = next((law for law in assignment.laws(part.name) if law.name in facts.get("failing", ())), None)
            law = law or next(iter(assignment.laws(part.name)), None)
            print(f"{relative_path(folder.path / part.name)}.py:{_line(folder, part.name, law.name if law else '')}")
            if law is not None:
                note = f"  ({'笔记' if zh else 'note'} {law.note})" if law.note else ""
                print(f"  {law.name}: {says(law, folder.language)}{note}")
            print(f"  python -m seq2seq_suite lab check {relative_path(folder.path)} {part.name}")
            return 1
        if (folder.path / "experiment.yaml").is_file() and not list(folder.path.glob("runs/*/lab.json")):
            print(f"python -m seq2seq_suite lab run {relative_path(folder.path)}")
            return 1
        if open_ := _unanswered(folder.path / "answers.yaml"):
            print(f"{relative_path(folder.path / 'answers.yaml')}: {', '.join(open_)}")
            return 1
        if not list(folder.path.parent.glob(f"{assignment.name}-*.zip")):
            print(f"python -m seq2seq_suite lab submit {relative_path(folder.path)}")
            return 1
    print("all is done" if folders and folders[0].language == "en" else "全部完成")
    return 0


def _line(folder: Folder, part: str, law: str) -> int:
    """Where to write: the first function that is not begun, or that the law is of."""
    lines = folder.files.get(f"{part}.py", "").splitlines()
    for number, line in enumerate(lines, 1):
        if "raise NotImplementedError" in line:
            return number
    function = law.partition(".")[0]
    return next((number for number, line in enumerate(lines, 1) if line.startswith(f"def {function}(")), 1)


def _unanswered(file: Path) -> list[str]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return []
    return [str(name) for name, value in found.items() if value is None] if isinstance(found, dict) else []
