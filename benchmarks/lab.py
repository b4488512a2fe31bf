"""How often the lab's laws are wrong, in both directions: bugs that pass, bugs that are not named, right code refused.

python -m benchmarks.lab --seeds 25
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections import Counter
from collections.abc import Iterator

import torch

from seq2seq_suite.lab.assignment import Assignment, load
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.checking import InProcess, Verdict, judge
from seq2seq_suite.lab.twins import twins
from tests.lab.course import student
from tests.lab.fresh import PRELUDE, STYLES
from tests.lab.test_alternatives import ALTERNATIVES

OWNER = {part.name: assignment for assignment in ASSIGNMENTS for part in assignment.parts}


def verdicts(assignment: Assignment, part: str, who: InProcess, seed: int) -> list[Verdict]:
    """Of all laws of a part."""
    return [judge(law, who, seed) for law in assignment.laws(part)]


def refused(assignment: Assignment, part: str, who: InProcess, seeds: int) -> str:
    """The first law that a right solution breaks, and what it says; empty where none does."""
    for seed in range(seeds):
        for verdict in verdicts(assignment, part, who, seed):
            if not verdict.holds:
                return f"{verdict.law.name}, seed {seed}: {verdict.broken.message}"
    return ""


def fresh(style: str) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """Right texts by part, and bugs: part, text, what was edited, what is wrong."""
    module = importlib.import_module(f"tests.lab.fresh.{style}")
    bugs = []
    for part, find, replace, what in module.BUGS:
        assert module.RIGHT[part].count(find) == 1, (style, part, find)
        bugs.append((part, PRELUDE + module.RIGHT[part].replace(find, replace), find, what))
    return {part: PRELUDE + text for part, text in module.RIGHT.items()}, bugs


def _planted(seed: int) -> Iterator[tuple[str, bool, list[str]]]:
    for assignment in ASSIGNMENTS:
        for fault in assignment.faults():
            who = InProcess(load(fault.text(assignment.text(fault.part)), fault.part))
            found = verdicts(assignment, fault.part, who, seed)
            caught = any(verdict.law.name == fault.law and not verdict.holds for verdict in found)
            yield fault.id, caught, [twin.id for twin in twins(assignment, fault.part, found, seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=25, help="for each right solution")
    parser.add_argument("--seed", type=int, default=90817, help="for each bug")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    started = time.perf_counter()

    parts = [(assignment, part.name) for assignment in ASSIGNMENTS for part in assignment.parts]
    print(
        f"{sum(len(part.functions) for one in ASSIGNMENTS for part in one.parts)} functions, {len(parts)} parts, "
        f"{sum(len(one.laws()) for one in ASSIGNMENTS)} laws, {sum(len(one.faults()) for one in ASSIGNMENTS)} bugs"
    )
    _report(
        "references",
        [(part, refused(assignment, part, student(assignment, part), options.seeds)) for assignment, part in parts],
    )
    _report(
        "alternatives",
        [
            (own.__name__, refused(assignment, part, student(assignment, part, **{function: own}), options.seeds))
            for assignment, part, function, own in ALTERNATIVES
        ],
    )
    for style in STYLES:
        right, _ = fresh(style)
        _report(
            f"fresh right solutions, {style}",
            [
                (part, refused(OWNER[part], part, InProcess(load(text, part)), options.seeds))
                for part, text in right.items()
            ],
        )

    planted = list(_planted(options.seed))
    print(
        f"planted bugs: {sum(caught for _, caught, _ in planted)} of {len(planted)} caught by the law of their row, "
        f"{sum(name in named for name, _, named in planted)} named, "
        f"{sum(named == [name] for name, _, named in planted)} by that name alone"
    )
    for style in STYLES:
        _, bugs = fresh(style)
        counts: Counter[str] = Counter()
        for part, text, _find, what in bugs:
            found = verdicts(OWNER[part], part, InProcess(load(text, part)), options.seed)
            broken = [verdict.law.name for verdict in found if not verdict.holds]
            named = [twin.id for twin in twins(OWNER[part], part, found, options.seed)]
            counts["caught"] += bool(broken)
            counts["named"] += bool(named)
            print(
                f"  {style} {part}: {what} -> {', '.join(broken) or 'NOT CAUGHT'}; "
                f"named {', '.join(named) or 'by its laws alone'}"
            )
        print(f"fresh bugs, {style}: {counts['caught']} of {len(bugs)} caught, {counts['named']} named")
    print(f"{time.perf_counter() - started:.0f} s")


def _report(what: str, answers: list[tuple[str, str]]) -> None:
    print(f"{what}: {sum(map(bool, (said for _, said in answers)))} of {len(answers)} refused")
    for name, said in answers:
        if said:
            print(f"  {name}: {said}")


if __name__ == "__main__":
    main()
