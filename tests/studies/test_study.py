"""Studies: every variant with every seed, once, and intervals of the means."""

import importlib.util
import json

import pytest
from scipy.stats import t, ttest_rel
from small_run import in_forks

from benchmarks import studies
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.metrics.significance import t_interval
from seq2seq_suite.studies import study
from seq2seq_suite.studies.sweep import on_validation

EXPERIMENT = """task: qa
device: cpu
data: {path: DATA}
backbone: {width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training: {max_updates: 1, validate_every: 1, threads: 1}
"""
STUDY = """question: Which norm?
yamls: [q.yaml]
seeds: [1, 2]
settings: {backbone.dropout: 0.0}
variants:
  RMS, wide: {backbone.norm: rms, qa.category_columns: [task, kind]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.studies.sweep.subprocess", in_forks(tmp_path))  # test_sweep.py has a program
    for split in ("train", "validation", "test"):
        row = {"question": "Who sat?", "context": "Tom sat. Ann left.", "answer": "Tom"}
        (tmp_path / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 4)
    (tmp_path / "q.yaml").write_text(EXPERIMENT.replace("DATA", str(tmp_path)))
    (tmp_path / "s.yaml").write_text(STUDY)
    return tmp_path


@pytest.mark.parametrize(
    "figures", [[1.0, 2.0], [3.0, 5.0, 4.5], [90.1, 90.4, 91.0, 89.0, 90.2], [*range(11)], [*range(40)]]
)
def test_intervals_are_student_s(figures):
    mean = sum(figures) / len(figures)
    low, high = t_interval(figures)
    spread = (sum((one - mean) ** 2 for one in figures) / (len(figures) - 1) / len(figures)) ** 0.5
    assert (low, high) == pytest.approx(t.interval(0.95, len(figures) - 1, loc=mean, scale=spread), rel=1e-6)
    assert all(bound != bound for bound in t_interval(figures[:1]))


def runs(*seeds, updates=1):
    return tuple(
        {
            "run": str(seed),
            "directory": "nowhere",
            "seed": seed,
            "split": "test",
            "updates": updates,
            "tokens": 1,
            "minutes": 0.1,
        }
        for seed in seeds
    )


def test_each_variant_is_tested_against_the_first_by_seeds_and_all_cells_are_corrected():
    figures = {"plain": (90.0, 91.0, 89.0), "wide": (92.0, 92.9, 91.2), "alike": (90.1, 91.05, 89.1)}
    cells = [
        study.Cell("qa", name, "exact_match", True, some, runs(1, 2, 3, updates=5 + (name == "wide")))
        for name, some in figures.items()
    ]
    wide, alike = study.tests(cells)
    p_values = [ttest_rel(figures["plain"], figures[name]).pvalue for name in ("wide", "alike")]
    assert p_values[0] < p_values[1] < 0.05
    assert wide == ("qa", "wide", "plain", "+2.03", "+1.65 to +2.41", f"{2 * p_values[0]:.3f}", "better")
    assert alike[3:] == ("+0.08", "+0.01 to +0.16", f"{p_values[1]:.3f}", "better")
    assert study.unequal(cells) == "Not an equal comparison: 5 updates (alike) to 6 (wide)."
    assert study.tests(cells[:1]) == [] and study.unequal(cells[:1]) == ""


@pytest.mark.parametrize("figures", [(6.1, 20.4, 19.9), (99.9, 100.0, 99.95), (90.0,)])
def test_an_interval_beyond_the_scale_is_a_dash(figures):
    cell = study.Cell("qa", "x", "exact_match", True, figures, runs(*range(len(figures))))
    assert study.rows([cell])[0][study.HEADER.index("95 % interval")] == "–"


@pytest.mark.parametrize(("higher_is_better", "worst"), [(True, 3.0), (False, 5.0)])
def test_the_worst_seed_is_the_one_with_most_errors_too(higher_is_better, worst):
    cell = study.Cell("asr", "conv", "wer", higher_is_better, (3.0, 5.0, 4.5), runs(1, 2, 3))
    assert cell.worst() == worst and study.rows([cell])[0][study.HEADER.index("worst")] == f"{worst:.2f}"


def test_a_study_runs_each_cell_once_and_ends_in_a_table(folder, capfd):
    command = [
        "sweep",
        str(folder / "s.yaml"),
        "training.max_updates=2",
        "--output",
        str(folder / "runs"),
        "--jobs",
        "2",
    ]
    assert cli.main(command) == 0
    out = capfd.readouterr().out
    assert "95 % interval" in out and "RMS, wide" in out
    summaries = sorted((folder / "runs" / "q").glob("*/summary.json"))
    assert [path.parent.name for path in summaries] == ["RMS_wide-1", "RMS_wide-2"]
    config = (summaries[0].parent / "config.yaml").read_text()
    assert "norm: rms" in config and "max_updates: 2" in config and "- kind" in config
    assert "On the validation split, which chose each run's checkpoint, too:" in out and study.TITLES["test"] not in out
    assert json.loads(summaries[0].read_text())["failures"].keys() == {"validation"}
    assert all("RMS, wide" in (folder / "runs" / name).read_text() for name in study.FILES)
    (cell,) = study.run(folder / "s.yaml", folder / "runs", overrides=["training.max_updates=2"])
    assert cell.runs[0]["updates"] == 2 and len(cell.figures) == 2 and cell.metric == "exact_match"
    table, picture = folder / "table.md", folder / "picture.png"
    drawn = ["--plot", str(picture)] if importlib.util.find_spec("matplotlib") else []
    studies.main(
        [
            str(folder / "s.yaml"),
            "--runs",
            str(folder / "runs"),
            "--output",
            str(table),
            *drawn,
            "training.max_updates=2",
        ]
    )  # an override may stand behind an option
    assert "## Which norm?" in table.read_text() and "| q | RMS, wide | exact_match | 1, 2 |" in table.read_text()
    assert study.TITLES["validation"] in table.read_text()
    assert not drawn or picture.stat().st_size > 1000


def test_a_study_of_another_experiment_where_a_variant_stays_what_its_name_says(folder):
    (folder / "s.yaml").write_text(STUDY.replace("[1, 2]", "[1]") + "  as it is: {}\n")
    (folder / "other.yaml").write_text((folder / "q.yaml").read_text())
    cells = study.run(
        folder / "s.yaml",
        folder / "runs",
        yamls=[folder / "other.yaml"],
        overrides=["backbone.dropout=0.1", "backbone.norm=power"],
    )
    assert [cell.experiment for cell in cells] == ["other", "other"] and not (folder / "runs" / "q").exists()
    runs = folder / "runs" / "other"
    rms, plain = ((runs / name / "config.yaml").read_text() for name in ("RMS_wide-1", "as_it_is-1"))
    assert "dropout: 0.1" in rms and "dropout: 0.1" in plain and "norm: rms" in rms and "norm: power" in plain


def test_what_is_wrong_is_said_before_anything_runs(folder, capsys):
    (folder / "s.yaml").write_text(STUDY.replace("norm: rms", "nrom: rms"))
    with pytest.raises(ConfigError, match=r"variant 'RMS, wide' of q\.yaml.*did you mean"):
        study.load(folder / "s.yaml")
    (folder / "s.yaml").write_text(STUDY.replace("yamls: [q.yaml]\n", ""))
    with pytest.raises(ConfigError, match="yamls: the key is missing"):
        study.load(folder / "s.yaml")
    assert cli.main(["sweep", str(folder / "q.yaml")]) == 2
    assert "nothing to combine" in capsys.readouterr().err
    assert cli.main(["sweep", str(folder / "none.yaml")]) == 2
    assert "none.yaml: there is no such file" in capsys.readouterr().err
    assert cli.main(["sweep", str(folder / "q.yaml"), "seed=1,2", "--on", str(folder / "q.yaml")]) == 2
    assert "--on is for studies" in capsys.readouterr().err


def test_two_experiments_of_one_name_are_refused(folder):
    (folder / "more").mkdir()
    (folder / "more" / "q.yaml").write_text((folder / "q.yaml").read_text())
    with pytest.raises(ConfigError, match="two experiments have the same name"):
        study.load(folder / "s.yaml", yamls=[folder / "q.yaml", folder / "more" / "q.yaml"])


def of_strategies(folder):
    text = STUDY.replace("  RMS, wide: {", "  pointing: {strategy.kind: autoregressive, ")
    more = "  blocks: {strategy.kind: blocks, strategy.block: 2, search.beam_size: 1}\n"
    (folder / "k.yaml").write_text(text.replace("settings: {", "settings: {strategy.label_smoothing: 0.0, ") + more)
    return folder / "k.yaml"


def test_a_key_of_one_strategy_goes_to_the_variants_that_have_it(folder):
    path = of_strategies(folder)
    for override, takers in (("strategy.joint=1.0", ["blocks"]), ("backbone.width=8", ["pointing", "blocks"])):
        cells = study._cells(study.load(path, overrides=[override]), path, [override])
        assert [name for name, _, overrides in cells if override in overrides] == takers


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("strategy.jiont=1", "unknown key, did you mean strategy.joint?"),
        ("strategy.joint=-1", "got -1"),
        ("strategy.block=4", "it would have no effect"),  # the one variant that takes it sets it
        ("strategy.factor=3", "it would have no effect"),
    ],
)
def test_keys_of_strategies_are_checked_before_a_run(folder, override, problem, capsys):
    assert cli.main(["sweep", str(of_strategies(folder)), override, "--output", str(folder / "runs")]) == 2
    assert f"{override}: {problem}" in capsys.readouterr().err and not (folder / "runs").exists()


@pytest.mark.parametrize("override", ["backbone.norm=layer", "seed=4"])
def test_what_no_run_would_follow_is_refused(folder, override, capsys):
    assert cli.main(["sweep", str(folder / "s.yaml"), override, "--output", str(folder / "runs")]) == 2
    assert f"{override}: it would have no effect" in capsys.readouterr().err and not (folder / "runs").exists()


def rewrite(folder, answer="Tom", split="test"):
    row = {"question": "Who sat?", "context": "Tom sat. Ann left.", "answer": answer}
    (folder / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 5)


def test_a_study_ranks_on_the_whole_validation_split_whatever_test_says(folder):
    """The best checkpoint's figure there, of all rows, though those during training are of one."""
    rewrite(folder, split="validation")
    overrides = ["training.validate_examples=1"]
    (cell,) = study.run(folder / "s.yaml", folder / "runs", overrides=overrides)
    assert cell.split == "validation"
    for seed, figure in zip((1, 2), cell.figures, strict=True):
        run = folder / "runs" / "q" / f"RMS_wide-{seed}"
        assert len((run / "predictions" / "validation.jsonl").read_text().splitlines()) == 5
        assert not (run / "predictions" / "test.jsonl").exists()
        assert figure == json.loads((run / "summary.json").read_text())["splits"]["validation"]["exact_match"]


def test_test_is_reported_where_the_study_says_so_without_training_again(folder, capfd):
    rewrite(folder)
    command = ["sweep", str(folder / "s.yaml"), "--output", str(folder / "runs")]
    assert cli.main(command) == 0
    trained = {path: path.read_bytes() for path in (folder / "runs").rglob("metrics.jsonl")}
    (folder / "s.yaml").write_text(STUDY + "report_test: true\n")
    capfd.readouterr()
    assert cli.main(command) == 0
    first, second = capfd.readouterr().out.split("On the validation split")[-1].split("On the test split")
    assert "not used for choosing" in second and first.count("RMS, wide") == second.count("RMS, wide") == 1
    assert trained == {path: path.read_bytes() for path in trained}
    ranked, reported = study.run(folder / "s.yaml", folder / "runs")
    assert (ranked.split, reported.split) == ("validation", "test") and len(reported.figures) == 2
    assert "On the test split" in "\n".join(studies.table([ranked, reported]))
    written = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("summary.json")}
    (folder / "s.yaml").write_text(STUDY)
    assert [cell.split for cell in study.run(folder / "s.yaml", folder / "runs")] == ["validation"]
    assert written == {path: path.stat().st_mtime_ns for path in written}


@pytest.mark.parametrize("where", ["settings", "variant", "command line"])
def test_a_study_that_would_rank_on_test_is_refused(folder, capsys, where):
    (folder / "s.yaml").write_text(
        STUDY
        if where == "command line"
        else STUDY.replace(
            "dropout: 0.0}" if where == "settings" else "norm: rms,",
            "dropout: 0.0, data.test_splits: [test]}"
            if where == "settings"
            else "norm: rms, data.test_splits: [test],",
        )
    )
    more = ["data.test_splits=[test]"] if where == "command line" else []
    assert cli.main(["sweep", str(folder / "s.yaml"), *more, "--output", str(folder / "runs")]) == 2
    found = capsys.readouterr().err
    assert "sweeps and studies rank on the validation split" in found and "report_test: true" in found
    assert not (folder / "runs").exists()


def test_the_tasks_of_a_joint_run_are_scored_on_validation_too(folder):
    joint = folder / "joint.yaml"
    joint.write_text("task: multitask\ntasks: {one: {yaml: q.yaml}, two: {yaml: q.yaml}}\n")
    assert on_validation(joint, ["seed=2"], "test") == [
        "seed=2",
        "tasks.one.data.test_splits=[validation, test]",
        "tasks.two.data.test_splits=[validation, test]",
    ]
