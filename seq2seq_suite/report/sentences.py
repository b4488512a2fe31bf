"""What a page says in words. A sentence is printed only where its figures support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.metrics.significance import LEVEL
from seq2seq_suite.report.outputs import Outputs, split_name
from seq2seq_suite.report.tables import chance
from seq2seq_suite.report.variants import Row, by_names, is_apart, mean, units

Words = list[tuple[str, bool]]  # text, and whether it stands out

_ENOUGH = 20  # examples in a bin that a sentence compares


def lede(outputs: Sequence[Outputs], lengths: dict[str, Any] | None, figure: str) -> Words:
    """What was reached and what fails most often.

    Args:
        outputs: of all splits, the first the one that matters most.
        lengths: the chart of the metric by length.
        figure: the primary metric as words, for a run without outputs that could be equal to their reference.
    """
    if not any(one.is_judged for one in outputs):
        return [(figure, False)] if figure else []
    said: Words = []
    for place, one in enumerate(outputs[:2]):
        of_what = f" {split_name(one.split)} outputs equal their reference" if not place else (
            f" of {split_name(one.split)}" if one.split not in ("test", "validation") else f" of the {one.split} split")
        said += [(", " if place else "", False), (f"{sum(one.equal):,} of {len(one.rows):,}", True), (of_what, False)]
    said.append((". ", False))
    return [*said, *_kind(outputs), *_long(lengths)]


def _kind(outputs: Sequence[Outputs]) -> Words:
    """The kind of error that leads, if one does."""
    kinds: Counter[str] = sum((one.kinds for one in outputs), Counter())
    wrong = sum(not same for one in outputs for same in one.equal)
    first, second = ([*kinds.most_common(2), ("", 0), ("", 0)])[:2]
    if wrong < 5 or first[1] < 1.2 * second[1] or first[1] < wrong / 4:
        return []
    return [(f"Of the {wrong:,} that differ, ", False), (f"{first[1]:,} have the error “{first[0]}”", True),
            (", the most frequent kind. ", False)]


def _long(lengths: dict[str, Any] | None) -> Words:
    """That the longest sources fail most often, if their interval and that of the shortest lie apart."""
    points = [point for point in (lengths or {"series": [{"points": []}]})["series"][0]["points"]
              if point[4] >= _ENOUGH and point[2] is not None]
    if lengths is None or len(points) < 2:
        return []
    (first, short, low, high, _), (last, long, least, most, _) = points[0], points[-1]
    better = lengths["y"].endswith("↑")
    worst = (min if better else max)(point[1] for point in points)
    if long != worst or not (most < low if better else least > high):
        return []
    name = lengths["y"].rstrip(" ↑↓").removesuffix(", %")
    return [(f"Long sources are harder: {name} is {short:.1f} at {first} {lengths['x']} and ", False),
            (f"{long:.1f} at {last}", True), (".", False)]


def on_training(losses: Sequence[dict[str, Any]], figures: Sequence[Sequence[Any]], best: Any) -> list[str]:
    """Whether a run overfitted and whether it was finished.

    Args:
        losses: the curves of the losses; those of validation are `dashed`.
        figures: points (update, minutes, symbols, figure) of the primary metric on validation.
        best: the update of the checkpoint that was kept.
    """
    said = []
    if len(figures) > 1 and len({point[3] for point in figures}) == 1:
        said.append(f"The metric has the same value at all {len(figures)} validations, so that it tells no checkpoints "
                    f"apart: the one of the lowest validation loss is kept (update {best:,}).")
    for one in losses:
        values = [(point[3], point[0]) for point in one["points"]]
        if one.get("dashed") and len(values) >= 3 and values[-1][0] > 1.05 * min(values)[0] > 0:
            said.append(f"The {one['name']} loss was least at update {min(values)[1]:,} and has risen since: "
                        "the run began to overfit.")
    if len(figures) >= 3 and best == figures[-1][0] != figures[0][0]:
        said.append("The last checkpoint was the best: longer training may help.")
    return said[:2]


def on_comparison(rows: Sequence[Row], pairs: Sequence[Row], grouped: Mapping[str, Sequence[Row]],
                  given: Mapping[str, Mapping[str, str]]) -> Words:
    """What the runs do not have in common; each task's highest figure and what the tests say of it; the fastest run."""
    tested = by_names(pairs)
    contested = {task: of_task for task, of_task in units(rows, grouped).items() if len(of_task) > 1}
    said = not_alike(contested, given)
    for task, of_task in list(contested.items())[:3]:
        first, *others = of_task
        row = of_task[first][0]
        name = metric_name(row["metric"]).rstrip(" ↑↓").removesuffix(", %")
        seeds = [one["seed"] for one in of_task[first] if one["updates"]]
        known = [tested.get(frozenset((first, other))) for other in others]
        ahead = sum(map(is_apart, known))
        said += [(f"On {task.replace('_', ' ')}, ", False), (first, ahead > 0),
                 (f" has {name} {mean(of_task[first]):.2f}", False),
                 (f" ({'seed' if len(seeds) == 1 else 'mean of seeds'} {_listed(seeds)})" if seeds else "", False)]
        tested_by = " or ".join(dict.fromkeys(pair["test"] for pair in known if pair))
        if len(others) == 1:
            (pair,), other = known, others[0]
            verdict = "not tested, as they have no figures of the same examples" if pair is None else (
                f"{f'{first} is ahead' if ahead else pair['verdict']} (p {chance(pair['holm_p'])}, {tested_by})")
            said.append((f", {other} {mean(of_task[other]):.2f}: {verdict}. ", False))
        else:
            said.append((f", ahead of {ahead} of {len(others)} others (each p < {LEVEL}, {tested_by}). " if ahead else
                         f"; no test shows it ahead of any of {len(others)} others. ", False))
    if len(contested) > 3:
        said.append((f"The {len(contested) - 3} other tasks follow below. " if len(contested) > 4
                     else "One more task follows below. ", False))
    for of_task in contested.values():
        timed = sorted((row for some in of_task.values() for row in some if row["latency_ms"] == row["latency_ms"]),
                       key=lambda row: row["latency_ms"])
        if len(timed) > 1 and timed[-1]["latency_ms"] >= 1.5 * timed[0]["latency_ms"]:
            said += [(timed[0]["run"], True), (f" decodes one input in {timed[0]['latency_ms']:.1f} ms, "
                                               f"{timed[-1]['run']} in {timed[-1]['latency_ms']:.1f} ms. ", False)]
            break
    return said


def not_alike(contested: Mapping[str, Mapping[str, Sequence[Row]]], given: Mapping[str, Mapping[str, str]]) -> Words:
    """Budgets, seeds and settings of the search in which what is compared differs; of several tasks where most."""
    trained = {task: {unit: some for unit, some in of_task.items() if some[0]["updates"]}
               for task, of_task in contested.items()}  # other systems' outputs have no budget that is known
    contested, said = {task: of_task for task, of_task in trained.items() if len(of_task) > 1}, []
    for key, name, least, digits in (("updates", "updates", 1.0, 0), ("tokens", "symbols", 1.01, 0),
                                     ("minutes", "minutes", 1.1, 1)):
        spent = [sorted((sum(row[key] for row in some) / len(some), unit) for unit, some in of_task.items())
                 for of_task in contested.values()]
        ratio, ends = max(((some[-1][0] / (some[0][0] or 1.0), some) for some in spent), default=(0.0, []))
        if ratio > least and round(ends[0][0], digits) < round(ends[-1][0], digits):
            (low, less), (high, more) = ends[0], ends[-1]
            said.append(f"{low:,.{digits}f} {name} ({less}) to {high:,.{digits}f} ({more})")
    seeds = [{tuple(row["seed"] for row in some) for some in of_task.values()} for of_task in contested.values()]
    said += [f"seeds {_listed(sorted({seed for some in kinds for seed in some}))}" for kinds in seeds
             if len(kinds) > 1][:1]
    values: dict[str, set[str]] = {}
    for of_task in contested.values():
        rows = [given.get(some[0]["run"], {}) for some in of_task.values()]
        for key in {key for row in rows for key in row if key.startswith("search.")}:
            if len(kinds := {row.get(key, "default") for row in rows}) > 1:
                values.setdefault(key, set()).update(kinds)
    said += [f"{key} {_listed(sorted(values[key]))}" for key in sorted(values)]
    return [("Not an equal comparison: ", True), ("; ".join(said) + ". ", False)] if said else []


def _listed(words: Iterable[Any]) -> str:
    """All of them, in one phrase.

    >>> _listed([1, 2, 3]), _listed(["a"])
    ('1, 2 and 3', 'a')
    """
    *others, last = map(str, words)
    return f"{', '.join(others)} and {last}" if others else last
