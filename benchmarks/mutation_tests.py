"""Which tests run which lines of a package, and whether one of them fails in a changed copy."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import pytest

from benchmarks.forks import Project, in_children

_SLOW = 0.5  # seconds of a test
WHOLE_FILE = ""  # the context of what runs while a test file is collected
_LEAST_LIMIT = 30  # seconds that a test may take, however short it is usually; ten times its usual time otherwise


@dataclass
class _Selection:
    """A pytest plugin: runs the chosen tests, fastest first, each within a time, and keeps those that fail.

    Args:
        chosen: usual seconds by test.
        folder: of the child.
        until: when no more tests are started, in seconds of `time.monotonic`; of endless loops the alarm takes care.
    """

    chosen: Mapping[str, float]
    folder: Path
    until: float
    ran: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    cut: bool = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.chosen), key=lambda item: self.chosen[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        # Whichever of the tests is the first has to set up what they share.
        within(self.folder, item.nodeid, max(self.chosen.values()))
        self.ran.append(item.nodeid)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            if nextitem is not None and time.monotonic() > self.until:
                self.cut = True
                item.session.shouldstop = "no time is left"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def within(folder: Path, what: str, usual: float) -> None:
    """Note what is done now; the process ends if it takes far longer than usual."""
    (folder / "now").write_text(what, encoding="utf-8")
    signal.alarm(max(_LEAST_LIMIT, int(10 * usual)))


def pytest_in(tree: Path, file: str, plugin: object, *options: str) -> int:
    """Run a file's tests in this process."""
    return int(
        pytest.main(
            [
                file,
                "-q",
                "-rN",
                "--doctest-modules",
                "--assert=plain",
                "-o",
                "addopts=",
                "-p",
                "no:cacheprovider",
                f"--rootdir={tree}",
                f"--basetemp={tree.parent / 'tmp' / 'pytest'}",
                *options,
            ],
            plugins=[plugin],
        )
    )


def try_tests(
    stages: Iterable[tuple[str, Mapping[str, float]]], tree: Path, budget: float, *options: str
) -> dict[str, Any]:
    """Run tests, file by file, until one fails; `failed` holds tests, or a file that could not be collected."""
    until, ran = time.monotonic() + budget, 0
    for file, chosen in stages:
        selection = _Selection(chosen, tree.parent, until)
        within(tree.parent, file, 0.0)
        code = pytest_in(tree, file, selection, *options)
        signal.alarm(0)
        ran += len(selection.ran)
        if code == pytest.ExitCode.USAGE_ERROR:
            return {"broken": f"pytest refuses {file}", "ran": ran}
        passed = selection.cut or code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if selection.failed or not passed:
            return {"failed": selection.failed or [file], "ran": ran}
        if time.monotonic() > until:
            break
    return {"failed": [], "ran": ran}


class _Recorder:
    """A pytest plugin: tells coverage which test runs, also for the processes that a test starts."""

    def __init__(self, coverage: Any):
        self.coverage = coverage
        self.seconds: dict[str, float] = defaultdict(float)
        self.passed: set[str] = set()

    def _switch(self, context: str) -> None:
        os.environ["MUTATION_CONTEXT"] = context
        self.coverage.switch_context(context)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        self._switch(f"{item.nodeid}|setup")
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        self._switch(f"{item.nodeid}|call")
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Any:
        self._switch(WHOLE_FILE)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        elif report.failed:
            self.passed.discard(report.nodeid)


def record(file: str, tree: Path, package: str) -> dict[str, Any]:
    """Run a test file: seconds of each test that passes, and for the package's lines the contexts that run them."""
    import coverage

    settings = tree.parent / "coveragerc"
    settings.write_text(
        f"[run]\nsource = {tree / package}\ndata_file = {tree.parent / 'covered'}\nparallel = true\n"
        "context = ${MUTATION_CONTEXT-}\n",
        encoding="utf-8",
    )
    os.environ["COVERAGE_PROCESS_START"] = str(settings)
    measured = coverage.Coverage(config_file=str(settings))
    recorder = _Recorder(measured)
    measured.start()
    code = pytest_in(tree, file, recorder)
    measured.stop()
    measured.save()
    os.environ.pop("MUTATION_CONTEXT", None)
    whole = coverage.Coverage(config_file=str(settings))
    whole.combine([str(tree.parent)])
    lines = {}
    for path in whole.get_data().measured_files():
        if not path.endswith(".py"):  # Jinja compiles templates under their own names
            continue
        together = defaultdict(list)
        for line, contexts in whole.get_data().contexts_by_lineno(path).items():
            together[tuple(sorted(contexts))].append(line)
        lines[str(PurePath(path).relative_to(tree))] = [[contexts, found] for contexts, found in together.items()]
    return {
        "code": code,
        "lines": lines,
        "seconds": {test: round(recorder.seconds[test], 4) for test in sorted(recorder.passed)},
        "failing": sorted(test for test in recorder.seconds if test not in recorder.passed),
    }


@dataclass
class Reach:
    """Which tests run a line, by one run of every test file, remembered as long as its files stay the same."""

    project: Project
    cache: Path
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def fill(self, jobs: int) -> None:
        """Run the test files of which nothing is known or whose files have changed."""
        hashes = {
            str(path.relative_to(self.project.clean)): _sha(path.read_bytes())
            for path in self.project.clean.rglob("*.py")
        }
        files = self.project.test_files()
        # What every test file may depend on: tools of the tests, settings and recipes.
        common = [
            *(path for path in (self.project.clean / "tests").rglob("*.py") if not path.match("test_*.py")),
            *self.project.clean.glob("*.toml"),
            *self.project.clean.rglob("*.yaml"),
        ]
        key = _sha(b"".join(path.read_bytes() for path in sorted(common)) + sys.version.encode())
        self.cache.mkdir(parents=True, exist_ok=True)
        for file in files:
            kept = self._kept(file)
            if kept.exists():
                known = json.loads(kept.read_text(encoding="utf-8"))
                if known["key"] == key and all(hashes.get(name) == old for name, old in known["files"].items()):
                    self.records[file] = known
        missing = [file for file in files if file not in self.records]
        package = self.project.package
        done = in_children(missing, lambda file, tree: record(file, tree, package), self.project, jobs)
        for count, (file, found) in enumerate(done, 1):
            if "died" in found:
                raise RuntimeError(f"{file} cannot be run:\n{found['log']}")
            found |= {"key": key, "files": {name: hashes[name] for name in {file, *found["lines"]}}}
            del found["log"], found["last"]
            self.records[file] = found
            new = self._kept(file).with_suffix(".new")
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(self._kept(file))  # an interruption leaves no half of it
            seconds = sum(found["seconds"].values())
            notes = [f"\n  fails or is skipped: {test}" for test in found["failing"]]
            print(
                f"{count}/{len(missing)} {file}: {len(found['seconds'])} tests, {seconds:.1f} s",
                *notes,
                file=sys.stderr,
                flush=True,
            )

    def _kept(self, file: str) -> Path:
        return self.cache / f"{_sha(file.encode())[:16]}.json"

    def stages(self, module: str, lines: tuple[int, int]) -> list[tuple[str, dict[str, float]]]:
        """Test files in the order to try them, each with its tests that reach the lines.

        Quick tests come before slow ones; among them those that run a line themselves before those that only share a
        fixture or an import that does; then a module's own test file before those that import the module.
        """
        found = []
        for file, known in self.records.items():
            contexts = {
                context
                for group, numbers in known["lines"].get(module, [])
                if any(lines[0] <= number <= lines[1] for number in numbers)
                for context in group
            }
            direct = {context.rpartition("|")[0] for context in contexts} & set(known["seconds"])
            shared = any(context == WHOLE_FILE or context.endswith("|setup") for context in contexts)
            rest = set(known["seconds"]) - direct if shared else set()
            for near, slow in itertools.product((0, 1), (False, True)):
                chosen = {
                    test: seconds
                    for test in (direct, rest)[near]
                    if ((seconds := known["seconds"][test]) > _SLOW) == slow
                }
                if chosen:
                    order = slow, near, self._distance(file, module), min(chosen.values())
                    found.append((order, file, chosen))
        return [(file, chosen) for _, file, chosen in sorted(found, key=lambda item: item[0])]

    def _distance(self, file: str, module: str) -> int:
        stem, test = PurePath(module).stem, PurePath(file)
        same_room = test.parent.parts[1:] == PurePath(module).parent.parts[1:]
        if file == module or (same_room and (test.stem == f"test_{stem}" or test.stem.startswith(f"test_{stem}_"))):
            return 0
        dotted = module.removesuffix(".py").replace("/", ".")
        text = (self.project.clean / file).read_text(encoding="utf-8")
        package, _, name = dotted.rpartition(".")
        return 1 if dotted in text or f"from {package} import {name}\n" in text else 2


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
