"""What a page says in words. A sentence is printed only where its figures support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.metrics.significance import LEVEL
from seq2seq_suite.report.outputs import Outputs, split_name
from seq2seq_suite.report.variants import Row, by_names, is_apart, mean, units
from seq2seq_suite.terminal.tables import chance, is_number

Words = list[tuple[str, bool]]  # text, and whether it stands out

_ENOUGH = 20  # examples in a bin that a sentence compares, or outputs of which half are the same
_FALL = 0.98  # of the loss at three quarters of a training: what is below it at the end is still falling


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
        of_what = (
            f" {split_name(one.split)} outputs equal their reference"
            if not place
            else (f" on the split “{split_name(one.split)}”")
        )
        said += [(", " if place else "", False), (f"{sum(one.equal):,} of {len(one.rows):,}", True), (of_what, False)]
    said.append((". ", False))
    return [*said, *(_constant(outputs) or [*_kind(outputs), *_long(lengths)])]


def _constant(outputs: Sequence[Outputs]) -> Words:
    """That a split's outputs are all the same one, though its references are not, or half of them and twice as many."""
    said: Words = []
    for one in outputs:
        given, right = (Counter(str(row.get(side, "")) for row in one.rows) for side in ("prediction", "reference"))
        ((output, count),) = given.most_common(1)
        usual, n = right.most_common(1)[0][1], len(one.rows)
        if n >= _ENOUGH and (count == n > usual or count >= max(n / 2, 2 * usual)):
            what = f"the same: “{output[:77] + '…' if len(output) > 80 else output}”" if output.strip() else "empty"
            many = "All" if count == n else f"{count:,} of"
            said += [(f"{many} {n:,} outputs on the split “{split_name(one.split)}” are {what}", True), (". ", False)]
    return said[:4]


def _kind(outputs: Sequence[Outputs]) -> Words:
    """The kind of error that leads, if one does."""
    kinds: Counter[str] = sum((one.kinds for one in outputs), Counter())
    wrong = sum(not same for one in outputs for same in one.equal)
    first, second = ([*kinds.most_common(2), ("", 0), ("", 0)])[:2]
    if wrong < 5 or first[1] < 1.2 * second[1] or first[1] < wrong / 4:
        return []
    splits = f" on the splits {_listed([split_name(one.split) for one in outputs])}, together," if outputs[1:] else ""
    if first[1] == wrong:
        return [(f"All {wrong:,} wrong outputs{splits} have the error ", False), (f"“{first[0]}”", True), (". ", False)]
    return [
        (f"Of the {wrong:,} wrong outputs{splits} ", False),
        (f"{first[1]:,} have the error “{first[0]}”", True),
        (", the most frequent kind. ", False),
    ]


def _long(lengths: dict[str, Any] | None) -> Words:
    """That the longest sources fail most often, if their interval and that of the shortest lie apart."""
    points = [
        point
        for point in (lengths or {"series": [{"points": []}]})["series"][0]["points"]
        if point[4] >= _ENOUGH and point[2] is not None
    ]
    if lengths is None or len(points) < 2:
        return []
    (first, short, low, high, _), (last, long, least, most, _) = points[0], points[-1]
    better = lengths["y"].endswith("↑")
    worst = (min if better else max)(point[1] for point in points)
    if long != worst or not (most < low if better else least > high):
        return []
    name = lengths["y"].rstrip(" ↑↓").removesuffix(", %")
    return [
        (
            f"With the length of the source, {name} {'drops' if better else 'rises'} from {short:.1f} at {first} "
            f"{lengths['x']} to ",
            False,
        ),
        (f"{long:.1f} at {last}", True),
        (".", False),
    ]


def on_end(
    summary: Mapping[str, Any], options: Mapping[str, Any], losses: Sequence[dict[str, Any]], last: float | None
) -> str:
    """Whether a run is done, and what ended it; "" where its files do not say.

    Args:
        summary: of the run; empty before its end.
        options: its section `training`.
        losses: the curves of the losses.
        last: the last update that was recorded.
    """
    most, minutes, patience = (options.get(key) for key in ("max_updates", "max_minutes", "patience"))
    done = summary.get("updates", last)
    if not is_number(done) or not is_number(most):
        return ""
    of_all = f"after {done:,} of {most:,} updates"
    if "updates" not in summary:
        return f"Not finished: recorded up to update {done:,} of {most:,}. The same command with --resume continues."
    spent = summary.get("seconds", 0.0)
    if done >= most:
        said, remedy = f"Finished: all {done:,} updates (training.max_updates)", "longer training may help"
    elif is_number(minutes) and is_number(spent) and spent / 60 >= 0.999 * minutes:
        said, remedy = f"Stopped {of_all} by training.max_minutes={minutes:g}", "not trained long enough"
    elif is_number(patience) and patience > 0:
        said, remedy = f"Stopped {of_all} by training.patience={patience:g}, validations without a better one", ""
    else:
        return f"Ended {of_all}: no limit of its configuration is reached, and --resume continues."
    return f"{said}; the loss was still falling: {remedy}." if remedy and _falling(losses) else f"{said}."


def _falling(losses: Sequence[dict[str, Any]]) -> bool:
    """Whether the first loss, on validation where it was recorded often enough, is at its least at the end."""
    curves = [
        one["points"]
        for one in sorted(losses, key=lambda one: not one["dashed"])
        if one["loss"] == losses[0]["loss"] and len(one["points"]) >= (3 if one["dashed"] else 2)
    ]
    if not curves:
        return False
    *earlier, (end, *_, least) = curves[0]
    before = [point[3] for point in earlier if point[0] <= 0.75 * end] or [earlier[0][3]]
    return least <= min(point[3] for point in earlier) and least < _FALL * before[-1]


def on_training(losses: Sequence[dict[str, Any]], figures: Sequence[Sequence[Any]], best: Any) -> list[str]:
    """Whether a run overfitted and whether it was finished.

    Args:
        losses: the curves of the losses; those of validation are `dashed`.
        figures: points (update, minutes, symbols, figure) of the primary metric on validation.
        best: the update of the checkpoint that was kept.
    """
    said = []
    if len(figures) > 1 and len({point[3] for point in figures}) == 1:
        said.append(
            f"The metric has the same value at all {len(figures)} validations, so that it cannot rank the "
            "checkpoints: the one with the lowest validation loss is kept" + (f" (update {best:,})." if best else ".")
        )
    for one in losses:
        values = [(point[3], point[0]) for point in one["points"]]
        if one.get("dashed") and len(values) >= 3 and values[-1][0] > 1.05 * min(values)[0] > 0:
            said.append(
                f"The {one['name']} loss was least at update {min(values)[1]:,} and has risen since: "
                "the run began to overfit."
            )
    if len(figures) >= 3 and best == figures[-1][0] != figures[0][0]:
        said.append("The last checkpoint was the best: longer training may help.")
    return said[:2]


def on_comparison(
    rows: Sequence[Row],
    pairs: Sequence[Row],
    grouped: Mapping[str, Sequence[Row]],
    given: Mapping[str, Mapping[str, str]],
) -> Words:
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
        said += [
            (f"On {task.replace('_', ' ')}, ", False),
            (first, ahead > 0),
            (f" has {name} {mean(of_task[first]):.2f}", False),
            (f" ({'seed' if len(seeds) == 1 else 'mean of seeds'} {_listed(seeds)})" if seeds else "", False),
        ]
        tested_by = " or ".join(dict.fromkeys(pair["test"] for pair in known if pair))
        if len(others) == 1:
            (pair,), other = known, others[0]
            verdict = (
                "not tested, as they have no figures of the same examples"
                if pair is None
                else (f"{f'{first} is ahead' if ahead else pair['verdict']} (p {chance(pair['holm_p'])}, {tested_by})")
            )
            said.append((f", {other} {mean(of_task[other]):.2f}: {verdict}. ", False))
        else:
            said.append(
                (
                    f", ahead of {ahead} of {len(others)} others (each p < {LEVEL}, {tested_by}). "
                    if ahead
                    else f"; not significantly ahead of any of {len(others)} others. ",
                    False,
                )
            )
    if len(contested) > 3:
        said.append(
            (
                f"The {len(contested) - 3} other tasks follow below. "
                if len(contested) > 4
                else "One more task follows below. ",
                False,
            )
        )
    for of_task in contested.values():
        timed = sorted(
            (row for some in of_task.values() for row in some if row["latency_ms"] == row["latency_ms"]),
            key=lambda row: row["latency_ms"],
        )
        if len(timed) > 1 and timed[-1]["latency_ms"] >= 1.5 * timed[0]["latency_ms"]:
            said += [
                (timed[0]["run"], True),
                (
                    f" decodes one input in {timed[0]['latency_ms']:.1f} ms, "
                    f"{timed[-1]['run']} in {timed[-1]['latency_ms']:.1f} ms. ",
                    False,
                ),
            ]
            break
    return said


def not_alike(contested: Mapping[str, Mapping[str, Sequence[Row]]], given: Mapping[str, Mapping[str, str]]) -> Words:
    """Budgets, seeds and settings of the search in which what is compared differs; of several tasks where most."""
    trained = {
        task: {unit: some for unit, some in of_task.items() if some[0]["updates"]}
        for task, of_task in contested.items()
    }  # other systems' outputs have no budget that is known
    contested, said = {task: of_task for task, of_task in trained.items() if len(of_task) > 1}, []
    for key, name, least, digits in (
        ("updates", "updates", 1.0, 0),
        ("tokens", "symbols", 1.01, 0),
        ("minutes", "minutes", 1.1, 1),
    ):
        spent = [
            sorted((sum(row[key] for row in some) / len(some), unit) for unit, some in of_task.items())
            for of_task in contested.values()
        ]
        ratio, ends = max(((some[-1][0] / (some[0][0] or 1.0), some) for some in spent), default=(0.0, []))
        if ratio > least and round(ends[0][0], digits) < round(ends[-1][0], digits):
            (low, less), (high, more) = ends[0], ends[-1]
            said.append(f"{low:,.{digits}f} {name} ({less}) to {high:,.{digits}f} ({more})")
    seeds = [{tuple(row["seed"] for row in some) for some in of_task.values()} for of_task in contested.values()]
    said += [
        f"seeds {_listed(sorted({seed for some in kinds for seed in some}))}" for kinds in seeds if len(kinds) > 1
    ][:1]
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
