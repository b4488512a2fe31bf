"""Plant single plausible bugs in the package, run the tests that reach them, and list those that no test catches.

    python -m benchmarks.mutation --mutants 300 --seed 1 --output benchmarks/results/mutation.md
    python -m benchmarks.mutation --files "seq2seq_suite/strategies/*" --mutants 50
    python -m benchmarks.mutation --only "seq2seq_suite/common/trees.py::read_trees::comparison::2"

Once, and again for what has changed, every test file runs under coverage to learn which tests run which lines. A mutant
is then tried on the tests that run its line: those of its own test file first, at most `--budget` seconds of them.
Results go to a file as they come; after an interruption `--resume` continues from it, and repeats only survivors whose
tests have changed or who ran out of a smaller budget.

cosmic-ray starts a new command for every mutant, in place in the checkout; mutmut leaves module and class bodies,
axes, arguments and calls alone and puts every function behind a switch. Neither draws by stratum: so neither is used.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.equivalent_mutants import EQUIVALENT
from benchmarks.forks import Project, in_children
from benchmarks.mutants import Mutant, draw, files_of, mutants_of, mutated
from benchmarks.mutation_tests import Reach, try_tests

CAUGHT, TIMED_OUT, SURVIVED, IS_EQUIVALENT = "caught", "timed out", "survived", "equivalent"


def choose(root: Path, arguments: argparse.Namespace) -> list[Mutant]:
    """The mutants asked for by name, or those drawn.

    Raises:
        SystemExit: a name that does not occur.
    """
    if arguments.only:
        found = {
            mutant.name: mutant
            for file in {name.partition("::")[0] for name in arguments.only}
            if (root / file).is_file()
            for mutant in mutants_of(file, _text(root, file))
        }
        unknown = [name for name in arguments.only if name not in found]
        if unknown:
            sys.exit(f"no such mutant: {', '.join(unknown)}")
        return [found[name] for name in arguments.only]
    every = [
        mutant
        for file in files_of(root, arguments.package, *arguments.files)
        for mutant in mutants_of(file, _text(root, file))
    ]
    chosen = []
    for mutant in draw(every, len(every), arguments.seed):
        if len(chosen) == arguments.mutants:
            break
        try:
            mutated(mutant, _text(root, mutant.file))
        except ValueError:
            continue
        chosen.append(mutant)
    return chosen


def attempt(
    mutants: Sequence[Mutant],
    reach: Reach,
    project: Project,
    known: dict[str, dict[str, Any]],
    arguments: argparse.Namespace,
) -> None:
    """Try what is not known yet; adds to `known` and to the file of results."""
    stages = {
        mutant.name: [
            (file, tests)
            for file, tests in reach.stages(mutant.file, mutant.lines)
            if file in (arguments.tests or (file,))
        ]
        for mutant in mutants
    }
    against = {
        name: hashlib.sha256(
            json.dumps([[file, sorted(tests), reach.records[file]["files"][file]] for file, tests in found]).encode()
        ).hexdigest()
        for name, found in stages.items()
    }
    waiting = [
        mutant
        for mutant in mutants
        if not _is_settled(known.get(mutant.name), mutant, against[mutant.name], arguments.budget)
    ]
    if arguments.tests:
        waiting = [mutant for mutant in waiting if stages[mutant.name]]

    def work(mutant: Mutant, tree: Path) -> dict[str, Any]:
        started = time.monotonic()
        (tree / mutant.file).write_text(mutated(mutant, _text(tree, mutant.file)), encoding="utf-8")
        return try_tests(stages[mutant.name], tree, arguments.budget, "-x") | {"seconds": time.monotonic() - started}

    with arguments.results.open("a", encoding="utf-8") as file:
        for count, (mutant, found) in enumerate(in_children(waiting, work, project, arguments.jobs), 1):
            if "broken" in found:
                raise RuntimeError(f"{found['broken']}\n{found['log']}")
            outcome = CAUGHT if found.get("failed") or "died" in found else SURVIVED
            if "died" in found and os.WIFSIGNALED(found["died"]) and os.WTERMSIG(found["died"]) == signal.SIGALRM:
                outcome = TIMED_OUT
            last = found["last"] if "died" in found else ""
            row = {
                "name": mutant.name,
                "change": _change(mutant),
                "outcome": outcome,
                "test": next(iter(found.get("failed", ())), last),
                "ran": found.get("ran", 0),
                "reaching": sum(len(tests) for _, tests in stages[mutant.name]),
                "seconds": round(found.get("seconds", 0.0), 1),
                "budget": arguments.budget,
                "against": against[mutant.name],
            }
            if arguments.tests and outcome == SURVIVED and mutant.name in known:
                row = known[mutant.name]  # which more tests have let live
            known[mutant.name] = row
            print(json.dumps(row), file=file, flush=True)
            print(f"{count}/{len(waiting)} {outcome} {mutant.name}: {_change(mutant)}", file=sys.stderr, flush=True)
            if arguments.only:
                print(*_difference(mutant, _text(project.clean, mutant.file)), found["log"][-4000:], sep="\n")


def _is_settled(row: Mapping[str, Any] | None, mutant: Mutant, against: str, budget: float) -> bool:
    if row is None or row["change"] != _change(mutant):
        return False
    whole = row["ran"] == row["reaching"] or row["budget"] >= budget
    return row["outcome"] != SURVIVED or (row["against"] == against and whole)


def unsound(rows: Sequence[Mapping[str, Any]], reach: Reach, project: Project, jobs: int) -> set[str]:
    """Tests said to have caught a mutant that fail without one, too, when they run alone."""
    by_file: dict[str, dict[str, float]] = {}
    for test in {row["test"] for row in rows if row["outcome"] == CAUGHT and "::" in row["test"]}:
        file = test.partition("::")[0]
        by_file.setdefault(file, {})[test] = reach.records[file]["seconds"].get(test, 0.0)

    def work(chosen: tuple[str, dict[str, float]], tree: Path) -> dict[str, Any]:
        return try_tests([chosen], tree, math.inf, "--maxfail=0")

    found = in_children(by_file.items(), work, project, jobs)
    return {test for (file, _), result in found for test in result.get("failed", [file])}


def report(mutants: Sequence[Mutant], known: Mapping[str, Mapping[str, Any]], root: Path, bad: set[str]) -> list[str]:
    """Tables and survivors."""
    from benchmarks.machine import markdown_table

    rows = {mutant.name: known.get(mutant.name, {"outcome": IS_EQUIVALENT}) for mutant in mutants}
    counts: dict[str, Counter[str]] = {}
    for mutant in mutants:
        counts.setdefault(mutant.package, Counter())[rows[mutant.name]["outcome"]] += 1
    total = sum(counts.values(), Counter())
    order = (CAUGHT, TIMED_OUT, SURVIVED, IS_EQUIVALENT)
    table = markdown_table(
        ["package", "drawn", *order, "share caught"],
        [
            [package, str(found.total()), *(str(found[outcome]) for outcome in order), _share(found)]
            for package, found in [*sorted(counts.items()), ("**all**", total)]
        ],
    )
    by_rule: dict[str, Counter[str]] = {}
    for mutant in mutants:
        by_rule.setdefault(mutant.rule, Counter())[rows[mutant.name]["outcome"]] += 1
    lines = [
        *table,
        "",
        "Share caught: of those that change behaviour, timeouts included. By rule: "
        + ", ".join(f"{rule} {_share(found)} of {found.total()}" for rule, found in sorted(by_rule.items()))
        + ".",
    ]
    if bad:
        lines += ["", f"**Not sound**: {', '.join(sorted(bad))} fail without a mutant, too."]
    alive = [mutant for mutant in mutants if rows[mutant.name]["outcome"] == SURVIVED]
    lines += ["", f"## Survivors: {len(alive)}"]
    for mutant in alive:
        row = rows[mutant.name]
        tests = f"{row['ran']} of {row['reaching']} tests that reach it ran" if row["reaching"] else "no test does"
        lines += [
            "",
            f'`python -m benchmarks.mutation --only "{mutant.name}"` ({tests})',
            "",
            "```diff",
            *_difference(mutant, _text(root, mutant.file)),
            "```",
        ]
    same = [mutant for mutant in mutants if rows[mutant.name]["outcome"] == IS_EQUIVALENT]
    lines += [
        "",
        f"## Equivalent: {len(same)}",
        "",
        *markdown_table(
            ["mutant", "change", "why it is equivalent"],
            [[f"`{mutant.name}`", f"`{_cell(_change(mutant))}`", _cell(EQUIVALENT[mutant.name][1])] for mutant in same],
        ),
    ]
    return lines


def _share(found: Counter[str]) -> str:
    behave = found.total() - found[IS_EQUIVALENT]
    return f"{100 * (found[CAUGHT] + found[TIMED_OUT]) / behave:.0f} %" if behave else "-"


def _change(mutant: Mutant) -> str:
    return f"{mutant.before} -> {mutant.after}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _text(root: Path, file: str) -> str:
    return (root / file).read_text(encoding="utf-8")


def _difference(mutant: Mutant, text: str) -> list[str]:
    """The changed lines, without numbers."""
    lines = difflib.unified_diff(text.splitlines(), mutated(mutant, text).splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300, metavar="N", help="how many are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", nargs="+", default=["*"], metavar="GLOB", help="draw from these files only")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants, with what their tests print")
    parser.add_argument("--list", action="store_true", help="list the mutants drawn and run nothing")
    parser.add_argument("--prepare", action="store_true", help="only learn which tests run which lines")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="try these test files alone, on survivors say")
    parser.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="of tests for a mutant")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the project, only read")
    parser.add_argument("--package", default="seq2seq_suite")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "seq2seq_suite-benchmarks/mutation",
        help="where it is kept which tests run which lines",
    )
    parser.add_argument("--results", type=Path, help="JSON lines; results.jsonl in the cache by default")
    parser.add_argument("--resume", action="store_true", help="continue with the file of results")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_args(given)
    arguments.root = arguments.root.resolve()
    arguments.results = arguments.results or arguments.cache / "results.jsonl"
    return arguments


def main(given: Sequence[str] | None = None) -> None:
    """Draw mutants, try them and report."""
    arguments = parse(given)
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if arguments.list:
        for mutant in choose(arguments.root, arguments):
            print(f"{mutant.name}: {_change(mutant)}")
        return
    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            _run(arguments, Project(arguments.root, arguments.package, Path(folder).resolve()))
    except KeyboardInterrupt:
        print(f"interrupted; --resume continues with {arguments.results}", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, usual)


def _run(arguments: argparse.Namespace, project: Project) -> None:
    project.copy()
    project.preload()
    reach = Reach(project, arguments.cache)
    reach.fill(arguments.jobs)
    if arguments.prepare:
        return
    # From here on only the copy is used: the project may change meanwhile.
    mutants = choose(project.clean, arguments)
    known: dict[str, dict[str, Any]] = {}
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    if arguments.resume and arguments.results.exists():
        rows = map(json.loads, arguments.results.read_text(encoding="utf-8").splitlines())
        known = {row["name"]: row for row in rows}
    elif not arguments.only:
        arguments.results.unlink(missing_ok=True)
    excused = {mutant.name for mutant in mutants if EQUIVALENT.get(mutant.name, ("",))[0] == _change(mutant)}
    tried = [mutant for mutant in mutants if arguments.only or mutant.name not in excused]
    attempt(tried, reach, project, known, arguments)
    if arguments.only:
        return
    from benchmarks.command_line import publish  # imports the suite, which no fork may bring along
    from benchmarks.machine import provenance

    rows = {mutant.name: known[mutant.name] for mutant in tried}
    bad = unsound(list(rows.values()), reach, project, arguments.jobs)
    publish(
        [
            "# Mutation score of the tests",
            "",
            *provenance(arguments.seed, arguments.jobs),
            "",
            *report(mutants, rows, project.clean, bad),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
