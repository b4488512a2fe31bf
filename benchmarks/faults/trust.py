"""Code that a run, or what it names, brings along: no verb runs it unasked."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from benchmarks.faults import rows, verbs
from benchmarks.faults.campaign import Case, Kind

_CODE = """open({marker!r}, "a").write("ran")
from seq2seq_suite.tasks.parsing.task import ParsingTask
class T(ParsingTask): pass
def attend(*given, **named): raise SystemExit(3)
"""
_VERBS = (
    ("predict", "{run}", "dog"),
    ("evaluate", "{run}"),
    ("compare", "{run}", "{good}", "--no-speed"),
    ("compare", "{good}", "{run}"),
    ("export", "{run}", "out", "--to", "model-card"),
    ("export", "{run}", "out", "--to", "hub-folder"),
    ("distill", "{run}", "--output", "out"),
    ("predict", "--n-best", "2", "{run}", "dog"),
    ("check", "own.yaml"),
    ("run", "own.yaml", "--output", "new"),
)


def prepare(case: Case) -> None:
    """A finished parser."""
    rows.prepare(case, ("parsing",))


def _name(task: Path, run: Path, way: str, code: str) -> None:
    """Let a run name code in one of the ways in which it can."""
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    match way:
        case "task":
            config["task"] = f"{code}:T"
        case "component":
            config["components"] = {"attention": f"{code}:attend"}
        case "joint":
            (run / "inner.yaml").write_text(f"task: {code}:T\n", encoding="utf-8")
            config |= {"task": "multitask", "tasks": {"a": {"yaml": "inner.yaml"}}}
        case "part":
            config |= {"task": "multitask", "tasks": {"a": {"task": f"{code}:T"}}}
        case "drafter" | "rescorer" | "begun from":
            shutil.copytree(task, run / "within")
            _name(task, run / "within", "task", code)
            if way == "begun from":
                config |= {"init_from": "within", "init_parts": ["encoder"]}
            else:
                config["search"] = {**(config.get("search") or {}), way: "within"}
    (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def try_trust(case: Case) -> None:
    """One verb, one way, one place of the code; then a run of one's own that begins from or asks such a run."""
    random, good = case.random, verbs.found(case, "parsing")
    marker = case.folder / "ran"
    case.folder.joinpath("downloaded").mkdir()
    run = case.folder / "downloaded" / "run"
    shutil.copytree(good, run, symlinks=True)
    place = random.choice(("in", "beside", "link", "absolute"))
    home = {"in": run, "link": case.folder}.get(place, case.folder / "downloaded" / "lib")
    home.mkdir(exist_ok=True)
    (home / "evil.py").write_text(_CODE.format(marker=str(marker)), encoding="utf-8")
    if place == "link":
        (run / "evil.py").symlink_to(home / "evil.py")
    code = {"beside": "../lib/evil.py", "absolute": str(home / "evil.py")}.get(place, "evil.py")
    way = random.choice(("task", "component", "joint", "part", "drafter", "rescorer", "begun from"))
    _name(good, run, way, code)
    words = _VERBS[case.number % len(_VERBS)]
    if "own.yaml" in words:  # one's own file may name code; a run that it names may not
        own = yaml.safe_load((case.shared / "parsing.yaml").read_text(encoding="utf-8"))
        own |= {"init_from": str(run), "init_parts": ["encoder"]}
        (case.folder / "own.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    end = case.call(*(word.format(run=run, good=good) for word in words), limit=60.0)
    case.counts[way] += 1
    case.expect(not marker.exists(), f"code ran: {way}, {place}: {end.command}")


KINDS = (Kind("trust", "runs that bring code along, to every verb", try_trust, 140, share=2.0, prepare=prepare),)
