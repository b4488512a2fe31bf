"""Every verb with input that is broken, missing or odd, and with a standard output that goes away."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.faults import examples, rows
from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.commands import Ended, faults

_RUNS = (*examples.TASKS, "joint")
_LONG = "n" * 300
_FULL = "/dev/full"  # takes nothing: a full disk that needs no mount


def prepare(case: Case) -> None:
    """A finished run of each task, and a joint one."""
    rows.prepare(case, _RUNS)


def found(case: Case, task: str) -> Path:
    """A finished run, which must not be written to."""
    return case.shared / "found" / task


def own_run(case: Case, task: str, name: str = "own") -> Path:
    """A copy of a finished run that may be written to."""
    shutil.copytree(found(case, task), case.folder / name, symlinks=True)
    return case.folder / name


def good_line(case: Case, task: str) -> str:
    """An input that a run of this task reads."""
    data = case.shared / "data" / task
    words = examples.sentence(case.random)
    if task in examples.OF_SOUND:
        return f"{data}/test0.wav"
    return {"qa": f"who {words} ? ||| {words} . the dog sees .", "detection": f"{data}/test0.png"}.get(task, words)


def texts(case: Case, task: str, *, good: Sequence[str] = ()) -> dict[str, bytes]:
    """Contents of a text file, most of them odd; the first is good."""
    lines = list(good) or [good_line(case, task) for _ in range(3)]
    whole = "".join(line + "\n" for line in lines)
    random, one = case.random, lines[0]
    odd = {
        "good": whole,
        "empty": "",
        "blank": "\n \n\t\n",
        "a blank line": whole.replace("\n", "\n\n", 1),
        "no last line feed": whole.rstrip("\n"),
        "CRLF": whole.replace("\n", "\r\n"),
        "BOM": "\ufeff" + whole,
        "carriage returns": whole.replace("\n", "\r"),
        "NUL": whole.replace("\n", "\0\n", 1),
        "only NUL": "\0",
        "control": "\x07\x1b[31m\x08 " + whole,
        "bidi": "\u202e\u2066 " + whole,
        "separators": "a\u2028b\x85c\x0bd\n",
        "markup": f"<b>x</b> &amp; <script>alert(1)</script>\n{whole}",
        "one word": "x\n",
        "brackets": ")(" * 50 + "\n",
        "deep": "(" * 3000 + ")" * 3000 + "\n",
        "bars": "|||||| ||| |||\n",
        "a long line": "word " * 30_000 + "\n",
        "a long word": "x" * 200_000 + "\n",
        "emoji": "👩‍👩‍👧‍👦" * 20 + "\n",
        "combining": "e" + "\u0301" * 3000 + "\n",
        "a setting": "search.beam_size=4\n",
        "an option": "--help\n-h\n",
        "spaces": f"\u00a0\u2003\u3000{one}\u200b\n",
        "a folder": "/\n",
        "no file": "nowhere.wav\n",
        "JSON": '{"a": 1}\n',
        "deep JSON": "[" * 50_000 + "\n",
        "a number": "3\n",
        "a long number": "9" * 5000 + "\n",
        "NaN": "nan\n",
        "quotes": "\"open, 'and\n",
        "commas": ",,,\n",
        "one more": whole + one + "\n",
        "one less": one + "\n",
        "<unk>": f"<unk> <pad> <end> {one}\n",
        "percent": "%s %d {} {0} \\n\n",
        "many": f"{one}\n" * 300,
        "boxes": '{"boxes": [[1, 2, 3, 4]], "labels": [7], "scores": [0.5]}\n',
        "a box": '{"boxes": [[1]]}\n',
        "unequal": '{"boxes": [[1, 2, 3, 4]], "labels": []}\n',
        "NaN box": '{"boxes": [[NaN,1,2,3]],"labels":["a"]}\n',
        "a tree": "(S (NN dog))\n",
        "a broken tree": "(S (NN dog)\n",
        "an empty tree": "()\n",
    }
    odd = {name: text.encode() for name, text in odd.items()}
    return odd | {
        "latin-1": whole.encode() + b"caf\xe9\n",
        "UTF-16": whole.encode("utf-16"),
        "a surrogate": b"a \xed\xa0\x80 b\n",
        "random": random.randbytes(300),
        "packed": b"\x1f\x8b\x08" * 9,
    }


def odd_text(case: Case, task: str, **options: Sequence[str]) -> tuple[str, bytes]:
    """One of them: more often than not a broken one."""
    return case.random.choice(list(texts(case, task, **options).items()))


def odd_path(case: Case, *, kind: str = "file") -> str:
    """A path where something is expected: of what is not there, of another kind, or of what is no path.

    None lies outside the campaign's folder: what it names may be written over.
    """
    folder, file = case.folder / "a folder", case.folder / "a file"
    folder.mkdir(exist_ok=True)
    file.write_bytes(b"text\n")
    wrong = {"file": str(folder), "folder": str(file)}[kind]
    return case.random.choice(
        (
            wrong,
            wrong,
            "nowhere",
            "nowhere/x",
            "a file/x",
            "",
            ".",
            "./",
            _LONG,
            "d/" * 2200,
            "a\0b",
            "\udcff",
            "-",
            "--",
            "~nobody/x",
            "a\nb",
            "<b>x</b>",
        )
    )


def predict(case: Case) -> None:
    """`predict`: as many lines as it was given, or a plain message."""
    task, random = random_run(case), case.random
    name, content = odd_text(case, task)
    words: list[str] = [str(found(case, task))]
    stdin = b""
    way = random.choice(("pipe", "pipe", "file", "words", "-", "no file"))
    match way:
        case "file" | "no file":
            (case.folder / "in.txt").write_bytes(content)
            words += ["--input", "in.txt" if way == "file" else odd_path(case)]
        case "words":
            words += ["--", *content.decode("utf-8", errors="surrogateescape").splitlines()[:20]]
        case _:
            stdin, words = content, words + ["--input", "-"] * (way == "-")
    plain = task != "joint"
    if task == "joint":
        words[1:1] = ["--task", random.choice((*examples.JOINT, "nobody", "", "../qa", "a\0b"))]
    more = random.choice(
        (
            (),
            (),
            (),
            ("--n-best", random.choice(("0", "2", "-1", "x", "1000", str(10**12)))),
            ("--output", "out.txt"),
            ("--output", odd_path(case)),
            ("--output", _FULL),
            ("--draw", "drawn.png"),
            ("--draw", odd_path(case)),
            ("--task", "qa"),
        )
    )
    words += [random.choice(_SETTINGS)] * (not more and random.random() < 0.1)
    end = case.call(
        "predict", *more, *words, stdin=stdin, codes=(0, 1, 2) if _FULL in more or "--draw" in more else (0, 2)
    )
    if end.code == 0 and plain and not more and way in ("pipe", "file", "-"):
        given = content.decode("utf-8-sig").rstrip().count("\n") + 1
        case.expect(end.out.count("\n") == given, f"{end.out.count(chr(10))} lines for {given} inputs ({name})")


def score(case: Case) -> None:
    """`score`: figures, or a plain message."""
    random = case.random
    task = random.choice(examples.TASKS)
    good = {
        "parsing": "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "multilabel": "joy, fear",
        "detection": '{"boxes": [[1, 2, 9, 9]], "labels": ["dog"], "scores": [0.5]}',
        "language_model": "-3.5",
    }.get(task, "the dog sees a cat")
    for name in ("right", "given"):
        what = texts(case, task, good=[good] * 3)
        chosen = "good" if random.random() < 0.4 else random.choice(list(what))
        (case.folder / name).write_bytes(what[chosen])
    paths = ["right", "given"]
    if random.random() < 0.15:
        paths[random.randrange(2)] = odd_path(case)
    if random.random() < 0.05:
        task = random.choice(("multitask", "nothing", "", "Parsing", "a\0b"))
    more, setting = random.choice(((), (), (), ("--json",))), [random.choice(_SETTINGS)] * (random.random() < 0.2)
    end = case.call("score", *more, "--", task, *paths, *setting)
    if end.code == 0 and more == ("--json",):
        _parses(case, end.out, end)


def evaluate(case: Case) -> None:
    """`evaluate` of other splits, other data and other searches."""
    task, random = random_run(case), case.random
    run = str(own_run(case, task)) if random.random() < 0.8 else odd_path(case, kind="folder")
    more = random.choice(
        (
            ("--split", random.choice(("validation", "train", "nowhere", "", "a/b", "../x", "*", "a\0b", _LONG))),
            ("--data", odd_path(case, kind="folder")),
            ("--data", _odd_data(case, task)),
            ("--task", random.choice(("qa", "nobody", ""))),
            ("--json",),
            (random.choice(_SETTINGS),),
        )
    )
    end = case.call("evaluate", run, *more)
    if end.code == 0 and more == ("--json",):
        _parses(case, end.out, end)


def _odd_data(case: Case, task: str) -> str:
    """Data that are broken in some way, or another task's."""
    if task == "joint" or case.random.random() < 0.2:
        return str(case.shared / "data" / case.random.choice(_RUNS))
    shutil.copytree(case.shared / "data" / task, case.folder / "data")
    case.random.choice(rows.COMMON)(rows.Spoiled(case.folder / "data", task, case.random))
    return "data"


def compare(case: Case) -> None:
    """`compare` of runs that have little in common, its tables written where nothing can be."""
    random = case.random
    runs = [str(found(case, random_run(case))) for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        runs.insert(random.randrange(len(runs) + 1), odd_path(case, kind="folder"))
    more, full = [] if random.random() < 0.1 else ["--no-speed"], False
    for option in random.sample(("--html", "--csv", "--json"), k=random.randint(0, 2)):
        target = random.choice(("there", "there", odd_path(case), _FULL)) + option[1:]
        target = target if target.startswith("there") else target.removesuffix(option[1:])
        full |= target == _FULL
        more += [option, target]
    if random.random() < 0.3:
        more += ["--split", random.choice(("validation", "nowhere", "", "../x"))]
    case.call("compare", *more, "--", *runs, codes=(0, 1, 2) if full else (0, 2))


def sweep(case: Case) -> None:
    """`sweep` over settings that are none, into directories that hold something else."""
    random = case.random
    values = examples.settings("qa", case.shared / "data/qa", "")
    yaml = str(examples.write_yaml(case.folder / "qa.yaml", values))
    if random.random() < 0.2:
        yaml = random.choice((odd_path(case), "tasks/studies/none.yaml"))
    given = random.choice(
        (
            ["seed=1,x"],
            ["seed="],
            ["seed=1,1,-1"],
            ["sed=1,2"],
            ["seed=1,2", "seed=3"],
            [],
            ["seed"],
            ["seed=[1,2"],
            ["backbone.width=15,16"],
            ["strategy.kind=nothing,ctc"],
            ["seed=1,2", "--on", "a"],
            ["data.path=nowhere,elsewhere", "--jobs", "0"],
            ["seed=" + "1," * 3000],
            ["seed=1,\0"],
            ["search.temperature=" + ",".join(["1"] * 9)] * 9,
            ["training.kind=a,b"],
        )
    )
    target = random.choice(("out", odd_path(case, kind="folder")))
    if random.random() < 0.2:  # directories that are there and hold other things
        given, target = ["seed=1,2"], "out"
        for name in ("seed=1", "seed=2"):
            (case.folder / "out" / name).mkdir(parents=True)
            (case.folder / "out" / name / random.choice(("config.yaml", "summary.json", "other"))).write_bytes(
                random.choice((b"", b"task: qa\n", b"{}", b"\xff", b"3", b"[" * 9000))
            )
    case.call(
        "sweep", yaml, *given, "--output", target, codes=(0, 1, 2) if given == ["seed=1,2"] else (1, 2), limit=90.0
    )


def distill(case: Case) -> None:
    """`distill` of runs that can, and of those that cannot, into places that cannot hold its data."""
    random, task = case.random, case.random.choice(("translation", "translation", "qa", *_RUNS))
    run = str(found(case, task)) if random.random() < 0.9 else odd_path(case, kind="folder")
    more = [
        "--output",
        random.choice(("out", "out", odd_path(case, kind="folder"), str(found(case, task)), "a file/x")),
    ]
    if random.random() < 0.5:
        (case.folder / "sources.txt").write_bytes(odd_text(case, task)[1])
        more += ["--sources", random.choice(("sources.txt", "sources.txt", "sources.txt", odd_path(case)))]
    if random.random() < 0.2:
        more.append(random.choice(_SETTINGS))
    before = _listing(found(case, task))
    case.call("distill", run, *more, limit=60.0)
    case.expect(_listing(found(case, task)) == before, "the run's own directory was changed")


def run(case: Case) -> None:
    """`run` into directories and from weights that are none."""
    random = case.random
    task = random.choice(examples.TASKS)
    yaml = examples.write_yaml(
        case.folder / "a.yaml", examples.settings(task, case.shared / "data" / task, case.shared / "features")
    )
    (case.folder / "foreign").mkdir()
    (case.folder / "foreign" / "letter.txt").write_text("dear")
    own_run(case, task, "own")
    target = random.choice(("own", "foreign", "foreign/letter.txt", "foreign/letter.txt/x", odd_path(case)))
    more = random.choice(
        (
            [],
            ["--resume"],
            ["--overwrite"],
            ["--resume", "--overwrite"],
            ["init_from=nowhere"],
            [f"init_from={found(case, random_run(case))}", "init_parts=[all]"],
            ["init_from=foreign"],
            ["search.rescorer=foreign"],
            [f"search.rescorer={found(case, random_run(case))}"],
            ["data.splits={train: nothing}"],
            ["data.subset=a"],
            ["data.test_splits=[other]"],
        )
    )
    before = _listing(case.folder / "foreign"), _listing(case.folder / "own")
    end = case.call("run", yaml, *more, "--output", target, limit=60.0)
    case.expect(_listing(case.folder / "foreign") == before[0], f"a foreign folder was changed: {end.command}")
    kept = "--overwrite" in more or end.code == 0 or _listing(case.folder / "own") == before[1]
    case.expect(kept, f"refused, but the run in the directory was changed: {end.command}")


def odd_words(case: Case) -> None:
    """Command lines that are none."""
    words = case.random.choice(
        (
            [],
            [""],
            ["-h"],
            ["--help"],
            ["--version"],
            ["--nothing"],
            ["trian"],
            ["run"],
            ["run", "--help"],
            ["predict"],
            ["predict", "-h"],
            ["check", "a", "b"],
            ["run", "--output"],
            ["run", "a.yaml", "--resume=3"],
            ["--", "run"],
            ["score"],
            ["score", "parsing"],
            ["score", "parsing", "a", "b", "c"],
            ["compare"],
            ["distill", "a"],
            ["sweep"],
            ["run", "\udcff"],
            ["predict", "\0"],
            ["x" * 100_000],
            ["check"] * 100,
            ["run", "-"],
            ["evaluate", "--split"],
            ["predict", "a", "--n-best", "9" * 5000],
            ["sweep", "a.yaml", "--jobs", "-3"],
            ["check", "--set", "a=b"],
            ["run", "<b>x</b>"],
            ["\u202e"],
            ["run", "--seed=3"],
            ["--json", "score"],
            ["help"],
            ["predict", "--input"],
        )
    )
    helps = any(word in ("-h", "--help", "--version") for word in words)
    case.call(*words, codes=(0,) if helps else (2,))


_SETTINGS = (
    "search.beam_size=0",
    "search.beam_size=3",
    "search.beam_size=x",
    "nothing=1",
    "search",
    "seed=2",
    "=",
    "backbone.width=32",
    "task=qa",
    "search.temperature=.inf",
    "search.temperature=1e-300",
    "data.path=nowhere",
    "search.max_length_extra=1",
    "search.max_length_extra=1000000",
    "search.length_penalty=1e300",
    "",
    "search.batch_sentences=1",
    "search.batch_sentences=1000000000",
    "search.rescorer=nowhere",
    "a\0=b",
    "search.num_hypotheses=4",
    "search.ctc_weight=0.5",
    "search.sampling=true",
    "device=cuda",
    "tasks={}",
    "translation.metric_tokenizer=zh",
    "search.top_p=0",
    "search.kind=a",
    "training.threads=1000000000000",
)
_VERBS: tuple[Callable[[Case], None], ...] = (
    predict,
    score,
    evaluate,
    predict,
    score,
    compare,
    predict,
    score,
    run,
    distill,
    predict,
    score,
    odd_words,
    evaluate,
    compare,
    sweep,
)


def random_run(case: Case) -> str:
    """A task whose finished run is used; the joint one among them."""
    return case.random.choice(_RUNS)


def try_verb(case: Case) -> None:
    """Call one verb with something odd."""
    verb = _VERBS[case.number % len(_VERBS)]
    case.counts[verb.__name__] += 1
    verb(case)


def _parses(case: Case, text: str, end: Ended) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        case.expect(False, f"what --json printed is no JSON: {error}: {end.command}")


def _listing(folder: Path) -> list[tuple[str, int]]:
    """What a folder holds."""
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*") if not path.is_dir())


# -- pipes ----------------------------------------------------------------------------------------------------------


def try_pipe(case: Case) -> None:
    """A command whose standard output is closed, full, or closed by its reader: no trace, and nothing lost."""
    random, task = case.random, "qa"
    way = ("closed", "full", "one line is read", "nothing is read", "no input", "no errors")[case.number % 6]
    case.counts[way] += 1
    lines = (good_line(case, task) + "\n").encode() * 300
    yaml = examples.write_yaml(case.folder / "a.yaml", examples.settings(task, case.shared / "data" / task, ""))
    words, stdin = random.choice(
        (
            (["predict", found(case, task)], lines),
            (["check", yaml], b""),
            (["run", yaml, "--output", "run"], b""),
            (["evaluate", own_run(case, task)], b""),
            (["compare", found(case, task), found(case, "parsing")], b""),
            (["--help"], b""),
            (["--version"], b""),
            (["score", "translation", yaml, yaml, "--json"], b""),
        )
    )
    open_ends: list[int] = []
    match way:
        case "closed":
            output = -1
        case "full":
            output = os.open(_FULL, os.O_WRONLY)
            open_ends.append(output)
        case "one line is read" | "nothing is read":
            reading, output = os.pipe()
            open_ends += [reading, output]
        case _:
            output = None
    closed = {"no input": (0, "stdin"), "no errors": (2, "stderr")}.get(way)

    def first() -> None:
        if closed is not None:
            os.close(closed[0])
            setattr(sys, closed[1], None)

    running = case.start(*words, stdin=stdin, output=output, limit=60.0, first=first)
    if len(open_ends) == 2:
        os.close(open_ends.pop())
        if way == "one line is read":
            while os.read(open_ends[0], 1) not in (b"", b"\n"):
                pass
    for end in open_ends:
        os.close(end)
    ended = running.wait()
    case.called.append(ended)
    right = {"closed": (0,), "no input": (0, 2), "no errors": (0, 2)}.get(way, (0, 1))
    found_faults = [fault for fault in faults(ended, right) if not fault.endswith("without a word")]
    case.complaints += [f"{way}: {fault}: {ended.command}" for fault in found_faults]
    if words[0] == "run" and ended.code != 0 and (case.folder / "run" / "config.yaml").exists():
        case.call("run", yaml, "--output", "run", "--resume", codes=(0,), limit=60.0)


KINDS = (
    Kind("verbs", "verbs with broken, missing and odd input", try_verb, 700, share=5.0, prepare=prepare),
    Kind("pipes", "a standard output that is closed, full or no longer read", try_pipe, 60, share=1.0, prepare=prepare),
)
