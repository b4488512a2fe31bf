"""Every file of a finished run damaged in every way; then the run is gone on with, evaluated, asked and compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.faults import examples, rows, verbs
from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.fingerprints import fingerprint

RUNS = ("parsing", "joint", "detection", "multilabel", "asr", "translation")
_MORE = "training.max_updates=4"  # than the two updates of the finished run
_OTHER_JSON = (
    "3",
    "{}",
    "[]",
    "null",
    '"text"',
    "true",
    "[[]]",
    '{"a": 1}',
    '[{"a": 1}]',
    "NaN",
    "1e999",
    '{"progress": 3}',
    '{"progress": {"update": "x"}, "files": {}}',
    '{"data": 3, "processes": "x"}',
    '{"threshold": "x"}',
    '{"threshold": NaN}',
    '{"splits": []}',
    '{"splits": {"test": 3}}',
    '["a", 3]',
    '["a", "a", "a"]',
    "9" * 5000,
)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.choice((len(content) // 2, len(content) - 1, 1))]


def _flipped(content: bytes, random: Random) -> bytes:
    if not content:
        return b"x"
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def _other_value(content: bytes, random: Random) -> bytes:
    """JSON of its own shape with one value that is another; of what is no JSON, half a surrogate pair behind it."""
    try:
        text = content.decode()
        lines = text.splitlines() if text.startswith('{"') else [text]  # a row a line, or one value over many
        place = random.randrange(len(lines))
        row = json.loads(lines[place])
        path = random.choice(list(rows.paths(row)))
        lines[place] = rows.with_value(row, path, random.choice(rows.VALUES))
        return "\n".join(lines).encode("utf-8", errors="surrogatepass")
    except (ValueError, IndexError, AttributeError):
        return content + b"\xed\xa0\x80"


CONTENTS: dict[str, Callable[[bytes, Random], bytes]] = {
    "emptied": lambda content, random: b"",
    "cut": _cut,
    "one bit flipped": _flipped,
    "a value changed": _other_value,
    "another bit flipped": _flipped,
    "random": lambda content, random: random.randbytes(max(1, len(content))),
    "other JSON": lambda content, random: random.choice(_OTHER_JSON).encode(),
    "deep JSON": lambda content, random: random.choice((b"[", b'{"a":')) * random.choice((2000, 200_000)),
    "not UTF-8": lambda content, random: content + b"\xff\xfe\n",
    "zeros": lambda content, random: bytes(len(content)),
    "twice": lambda content, random: content * 2,
    "NUL behind": lambda content, random: content + b"\0",
    "CRLF": lambda content, random: content.replace(b"\n", b"\r\n"),
    "text": lambda content, random: b"hello\n",
    "a large number": lambda content, random: content.replace(b"1", b"1" * 400),
}
_PLACES = ("deleted", "a folder instead", "a link to itself", "a dangling link", "another run's", "an older one")


def damage(path: Path, way: str, random: Random, other: Path) -> None:
    """Damage a file, or put something else in its place; `other` is the file of another run."""
    if way in CONTENTS and path.is_file() and not path.is_symlink():
        path.write_bytes(CONTENTS[way](path.read_bytes(), random))
        return
    content = b"" if path.is_symlink() else path.read_bytes()
    if way == "an older one":  # of a checkpoint's files
        other = next(iter(sorted(path.parent.parent.glob(f"step-*/{path.name}"))), path.with_name("nothing"))
        content = other.read_bytes() if other.exists() else content
    path.unlink()
    match way:
        case "an older one":
            path.write_bytes(content)
        case "a folder instead":
            path.mkdir()
            (path / "inside").write_bytes(content)
        case "a link to itself":
            path.symlink_to(path.name)
        case "a dangling link":
            path.symlink_to("nowhere")
        case "another run's" if other.is_dir():
            shutil.copytree(other, path)
        case "another run's" if other.exists():
            shutil.copy(other, path)
        case _ if way in CONTENTS:  # a link
            path.write_bytes(CONTENTS[way](b"step-2", random))


def prepare(case: Case) -> None:
    """Finished runs, and what becomes of each when two updates more are made."""
    verbs.prepare(case)
    for task in RUNS:
        longer, right = case.shared / "longer" / task, case.shared / "right" / task
        if longer.exists():
            continue
        shutil.copytree(verbs.found(case, task), longer, symlinks=True)
        case.call("run", case.shared / f"{task}.yaml", _MORE, "--output", longer, "--resume", codes=(0,), limit=60.0)
        right.parent.mkdir(exist_ok=True)
        right.write_text(case.call("predict", verbs.found(case, task), *_question(case, task), codes=(0,)).out)


def _question(case: Case, task: str) -> list[str]:
    """What a run is asked: of a joint one a task, and a line."""
    name = examples.JOINT[0] if task == "joint" else task
    folder = case.shared / "data" / task
    lines = {"asr": f"{folder}/test0.wav", "detection": f"{folder}/test0.png"}
    return [*(["--task", name] if task == "joint" else []), "--", lines.get(name, "the dog sees a cat")]


def try_damage(case: Case) -> None:
    """Damage one file of a run; nothing that is done with the run may trip over it, or take wrong weights for right."""
    task, random = RUNS[case.number % len(RUNS)], case.random
    run, other = verbs.own_run(case, task), verbs.found(case, "qa")
    files = sorted(path.relative_to(run) for path in run.rglob("*") if path.is_symlink() or path.is_file())
    file = files[case.number // len(RUNS) % len(files)]
    way = random.choice((*CONTENTS, *_PLACES))
    case.counts[way] += 1
    part = f"tasks/{examples.JOINT[0]}" if task == "joint" else "."
    best = run.resolve() / part / "checkpoints/best/model.safetensors"
    used, before = best.resolve() == run.resolve() / file, best.read_bytes()
    damage(run / file, way, random, other / file)
    said = case.call("predict", run, *_question(case, task), codes=(0, 1, 2))
    if used and not (best.is_file() and best.read_bytes() == before):
        case.expect(said.code != 0, "predicts with weights that are not those of the run")
    elif "checkpoints" in file.parts and file.suffix:
        right = (case.shared / "right" / task).read_text()
        case.expect(said.code != 0 or said.out == right, f"predicts {said.out!r} instead of {right!r}")
    case.call("evaluate", run, *_question(case, task)[:-2], "--split", "validation", codes=(0, 1, 2))
    case.call("compare", run, other, "--no-speed", "--html", "page.html", codes=(0, 1, 2))
    more = random.choice(([_MORE], [_MORE], []))
    end = case.call(
        "run", case.shared / f"{task}.yaml", *more, "--output", run, "--resume", codes=(0, 1, 2), limit=60.0
    )
    if end.code == 0 and more and "checkpoints" in file.parts and file.suffix:
        last = "checkpoints/last/model.safetensors"
        case.expect(
            fingerprint(run).get(last) == fingerprint(case.shared / "longer" / task)[last],
            "goes on to other weights than the whole run does",
        )
    case.complaints = [f"{task}, {file} {way}: {complaint}" for complaint in case.complaints]


KINDS = (Kind("files", "every file of a finished run, damaged", try_damage, 400, share=8.0, prepare=prepare),)
