"""Joint runs: whose turn it is, what is shared, and that each task's part is a run like any other."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from small_run import in_forks, metrics, weights
from two_processes import launch

from benchmarks import multitask
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.shapes import Shape, SoundShape, TargetShape
from seq2seq_suite.config import config_file
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.data.mixture import Mixture
from seq2seq_suite.experiments import verbs
from seq2seq_suite.experiments.joint import Part, build_predictors, build_trainer, joined, read_parts
from seq2seq_suite.model.build import build_model
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.distributed import ALONE
from seq2seq_suite.runs.joint_directories import task_directory
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.studies.compare import compare_runs

WORDS = ["red", "blue", "green", "small", "large", "dog", "cat", "bird", "runs", "sings"]
YAML = """
task: multitask
tasks:
  labels: {yaml: labels.yaml, task_weight: 0.5}
  questions: {task: qa, data: {path: DATA}}
  german: {task: translation, data: {path: DATA}, strategy: {kind: ctc}, translation: {vocabulary_size: 60}}
mixture: {temperature: 1.0}
backbone: {width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1, source_tag: true,
           max_positions: 2000}
device: cpu
training: {max_updates: 6, validate_every: 3, save_every: 3, log_every: 2, accumulate: 2, threads: 1, batch_tokens: 64,
           precision: float32, ema_decay: 0.9, schedule: constant}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Rows that three tasks can read, and the file of a joint run of these."""
    place = tmp_path_factory.mktemp("joint")
    (place / "data").mkdir()
    pairs = list(itertools.permutations(WORDS, 2))
    for split, part in (("train", pairs[:40]), ("validation", pairs[40:46]), ("test", pairs[46:52])):
        rows = [
            {
                "text": " ".join(words),
                "labels": list(words[:1]),
                "src": " ".join(words),
                "tgt": " ".join(words[::-1]),
                "question": f"what follows {words[0]} ?",
                "context": " ".join(words),
                "answer": words[1],
            }
            for words in part
        ]
        (place / "data" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "labels.yaml").write_text(
        f"task: multilabel\ndata: {{path: {place / 'data'}}}\ntraining: {{max_updates: 9}}\nsearch: {{beam_size: 2}}\n"
    )
    (place / "joint.yaml").write_text(YAML.replace("DATA", str(place / "data")))
    return place


def joint(folder: Path, *overrides: str):
    return config_file.load(folder / "joint.yaml", overrides)


def start(config, directory: Path, *, resume: bool = False):
    return verbs.run(config, directory, resume=resume, overwrite=False, command=["run"])


def summary_of(directory: Path) -> dict:
    return json.loads((directory / "summary.json").read_text())


def on_test(directory: Path, metric: str) -> float:
    return summary_of(directory)["splits"]["test"][metric]


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "joint"
    start(joint(folder), directory)
    return directory


def test_a_joint_run_freezes_shared_layers_and_a_tasks_own(folder, finished, tmp_path):
    """`finished` is the same run without frozen parts, which begins with the same weights."""
    config = joint(folder, "training.freeze=[encoder, 'parts.labels.*']", "mixture.balance=1")
    start(config, tmp_path / "run")
    states = []
    for updates, name in ((1, "one"), (6, "six")):
        tested = joint(folder, "training.freeze=[encoder, 'parts.labels.*']", f"training.max_updates={updates}")
        start(tested, tmp_path / name)
        states.append(load_file(tmp_path / name / "checkpoints" / "last" / "model.safetensors"))
    same = {name for name in states[0] if torch.equal(states[0][name], states[1][name])}
    frozen = {name for name in states[0] if name.startswith(("encoder.", "parts.labels."))}
    assert frozen <= same and not [name for name in same - frozen if name.endswith(".weight")]
    counts = [summary_of(one)["learning_parameters"] for one in (tmp_path / "run", finished)]
    assert counts[0] < counts[1] == summary_of(finished)["parameters"]
    with pytest.raises(ConfigError, match=r"mixture\.balance measures gradients of encoder and decoder"):
        start(joint(folder, "training.freeze=[encoder, decoder]", "mixture.balance=1"), tmp_path / "none")
    shared = task_directory(tmp_path / "run", "labels") / "checkpoints" / "best" / "model.safetensors"
    assert shared.is_file()


def _mixture(folder: Path) -> Mixture:
    parts, config = {}, joint(folder)
    for name, part in config.tasks.items():
        task = open_task(part.task, part)
        examples = task.read("train")
        task.fit(examples)
        parts[name] = Bucketed(task.encode(examples), name, batch_tokens=64, seed=1)
    return Mixture(parts, {"labels": 0.5, "questions": 0.3, "german": 0.2})


def test_turns_keep_the_proportions_and_a_place_in_the_stream_is_a_number(folder):
    mixture = _mixture(folder)
    turns = list(itertools.islice(mixture.turns(), 100))
    for length in range(1, 101):
        counts = Counter(turns[:length])
        assert all(abs(counts[name] - share * length) <= 1.0 for name, share in mixture.shares.items())
    stream = list(itertools.islice(mixture.batches(0), 60))
    assert [batch.task for _, _, batch in stream] == turns[:60]
    for place in (0, 1, 17, 43):
        again = list(itertools.islice(mixture.batches(0, place), 8))
        for (_, position, batch), (_, other, kept) in zip(again, stream[place:], strict=False):
            assert position == other and batch.indices == kept.indices and torch.equal(batch.source, kept.source)
    assert {min(batch.indices) // 40 for _, _, batch in stream} == {0, 1, 2}  # numbered through all tasks


def test_a_joint_model_shares_its_stacks_and_learns_each_batch_as_its_own_task(folder):
    config, mixture = joint(folder), _mixture(folder)
    parts = [
        Part(name, own, RunDirectory(folder), open_task(own.task, own), {}, f"{name}/")
        for name, own in config.tasks.items()
    ]
    for part in parts:
        part.task.fit(part.task.read("train"))
    learner, predictors = build_predictors(parts, device=torch.device("cpu"), ranks=ALONE)
    models = [predictor.model for predictor in predictors.values()]
    assert all(model.encoder is models[0].encoder and model.decoder is models[0].decoder for model in models)
    learners = [predictor.learner for predictor in predictors.values()]
    own = sum(one.num_parameters() - one.num_core_parameters() for one in learners)
    assert learner.num_parameters() == own + learners[0].num_core_parameters()
    seen = set()
    for _, _, batch in itertools.islice(mixture.batches(0), 20):
        torch.manual_seed(3)
        got = learner.eval()(batch)
        torch.manual_seed(3)
        expected = predictors[batch.task].learner(batch)
        factor = 0.5 if batch.task == "labels" else 1.0
        assert got.counts == {f"{batch.task}/{name}": count for name, count in expected.counts.items()}
        assert got.counts == learner.counts(batch)
        assert got.weights == {f"{batch.task}/{name}": factor * weight for name, weight in expected.weights.items()}
        for name, total in expected.sums.items():
            torch.testing.assert_close(got.sums[f"{batch.task}/{name}"], total)
        seen.add(batch.task)
    assert seen == set(config.tasks)


def test_the_mean_counts_error_rates_from_100_down():
    """A worse error rate must not raise the figure that the best checkpoint is chosen by."""
    task = SimpleNamespace
    tasks = {
        "speech": task(primary_metric="wer", higher_is_better=False),
        "labels": task(primary_metric="micro_f1", higher_is_better=True),
    }
    found = joined({"speech": {"cer": 4.0, "wer": 10.0}, "labels": {"micro_f1": 50.0}}, tasks)
    assert found == {"mean": 70.0, "speech/cer": 4.0, "speech/wer": 10.0, "labels/micro_f1": 50.0}
    assert joined({"speech": {"wer": 30.0}, "labels": {"micro_f1": 50.0}}, tasks)["mean"] == 60.0


def test_each_task_leaves_a_run_of_its_own(finished, capsys):
    summary = summary_of(finished)
    test = summary["splits"]["test"]
    primary = {"labels": "micro_f1", "questions": "exact_match", "german": "bleu"}
    assert test["mean"] == pytest.approx(sum(test[f"{name}/{metric}"] for name, metric in primary.items()) / 3)
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert any("loss_labels/cross_entropy" in row for row in rows) and any("german/bleu" in row for row in rows)
    for name, metric in primary.items():
        assert cli.main(["evaluate", str(finished), "--task", name, "--json"]) == 0
        again = json.loads(capsys.readouterr().out)
        assert again["splits"]["test"][metric] == pytest.approx(test[f"{name}/{metric}"])
    assert cli.main(["predict", str(finished), "--task", "german", "red dog"]) == 0
    compared = compare_runs([finished, task_directory(finished, "german")], measure=False)
    assert [row.run for row in compared.rows][:3] == ["joint/german", "joint/labels", "joint/questions"]


@pytest.mark.slow
def test_a_resumed_joint_run_goes_on_with_its_tasks_norms(folder, tmp_path):
    start(joint(folder, "mixture.balance=1"), tmp_path / "whole")
    start(joint(folder, "mixture.balance=1", "training.max_updates=3"), tmp_path / "parts")
    start(joint(folder, "mixture.balance=1"), tmp_path / "parts", resume=True)
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_a_resumed_joint_run_is_one_that_was_not_stopped(folder, finished, tmp_path, capsys):
    directory = tmp_path / "joint"
    start(joint(folder, "training.max_updates=3"), directory)
    start(joint(folder), directory, resume=True)
    assert "resuming with training.max_updates = 6 (was 3)" in capsys.readouterr().out
    assert weights(directory) == weights(finished)
    with pytest.raises(ConfigError, match=r"tasks\.german\.translation\.vocabulary_size"):
        start(joint(folder, "tasks.german.translation.vocabulary_size=70"), directory, resume=True)


@pytest.mark.parametrize("balance", [0.0, 1.0])
@pytest.mark.slow
def test_two_processes_train_it_as_one_does(folder, tmp_path, balance):
    without_chance = ["backbone.dropout=0.0", "tasks.labels.multilabel.word_dropout=0.0", f"mixture.balance={balance}"]
    start(joint(folder, *without_chance), tmp_path / "alone")
    ended = launch(
        lambda: cli.main(["run", str(folder / "joint.yaml"), *without_chance, "--output", str(tmp_path / "pair")]),
        tmp_path,
    )
    assert [code for code, _, _ in ended] == [0, 0], ended
    for one, other in zip(metrics(tmp_path / "alone"), metrics(tmp_path / "pair"), strict=True):
        assert one.pop("split") == other.pop("split") and other == pytest.approx(one, rel=1e-4)
    one, other = (summary_of(tmp_path / name)["splits"] for name in ("alone", "pair"))
    assert other["test"] == pytest.approx(one["test"])


def test_one_task_goes_on_from_the_joint_weights(folder, finished, tmp_path):
    part = task_directory(finished, "labels")
    config = config_file.load(
        part / "config.yaml",
        [
            f"init_from={part}",
            "init_parts=[all]",
            "training.learning_rate=1e-12",
            "training.max_updates=1",
            "training.ema_decay=0.0",
            "training.weight_decay=0.0",
        ],
    )
    summary = start(config, tmp_path / "tuned")
    assert "everything starts from" in (tmp_path / "tuned" / "log.txt").read_text()
    before = summary_of(finished)["splits"]["test"]
    assert summary["splits"]["test"]["micro_f1"] == pytest.approx(before["labels/micro_f1"])


@pytest.mark.slow
def test_the_study_of_joint_weights_trains_each_task_as_often_alone(finished, tmp_path):
    places, runs = multitask.planned(
        finished, finished.with_name("joint-parts"), share=0.5, rate=0.3, overrides=["device=cpu"]
    )
    for directory, (yaml, overrides) in runs.items():
        start(config_file.load(yaml, overrides), directory)
    read = {task: summary_of(kinds["together"])["batches"] for task, kinds in places.items()}
    assert sum(read.values()) == 6 * 2
    for task, kinds in places.items():
        alone, tuned = summary_of(kinds["alone"]), summary_of(kinds["then tuned"])
        assert (alone["updates"], tuned["updates"]) == (read[task], round(read[task] / 2))
        assert tuned["parameters"] - alone["parameters"] == config_file.load(finished / "config.yaml").backbone.width
    table = tmp_path / "table.md"
    multitask.main([str(finished), "--tuned", "0.5", "--output", str(table)])
    lines = [line for line in table.read_text().splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["german", "labels", "questions"]
    study = multitask.Study.read(places)
    pytest.importorskip("matplotlib", reason="comes with the extra `bench`")
    multitask.plot([study, study], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_study_of_several_seeds_has_the_means_of_their_differences(folder, finished, tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.studies.sweep.subprocess", in_forks(finished.parent))
    other = finished.with_name("joint-2")
    start(joint(folder, "seed=2"), other)
    table = tmp_path / "table.md"
    multitask.main([str(finished), str(other), "--tuned", "0", "--threads", "1", "--output", str(table)])
    found = [
        [word.strip() for word in line.split("|")[1:-1]]
        for line in table.read_text().splitlines()
        if line.startswith("|")
    ]
    assert found[0] == [
        "task",
        "metric",
        "updates",
        "alone",
        "together",
        "together - alone",
        "together - alone, each seed",
    ]
    for task, metric, _, alone, together, change, seeds in found[2:]:
        apart = [on_test(run.with_name(f"{run.name}-parts") / f"{task}-alone", metric) for run in (finished, other)]
        joined = [on_test(task_directory(run, task), metric) for run in (finished, other)]
        changes = [two - one for one, two in zip(apart, joined, strict=True)]
        assert float(alone) == pytest.approx(sum(apart) / 2, abs=0.006)
        assert float(together) == pytest.approx(sum(joined) / 2, abs=0.006)
        assert float(change.split()[0]) == pytest.approx(sum(changes) / 2, abs=0.006)
        assert [float(one) for one in seeds.split(", ")] == pytest.approx(changes, abs=0.006)
    assert "seed 1, 2" in table.read_text()


def test_files_of_tasks_are_merged_and_keys_beside_them_override_them(folder):
    config = joint(folder, "tasks.labels.search.beam_size=3", "training.max_updates=7")
    labels = config.tasks["labels"]
    assert labels.search.beam_size == 3 and labels.task_weight == 0.5 and labels.training.max_updates == 7
    assert all(part.backbone == config.backbone for part in config.tasks.values())
    (folder / "copy.yaml").write_text(config_file.dump(config))
    assert config_file.load(folder / "copy.yaml") == config


def test_a_task_may_have_batches_and_a_share_of_its_own(folder, tmp_path):
    overrides = ["tasks.labels.task_batch_tokens=24", "tasks.labels.task_share=0.25", "mixture.max_epochs=1000.0"]
    config = joint(folder, *overrides)
    assert [part.training.batch_tokens for part in config.tasks.values()] == [24, 64, 64]
    start(config, tmp_path / "run")
    counts = {name: summary_of(task_directory(tmp_path / "run", name))["batches"] for name in config.tasks}
    assert counts == {"labels": 2, "questions": 5, "german": 5}  # of 12: 1 to 4 to 4
    alone = config_file.load(task_directory(tmp_path / "run", "labels") / "config.yaml")
    assert alone.training.batch_tokens == 24
    for value in ("-3", "many"):
        with pytest.raises(ConfigError, match=r"tasks\.labels\.task_batch_tokens"):
            joint(folder, f"tasks.labels.task_batch_tokens={value}")


def test_what_is_wrong_is_said(folder, finished, capsys):
    for override, message in (
        ("tasks.labels.serch.beam_size=3", "tasks.labels.serch"),
        ("tasks.labels.yaml=lables.yaml", "no such file"),
        ("tasks.questions.task=language_model", "tasks with a source"),
        ("init_from=x", "starts from fresh weights"),
        ("tasks={}", "give both, or neither"),
    ):
        with pytest.raises(ConfigError, match=message):
            joint(folder, override)
    with pytest.raises(ConfigError, match="one of them: labels, questions, german"):
        opening.open_run(finished, [])
    with pytest.raises(DataError, match="there is no task 'spanish'"):
        opening.choose_task(finished, "spanish")
    assert cli.main(["check", str(folder / "joint.yaml")]) == 0
    assert "german: " in capsys.readouterr().out


def test_parts_that_hear_alike_share_their_front_end():
    backbone = Backbone.model_validate({"size": "tiny"})
    of_sound = Shape(SoundShape(mean=(0.0,) * 8, deviation=(1.0,) * 8), TargetShape(9))
    first = build_model(backbone, of_sound)
    second = build_model(backbone, replace(of_sound, target=TargetShape(12)), like=[(of_sound, first)])
    coarse = build_model(
        backbone, replace(of_sound, source=SoundShape((0.0,) * 8, (1.0,) * 8, subsampling=2)), like=[(of_sound, first)]
    )
    assert second.frontend is first.frontend and coarse.frontend is not first.frontend


@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_gradients_are_balanced_where_that_is_asked_for(folder, tmp_path, balance):
    config, run = joint(folder, f"mixture.balance={balance}"), RunDirectory(tmp_path)
    trainer, _ = build_trainer(config, run, read_parts(config, run), resume=False, command=["run"])
    assert (trainer.balance is not None) == bool(balance)
    assert trainer.metric.name == "mean" and trainer.metric.higher_is_better
