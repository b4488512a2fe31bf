"""Studies: named variants of several experiments, each with several seeds, compared in one table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.text import slug
from seq2seq_suite.config import config_file
from seq2seq_suite.config.messages import sections_at
from seq2seq_suite.experiments import distill
from seq2seq_suite.metrics.significance import LEVEL, MARGIN, compare_seeds, holm, scale_of, t_interval
from seq2seq_suite.options.section import NotNegative, Section
from seq2seq_suite.report.sentences import not_alike
from seq2seq_suite.report.variants import settings
from seq2seq_suite.runs.records import read_provenance, read_summary
from seq2seq_suite.studies import chain
from seq2seq_suite.studies.slurm import Cluster
from seq2seq_suite.studies.sweep import directories, on_validation, run_all, varied
from seq2seq_suite.terminal.tables import NONE, chance, print_table, print_text, signed, span, write_tables

TITLES = {
    "validation": "On the validation split, which chose each run's checkpoint, too:",
    "test": "On the test split, not used for choosing: for variants that were fixed before.",
}
FILES = ("means.md", "means.tex", "means.csv")
COSTS = (  # key of a run, title, decimals
    ("passes", "passes/symbol", 2),
    ("milliseconds", "ms a sentence", 1),
    ("nats", "nats/symbol", 3),
    ("updates", "updates", 0),
    ("minutes", "minutes", 1),
)
_TITLES = tuple(title for _, title, _ in COSTS)
HEADER = ("experiment", "variant", "metric", "seeds", "mean", "95 % interval", "worst", *_TITLES)
TESTS = ("experiment", "variant", "against", "difference", "95 % interval", "p (Holm)", "verdict")
NOTE = (
    f"Intervals: Student's, over the seeds; a dash where one would leave the metric's scale, or with one seed. p: "
    f"Student's paired t test over the seeds, corrected by Holm for all tests of this table; it says nothing about "
    f"other test data. Better or worse: p < {LEVEL}. Tie: the means are equal. No difference: the difference's "
    f"interval lies within {MARGIN} points. Not resolved: there is too little evidence to say. Updates and minutes: "
    "with those of the runs that a variant began from. Nats: exact from left to right, else an upper bound."
)


class Study(Section):
    """The keys of a study's file."""

    question: str  # that the study answers
    yamls: Annotated[tuple[str, ...], Field(min_length=1)]  # experiments, relative to this file, or presets
    seeds: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (1, 2, 3)
    report_test: bool = False  # also report the test split, once the variants are fixed
    settings: dict[str, Any] = {}  # for all: key -> value
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]  # name -> what it changes; {NAME} in a value is
    # that variant's run of the same experiment and seed; training.max_updates: 1/2 is a share of the other variants'
    distilled: dict[str, str] = {}  # name -> variant, whose outputs become training data, a folder that is {name} above
    searches: tuple[str, ...] = ()  # key=a,b of other searches; those that a variant takes are scored for each run, too


@dataclass(frozen=True)
class Cell:
    """One variant of one experiment: the primary metric on a split and the runs, both by seed.

    Args:
        runs: each with `run`, `directory`, `split`, `seed`, `tokens` and what COSTS names; updates, tokens and minutes
            with those of the runs that it began from.
        search: what it was decoded with, where that is not the run's own.
    """

    experiment: str
    variant: str
    metric: str
    higher_is_better: bool
    figures: tuple[float, ...]
    runs: tuple[Mapping[str, Any], ...]
    split: str = "validation"
    search: str = ""

    @property
    def name(self) -> str:
        """Variant and search."""
        return f"{self.variant} @ {self.search}" if self.search else self.variant

    def cost(self, key: str) -> float:
        """The mean of what COSTS names; NaN where a run has none."""
        return statistics.fmean(run.get(key, math.nan) for run in self.runs)

    def interval(self) -> tuple[float, float]:
        """The mean's 95 % interval by Student's t; NaN with one seed, and where it would leave the metric's scale."""
        return t_interval(self.figures, scale_of(self.figures, higher_is_better=self.higher_is_better))

    def worst(self) -> float:
        """The worst seed's metric."""
        return min(self.figures) if self.higher_is_better else max(self.figures)


def load(path: Path, *, yamls: Sequence[Path] = (), overrides: Sequence[str] = ()) -> Study:
    """A study's file.

    Args:
        path: the file.
        yamls: experiments to study instead of the file's.
        overrides: see `run`.

    Raises:
        ConfigError: it is no study, an experiment does not take one of its variants, two have one name, an override
            would have no effect, or it names test splits: a study ranks on validation.
    """
    given = config_file.parse(path)
    try:
        study = Study.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = {"missing": "the key is missing", "extra_forbidden": "unknown key"}.get(first["type"], "wrong value")
        raise ConfigError(
            f"{key}: {problem}",
            file=str(path),
            expected=f"a study has {', '.join(Study.model_fields)}",
            remedy="`init norms` copies an example",
        ) from None
    if yamls:
        study = study.model_copy(update={"yamls": tuple(str(yaml.absolute()) for yaml in yamls)})
    names = [Path(yaml).stem for yaml in study.yamls]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two experiments have the same name: {', '.join(study.yamls)}",
            file=str(path),
            expected="files of different names, which also name their directories and rows",
            remedy="rename one, or study them separately with another --output",
        )
    for override in overrides:
        key = override.partition("=")[0]
        if key == "seed" or all(key in changes or _is_foreign(key, changes) for changes in study.variants.values()):
            raise ConfigError(
                f"{override}: it would have no effect",
                file=COMMAND_LINE,
                expected="a key that a variant takes and does not set itself",
                remedy=f"change it in a copy of {path}",
            )
    chain.stages(study.variants, study.distilled, file=str(path))
    cells = _cells(study, path, overrides)
    for name, yaml, own in cells:
        try:
            on_validation(yaml, own)
            if name in study.distilled.values():
                distill.check(config_file.load(yaml, own, own=True).task, yaml)
        except ConfigError as error:
            raise ConfigError(f"variant '{name}' of {yaml.name}: {error}", file=str(path)) from None
    for search in chain.combined(study.searches):
        if all(why := chain.why_not(yaml, [*own, *search]) for _, yaml, own in reversed(cells)):
            raise ConfigError(f"searches: no variant takes {' '.join(search)}: {why}", file=str(path))
    return study


def run(
    path: Path,
    output: Path,
    *,
    yamls: Sequence[Path] = (),
    overrides: Sequence[str] = (),
    jobs: int = 1,
    cluster: Cluster | None = None,
) -> list[Cell]:
    """Run the missing parts of a study, in `output/EXPERIMENT/VARIANT-SEED`.

    Args:
        path: the study's file.
        output: the runs' folder.
        yamls: experiments to study instead of the file's.
        overrides: `key=value` for all runs; they override the study's settings, but not a variant's.
        jobs, cluster: see `run_all`.

    Returns:
        What each variant has on the whole validation split, by the run's search; then on test, if the study reports it.

    Raises:
        ConfigError: see `load` and `run_all`.
        RunError: some runs failed; the others are finished.
    """
    study = load(path, yamls=yamls, overrides=overrides)
    splits = ["validation", *(["test"] if study.report_test else [])]
    places: dict[tuple[str, str], list[Path]] = {}
    begun: dict[Path, set[Path]] = {}
    by_name = grouped(
        (name, (seed, yaml, own))
        for seed in study.seeds
        for name, yaml, own in _cells(study, path, overrides, output, seed)
    )
    searches = {
        (yaml.stem, name): chain.taken(study.searches, yaml, own, name=name)
        for name, yaml, own in _cells(study, path, overrides, output, study.seeds[0])
    }
    for stage in chain.stages(study.variants, study.distilled, file=str(path)):
        runs: dict[Path, tuple[Path, Sequence[str]]] = {}
        for name, (seed, yaml, own) in ((one, each) for one in stage for each in by_name[one]):
            known, folders = _folders(study, output, yaml, seed)
            before = set()
            for one in chain.named(study.variants[name]):
                source = known[study.distilled.get(one, one)]
                before |= {source, *begun[source]}
                if one in folders:
                    chain.write_outputs(source, folders[one])
            begun[known[name]] = before
            runs[known[name]] = yaml, on_validation(yaml, [*own, f"seed={seed}"], *splits[1:])
            places.setdefault((yaml.stem, name), []).append(known[name])
        run_all(runs, jobs=jobs, cluster=cluster)
    cells = []
    for split in splits:
        for key, found in searches.items():
            cells.append(_cell(*key, split, places[key], begun))
            if split == "validation" and found:
                known = [chain.evaluate(directory, found, split) for directory in places[key]]
                cells += [_cell(*key, split, places[key], begun, row, search) for row, search in known[0].items()]
    return cells


def rows(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """The table under `HEADER`."""
    return [
        (
            cell.experiment,
            cell.name,
            cell.metric,
            ", ".join(str(run["seed"]) for run in cell.runs),
            f"{statistics.fmean(cell.figures):.2f}",
            span(*cell.interval()),
            f"{cell.worst():.2f}",
            *(NONE if (cost := cell.cost(key)) != cost else f"{cost:,.{digits}f}" for key, _, digits in COSTS),
        )
        for cell in cells
    ]


def tests(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """The table under `TESTS`: each variant, by its own search, against the experiment's first one, paired by seed."""
    cells = [cell for cell in cells if not cell.search]
    first: dict[str, Cell] = {}
    pairs = [(first[cell.experiment], cell) for cell in cells if first.setdefault(cell.experiment, cell) is not cell]
    found = [compare_seeds(one.figures, two.figures) for one, two in pairs]
    return [
        (
            two.experiment,
            two.variant,
            one.variant,
            signed(each.second - each.first),
            span(each.low, each.high, sign="+"),
            chance(p_value),
            each.verdict(p_value, higher_is_better=two.higher_is_better),
        )
        for (one, two), each, p_value in zip(pairs, found, holm([each.p_value for each in found]), strict=True)
    ]


def show(cells: Sequence[Cell]) -> None:
    """Print both tables of each split, and their limits."""
    for split, of_split in grouped((cell.split, cell) for cell in cells).items():
        print(f"\n{TITLES[split]}")
        print_text(unequal(of_split))
        print_table(HEADER, rows(of_split))
        if found := tests(of_split):
            print()
            print_table(TESTS, found)
    print()
    print_text(NOTE)


def write(cells: Sequence[Cell], folder: Path) -> None:
    """Write what `show` prints to the FILES of a folder; the CSV file has a row for each cell, with plain numbers."""
    tables = [
        table
        for split, of_split in grouped((cell.split, cell) for cell in cells).items()
        for table in ((TITLES[split], HEADER, rows(of_split)), (NOTE, TESTS, tests(of_split)))
    ]
    for name in FILES[:2]:
        write_tables(folder / name, tables)
    numbers = [
        [
            statistics.fmean(cell.figures),
            *cell.interval(),
            cell.worst(),
            *(cell.cost(key) for key, *_ in COSTS),
        ]
        for cell in cells
    ]
    write_tables(
        folder / FILES[2],
        [
            (
                "",
                (*HEADER[:3], "split", *HEADER[3:5], "low", "high", *HEADER[6:]),
                [
                    (*row[:3], cell.split, row[3], *("" if one != one else str(one) for one in some))
                    for cell, row, some in zip(cells, rows(cells), numbers, strict=True)
                ],
            )
        ],
    )


def of_sweep(path: Path, settings: Sequence[str], output: Path) -> list[Cell]:
    """The runs of a sweep as a study's cells: each combination but for the seed is a variant."""
    places = grouped(
        (", ".join(varied(settings, [one for one in overrides if not one.startswith("seed=")])), directory)
        for directory, overrides in directories(settings, output).items()
    )
    return [_cell(path.stem, name or "as it is", "validation", found) for name, found in places.items()]


def unequal(cells: Sequence[Cell]) -> str:
    """A sentence on unequal budgets or data of the variants, by their own search; empty if they are equal."""
    cells = [cell for cell in cells if not cell.search]
    compared = grouped((cell.experiment, (cell.variant, cell.runs)) for cell in cells)
    return "".join(
        text
        for text, _ in not_alike(
            {name: dict(found) for name, found in compared.items()}, settings([cell.runs[0] for cell in cells])
        )
    ).rstrip()


def _folders(study: Study, output: Path, yaml: Path, seed: int) -> tuple[dict[str, Path], dict[str, Path]]:
    """The runs of the variants, and the data that are distilled from them, by name."""
    runs = {name: output / yaml.stem / f"{slug(name)}-{seed}" for name in study.variants}
    return runs, {name: output / "distilled" / f"{yaml.stem}-{slug(name)}-{seed}" for name in study.distilled}


def _cells(
    study: Study, path: Path, overrides: Sequence[str], output: Path = Path(), seed: int = 0
) -> list[tuple[str, Path, list[str]]]:
    """Variant, experiment and overrides of each cell."""
    common, found = [*config_file.as_overrides(study.settings), *overrides], []
    first = {key: value for key, value in next(iter(study.variants.values())).items() if key == "strategy.kind"}
    for yaml in (config_file.find(one, path.parent) for one in study.yamls):
        shared = any(chain.UPDATES in changes for changes in study.variants.values())
        updates = config_file.load(yaml, _with(first, common), own=True).training.max_updates if shared else 0
        runs, folders = _folders(study, output, yaml, seed)
        for name, changes in study.variants.items():
            found.append((name, yaml, _with(chain.filled(changes, runs | folders, updates), common)))
    return found


def _with(changes: Mapping[str, Any], common: Sequence[str]) -> list[str]:
    """The overrides of a variant behind those of the common ones that it takes."""

    def takes(key: str) -> bool:
        return not _is_foreign(key, changes) and ("data.path" not in changes or not key.startswith("miniworld."))

    return [*(one for one in common if takes(one.partition("=")[0])), *config_file.as_overrides(changes)]


def _is_foreign(key: str, changes: Mapping[str, Any]) -> bool:
    """Whether a key is one of other strategies, but not of the one that a variant chooses."""
    section, found, option = key.rpartition("strategy.")
    takes = {
        one.model_fields["kind"].default: option.partition(".")[0] in one.model_fields
        for one in sections_at(("strategy",), {})
    }
    return bool(found) and any(takes.values()) and not takes.get(changes.get(f"{section}strategy.kind"), True)


def _cell(
    experiment: str,
    name: str,
    split: str,
    directories: Sequence[Path],
    begun: Mapping[Path, Iterable[Path]] | None = None,
    row: str = "",
    search: str = "",
) -> Cell:
    """A cell by a `row` of the runs' summaries, that of the split unless a `search` has its own.

    `begun` has what each run began from.
    """
    found, row, runs = [read_summary(directory) for directory in directories], row or split, []
    for directory, one in zip(directories, found, strict=True):
        all_of_them = [one, *map(read_summary, (begun or {}).get(directory, ()))]
        decoding, likelihood = one.decoding.get(row, {}), one.likelihood.get(row, {})
        runs.append(
            {
                "run": str(directory),
                "directory": str(directory),
                "split": row,
                "updates": sum(each.updates for each in all_of_them),
                "seed": read_provenance(directory).seed,
                "tokens": sum(each.tokens for each in all_of_them),
                "minutes": sum(each.seconds for each in all_of_them) / 60,
                "passes": decoding.get("passes_per_symbol", math.nan),
                "milliseconds": decoding.get("milliseconds_per_sentence", math.nan),
                "nats": likelihood.get("nats_per_symbol", math.nan),
            }
        )
    return Cell(
        experiment,
        name,
        found[0].primary_metric,
        found[0].higher_is_better,
        tuple(one.splits[row][one.primary_metric] for one in found),
        tuple(runs),
        split,
        search,
    )
