"""Configurations drawn from the schema: bad ones, to be refused in plain words, and good ones, which must run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.faults import examples, schema
from benchmarks.faults.campaign import Case, Kind
from benchmarks.faults.schema import Key
from seq2seq_suite.config.schema import of_any_task

_FILE, _RUN = "bad.yaml", "run"
_IN_A_TASK = ("data", "search", "strategy", "qa")  # sections that a task of a joint run has of its own
_HUGE = (10**9, 2**31, 2**63, 2**64, 10**18, 10**30)
_EXTREME = (1e30, 1e300, schema.INFINITE, 1e-30, 5e-324)
_Words = tuple[dict[str, Any], list[str], str]  # settings of the file, overrides, what the answer must name


@functools.cache
def all_keys() -> tuple[Key, ...]:
    """Every key of the configuration."""
    return tuple(schema.keys(of_any_task()))


def prepare(case: Case) -> None:
    """Data for every task."""
    for task in (*examples.TASKS, "joint"):
        if not (case.shared / "data" / task).exists():
            examples.write(case.shared / "data" / task, task)


def base(case: Case, task: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The settings of a run on the shared data."""
    return examples.settings(task, case.shared / "data" / task, case.shared / "features", changes)


# -- bad ones -------------------------------------------------------------------------------------------------------


def try_bad(case: Case) -> None:
    """Refuse one bad configuration: exit code 2, the key or the file named, no directory left behind."""
    way = WAYS[case.number % len(WAYS)]
    key = all_keys()[case.number // len(WAYS) % len(all_keys())]
    case.counts[way.__name__.strip("_")] += 1
    way(case, key)


def _answer(case: Case, words: list[str], named: str, *, codes: tuple[int, ...] = (2,)) -> None:
    """Carry out a command on the bad file and look at its answer."""
    end = case.call(*words, codes=codes)
    left = sorted(path.name for path in case.folder.iterdir() if path.name != _FILE)
    case.expect(not left or end.code == 0, f"left behind: {', '.join(left)}: {end.command}")
    case.expect(
        end.code != 2 or named.lower() in end.err.lower(),
        f"the message does not name '{named}': {end.err.strip()[:300]!r}: {end.command}",
    )


def _try(case: Case, settings: dict[str, Any], overrides: list[str], named: str, **options: Any) -> None:
    examples.write_yaml(case.folder / _FILE, settings)
    verb = [_RUN, _FILE, *overrides, "--output", "run"] if case.random.random() < 0.2 else ["check", _FILE, *overrides]
    _answer(case, verb, named, **options)


def _with(case: Case, key: Key, value: Any, *, name: str = "") -> _Words:
    """Settings that hold a value for a key, or for another name in its place: in the file, or as an override."""
    random = case.random
    below, task = (), _task_of(key, random, random.choice(examples.TASKS))
    if key.path[0] in _IN_A_TASK and random.random() < 0.2:
        below, task = ("tasks", "qa"), "joint"
    settings, path = base(case, task), (*key.path[:-1], name or key.path[-1])
    if random.random() < 0.5:
        changed = Key(path, key.annotation, key.bounds, key.default, key.kinds)
        schema.put_key(settings, changed, value, below)
        return settings, [], path[-1]
    kinds = [".".join((*below, *where, "kind")) + f"={kind}" for where, kind in key.kinds if name or path[-1] != "kind"]
    return settings, [*kinds, ".".join((*below, *path)) + f"={schema.flow(value)}"], path[-1]


def _value(case: Case, key: Key) -> None:
    """A value of the wrong type, out of range, or not among the choices."""
    _try(case, *_with(case, key, schema.bad(key, case.random)))


def _huge(case: Case, key: Key) -> None:
    """A number beyond all reason where one belongs: accepted, or refused in plain words."""
    settings, verb = base(case, _task_of(key, case.random)), ["check", _FILE]
    if key.annotation is float:
        value, verb = case.random.choice(_EXTREME), [_RUN, _FILE, "--output", "run"]
    else:
        value = case.random.choice(_HUGE)
    schema.put_key(settings, key, value)
    examples.write_yaml(case.folder / _FILE, settings)
    _answer(case, verb, "", codes=(0, 1, 2))


def _unknown(case: Case, key: Key) -> None:
    """A key that is none."""
    name = case.random.choice(("surprise", "x", "Lr", "9", "größe", "a-b", "_", key.path[-1] * 2, "kinds", "n" * 500))
    _try(case, *_with(case, key, case.random.choice((1, "a", None, [1], {"a": 1})), name=name)[:2], "")


def _misspelt(case: Case, key: Key) -> None:
    """A key with a letter wrong."""
    paths = schema.section_paths(of_any_task())
    known = {one.path[-1] for one in all_keys()} | {name for path in paths for name in path}
    name = schema.misspelt(key.path[-1], known, case.random)
    settings, overrides, _ = _with(case, key, schema.good(key, case.random), name=name)
    _try(case, settings, overrides, "" if overrides and not name[0].isalpha() else name)


def _section(case: Case, key: Key) -> None:
    """Something else where a section belongs, or a kind where sections have none."""
    paths = schema.section_paths(of_any_task())
    path = case.random.choice([path for path in paths if path])
    wrong: list[Any] = [None, 3, 0.5, "text", True, [], [1], [{"a": 1}], schema.NAN]
    value = case.random.choice(wrong)
    if case.random.random() < 0.4:
        has_kinds = any("kind" in section.model_fields for section in paths[path])
        path, value = (*path, "kind"), case.random.choice(("none", 3, [], {}, None) if has_kinds else ("ctc", "a", 3))
    whole = Key(path, None, (), None)
    _try(case, *_with(case, whole, value)[:2], path[-1])


def _text(case: Case, _key: Key) -> None:
    """A file that is broken as a text or as YAML."""
    settings = base(case, case.random.choice(examples.TASKS))
    name, content, codes = case.random.choice(_texts(case.random, schema.yaml_text(settings)))
    case.counts[name] += 1
    (case.folder / _FILE).write_bytes(content)
    _answer(case, ["check", _FILE], "", codes=codes)


def _override(case: Case, key: Key) -> None:
    """An override that is broken as such."""
    examples.write_yaml(case.folder / _FILE, base(case, case.random.choice(examples.TASKS)))
    name, dotted = key.path[-1], key.dotted
    words = case.random.choice(
        [
            [f"{dotted}"],
            [f"={name}"],
            [f".{dotted}=1"],
            [f"{dotted}..x=1"],
            [f"{dotted}.x=1"],
            [f"{dotted}.kind=1"],
            [f"{dotted}.=1"],
            [f"--{dotted}=1"],
            [f"--{dotted}", "1"],
            [f"{dotted}", "=", "1"],
            [f"{dotted}=[1"],
            [f"{dotted}={{a: &a [*a]}}"],
            [f"{dotted}=" + "[" * 3000],
            [f"{dotted}=" + "{a: " * 3000],
            [f"{dotted}=" + "9" * 5000],
            [f"{dotted}=!!python/object:os.system x"],
            [f"{dotted}=!!binary x"],
            ["data.path=" + "a/" * 2500],
            ["data.path=nowhere"],
            ["data.path="],
            ["data.path=" + "n" * 300],
            ["x" * 100_000 + "=1"],
            [f"{dotted}=" + "y" * 100_000 + ": 1"],
            ["other.yaml"],
            [f"{dotted}=\x01"],
            [".".join("a" * 3000) + "=1"],
            [f"{dotted}: 1"],
            [_alias_bomb(dotted)],
        ]
    )
    _answer(case, ["check", _FILE, *words], "", codes=(2,) if "y" * 99 not in words[0] else (0, 2))


def _path(case: Case, _key: Key) -> None:
    """A file that is not there, or none."""
    (case.folder / _FILE).write_text("task: qa\n")
    path = case.random.choice(
        [
            "no.yaml",
            ".",
            "/",
            "",
            "n" * 300,
            "d/" * 2200 + "a.yaml",
            "a\nb.yaml",
            "\udcff.yaml",
            "a\0b.yaml",
            "/dev/null",
            "bad.yaml/x",
            str(case.shared / "data/asr/train0.wav"),
            "~x/a",
        ]
    )
    _answer(case, [case.random.choice(("check", "run")), path], "")


def _alias_bomb(name: str) -> str:
    """An override that says what a few letters stand for, nine times nine times nine."""
    text = f"&a0 [{', '.join(['lol'] * 9)}]"
    for level in range(1, 9):
        text = f"&a{level} [{text}{f', *a{level - 1}' * 8}]"
    return f"{name}={text}"


def _texts(random: Random, good: str) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """Names, contents and right exit codes of files that are broken as such, or only look so."""
    deep, lines = random.choice((300, 1500, 20_000)), good.splitlines(keepends=True)
    bomb = "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9) if level else 'lol'}]\n" for level in range(10)
    )
    twice = random.choice(lines)
    cut = random.randrange(len(good))
    texts = {
        "empty": "",
        "blank": "\n \n",
        "a comment": "# nothing\n",
        "text": "hello",
        "a list": "- a\n- b\n",
        "null": "~",
        "number": "3",
        "two documents": good + "---\n" + good,
        "a tab": good + "\tseed: 1\n",
        "bracket": good + "[\n",
        "twice": good + twice,
        "deep list": good + "data: " + "[" * deep + "]" * deep,
        "deep mapping": good + "data: " + "{a: " * deep + "1" + "}" * deep,
        "deep blocks": "".join(" " * level + "a:\n" for level in range(deep // 20)),
        "deep dashes": good + "x: \n " + "- " * deep + "a\n",
        "open quote": good + 'seed: "1\n',
        "alias bomb": bomb + good,
        "itself": good + "x: &x [*x]\n",
        "no anchor": good + "x: *nothing\n",
        "python": good + "x: !!python/object/apply:os.system ['true']\n",
        "tag": good + "seed: !!timestamp 2001-01-01\n",
        "set": good + "seed: !!set {1}\n",
        "merge": good + "<<: {seed: 1}\n",
        "list as key": good + "[a, b]: 1\n",
        "mapping as key": good + "? {a: 1}\n: 1\n",
        "colon": good + "seed: a: b\n",
        "digits": good + f"seed: {'9' * 5000}\n",
        "long key": good + "k" * 200_000 + ": 1\n",
        "long text": good + f"device: {'x' * 200_000}\n",
        "NUL": good + "\0",
        "control": good + "\x07\x1b[31m",
        "key is null": good + "~: 1\n",
        "hex": good + "seed: 0x10\n",
        "date": good + "seed: 2001-01-01\n",
        "sexagesimal": good + "seed: 1:30\n",
        "percent": "%YAML 9.9\n---\n" + good,
    }
    broken = [(name, text.encode(), (2,)) for name, text in texts.items()]
    harmless = [
        ("CRLF", good.replace("\n", "\r\n")),
        ("BOM", "\ufeff" + good),
        ("comments", f"# a\n{good}# b"),
        ("cut", good[:cut]),
        ("bidi", good + "# \u202e\u2066\n"),
    ]
    either = [(name, text.encode(), (0, 2)) for name, text in harmless]
    return [
        *broken,
        *either,
        ("latin-1", good.encode() + b"# \xe9\n", (2,)),
        ("UTF-16", good.encode("utf-16"), (0, 2)),
        ("surrogate", good.encode() + b'x: "\xed\xa0\x80"\n', (2,)),
        ("random", random.randbytes(500), (2,)),
    ]


WAYS: tuple[Callable[[Case, Key], None], ...] = (
    _value,
    _unknown,
    _value,
    _misspelt,
    _value,
    _text,
    _value,
    _section,
    _override,
    _huge,
    _value,
    _path,
)


# -- good ones ------------------------------------------------------------------------------------------------------


def try_good(case: Case) -> None:
    """Run two updates with a few keys changed, one of them the case's own; a refusal in plain words is no try."""
    random, own = case.random, all_keys()[case.number % len(all_keys())]
    task = _task_of(own, random)
    settings = base(case, task)
    known = [key for key in all_keys() if _task_of(key, Random(0), task) == task]
    for key in [*random.sample(known, k=random.choice((0, 0, 1, 2, 4, 8))), own]:
        below = ("tasks", random.choice(examples.JOINT)) if task == "joint" and key.path[0] in _IN_A_TASK else ()
        if not _is_fixed(key, task):
            schema.put_key(settings, key, schema.good(key, random), below)
    settings["training"] |= {"max_updates": 2}
    examples.write_yaml(case.folder / _FILE, settings)
    end = case.call("run", _FILE, "--output", "run", limit=90.0)
    case.counts["ran" if end.code == 0 else "refused"] += 1
    case.expect(
        end.code != 2 or not (case.folder / "run").exists(),
        f"refused after it had begun: {end.err.strip()[:300]!r}: {end.command}",
    )
    if case.complaints:
        case.complaints.append("the file was: " + schema.yaml_text(settings).replace("\n", "; "))


def _task_of(key: Key, random: Random, wanted: str = "") -> str:
    """A task that may read a key: that of the section's name, if there is one; the wanted one if it is among many."""
    tasks = (*examples.TASKS, "joint")
    if key.path[0] in tasks:
        tasks = (key.path[0],)
    elif key.path[0] == "audio":
        tasks = examples.OF_SOUND
    elif key.path[0] == "mixture":
        tasks = ("joint",)
    return wanted if wanted in tasks else random.choice(tasks)


def _is_fixed(key: Key, task: str) -> bool:
    """Whether a key is left alone: what names the task and where its data lie, and a joint run's tasks."""
    return key.path in (("task",), ("tasks",), ("data", "path"), ("audio", "cache"), ("training", "max_updates")) or (
        task == "joint" and key.path[0] in examples.TASKS
    )


KINDS = (
    Kind("settings", "bad configurations", try_bad, 5000, share=3.0, prepare=prepare),
    Kind("valid", "valid configurations, two updates each", try_good, 500, counted="ran", share=8.0, prepare=prepare),
)
