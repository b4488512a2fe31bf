"""The training loop: what an update computes, when it stops, and what it says when it cannot go on."""

import copy
import json
import math
from types import SimpleNamespace

import pytest
import torch
from small_run import Recorder, metrics, small_config, start, write_trees

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import RunError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import Bucketed, collate
from seq2seq_suite.experiments.prepare import subset
from seq2seq_suite.prediction import build
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.training.checkpoint import Progress
from seq2seq_suite.training.choosing import Metric
from seq2seq_suite.training.interval import Interval
from seq2seq_suite.training.stopping import StopRequest
from seq2seq_suite.training.trainer import Trainer, limit_reached


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


def make_trainer(config: Config, directory) -> Trainer:
    torch.manual_seed(config.seed)
    task = open_task("parsing", config)
    train, validation = task.read("train"), task.read("validation")
    task.fit(train)
    encoded = task.encode(train)
    predictor = build.build_predictor(config, task, device=torch.device("cpu"))
    encoded_validation = task.encode(validation)
    directory.mkdir(exist_ok=True)
    return Trainer(
        run=RunDirectory(directory),
        options=config.training,
        learner=predictor.learner,
        batches=Bucketed(encoded, "parsing", batch_tokens=config.training.batch_tokens, seed=1),
        validate=lambda between: predictor.score(validation, encoded_validation, between=between)[0].figures,
        metric=Metric("f1", True),
        device=torch.device("cpu"),
        precision=torch.float32,
        origins=[example.origin for example in train],
    )


def without_chance(config: Config) -> Config:
    values = config.model_dump()
    values["backbone"]["dropout"], values["parsing"]["unknown_rate"] = 0.0, 0.0
    return Config.model_validate(values)


def test_ragged_halves_of_a_batch_give_the_gradient_of_the_whole(folder, tmp_path):
    trainer = make_trainer(without_chance(small_config(folder, clip_norm=1e9)), tmp_path)
    items = trainer.batches.items[:12]
    parts = [(0, 1, collate(items[:9], "parsing")), (0, 2, collate(items[9:], "parsing"))]
    trainer.optimizer = recorder = Recorder(trainer.learner)
    losses, _ = trainer._update([(0, 1, collate(items, "parsing"))])
    whole = recorder.gradients
    losses_of_parts, _ = trainer._update(parts)
    assert whole.keys() == recorder.gradients.keys()
    for name, gradient in whole.items():
        assert torch.allclose(gradient, recorder.gradients[name], rtol=1e-4, atol=1e-6), name
    assert {name: float(value) for name, value in losses.items()} == pytest.approx(
        {name: float(value) for name, value in losses_of_parts.items()}, rel=1e-5
    )


def test_the_balance_of_accumulated_batches_is_their_mean_by_target_symbols(folder, tmp_path):
    values = without_chance(small_config(folder)).model_dump()
    values["backbone"] |= {"experts": 4, "balance_weight": 0.5}
    trainer = make_trainer(Config.model_validate(values), tmp_path)
    items = trainer.batches.items[:12]
    batches = [collate(items[:9], "parsing"), collate(items[9:], "parsing")]
    learner = trainer.learner.train()
    each = [learner(batch) for batch in batches]
    symbols = [int(batch.target_mask.sum()) for batch in batches]
    assert [loss.counts["balance"] for loss in each] == symbols and each[0].weights["balance"] == 0.5
    trainer.optimizer = Recorder(learner)
    losses, _ = trainer._update([(0, place, batch) for place, batch in enumerate(batches)])
    means = [loss.sums["balance"].detach() / count for loss, count in zip(each, symbols, strict=True)]
    expected = sum(mean * count for mean, count in zip(means, symbols, strict=True)) / sum(symbols)
    torch.testing.assert_close(losses["balance"], expected)
    assert 1.5 < float(expected) < 4.0  # of two layers


def test_the_strategy_receives_before_each_update_how_far_training_is(folder, tmp_path):
    trainer, reported = make_trainer(small_config(folder, max_updates=4), tmp_path), []
    strategy = trainer.learner.strategy
    loss = strategy.loss
    strategy.loss = lambda model, batch: reported.append(strategy.fraction_done) or loss(model, batch)
    stream = trainer.batches.batches(0)
    for _ in range(4):
        trainer._update([next(stream), next(stream)])
    assert reported == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75]


def test_training_is_its_plain_loop(folder, tmp_path):
    """AdamW, decay of matrices, warm-up, schedule, clipping, accumulation and the average, written out."""
    config = without_chance(
        small_config(
            folder,
            max_updates=8,
            accumulate=2,
            learning_rate=0.01,
            warmup_updates=3,
            schedule="power",
            decay_power=0.7,
            weight_decay=0.1,
            clip_norm=0.5,
            ema_decay=0.3,
            optimizer_options={"betas": (0.8, 0.95), "eps": 1e-3},
        )
    )
    trainer = make_trainer(config, tmp_path)
    twin = copy.deepcopy(trainer.learner).train()
    weights = dict(twin.named_parameters())
    first, second = ({name: torch.zeros_like(value) for name, value in weights.items()} for _ in range(2))
    average = {name: value.detach().clone() for name, value in weights.items()}
    stream, same, tokens, clipped = trainer.batches.batches(0), trainer.batches.batches(0), 0, 0
    for update in range(1, 6):
        parts = [next(stream), next(stream)]
        losses, rate = trainer._update(parts)
        batches = [next(same)[2] for _ in range(2)]
        found = [twin(batch) for batch in batches]
        means = {
            name: sum(loss.sums[name] for loss in found) / sum(loss.counts[name] for loss in found)
            for name in found[0].sums
        }
        total = sum(weight * means[name] for name, weight in found[0].weights.items())
        slopes = dict(zip(weights, torch.autograd.grad(total, list(weights.values())), strict=True))
        norm = math.sqrt(sum(float(slope.square().sum()) for slope in slopes.values()))
        clipped += norm > 0.5
        expected_rate = 0.01 * min(1.0, update / 3) * (1.0 - (update - 1) / 8) ** 0.7
        share = min(0.3, (1 + update) / (10 + update))
        with torch.no_grad():
            for name, weight in weights.items():
                slope = slopes[name] * min(1.0, 0.5 / norm)
                first[name] = 0.8 * first[name] + 0.2 * slope
                second[name] = 0.95 * second[name] + 0.05 * slope.square()
                if weight.dim() > 1:
                    weight -= expected_rate * 0.1 * weight
                weight -= (
                    expected_rate
                    * (first[name] / (1.0 - 0.8**update))
                    / ((second[name] / (1.0 - 0.95**update)).sqrt() + 1e-3)
                )
                average[name] = share * average[name] + (1.0 - share) * weight
        tokens += sum(int(batch.target_mask.sum() + batch.source_mask.sum()) for batch in batches)
        assert rate == pytest.approx(expected_rate)
        assert {name: float(value) for name, value in losses.items()} == pytest.approx(
            {name: float(value.detach()) for name, value in means.items()}, rel=1e-3
        )
        for name, value in trainer.learner.named_parameters():
            torch.testing.assert_close(value, weights[name], rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(trainer.average.weights[name], average[name], rtol=1e-3, atol=1e-4)
        progress = trainer.progress
        assert (progress.update, progress.tokens) == (update, tokens)
        assert (progress.epoch, progress.position) == parts[1][:2] != parts[0][:2]
    assert clipped


def test_the_best_is_kept_and_what_came_since_is_counted(folder, tmp_path):
    trainer = make_trainer(small_config(folder, patience=2), tmp_path)
    reported, figures = [], iter([10.0, 30.0, float("nan"), 30.0, 40.0, 20.0])
    trainer._display = SimpleNamespace(validation=lambda update, found, better: reported.append((update, better)))
    trainer.validate = lambda between: {"f1": next(figures)}
    seen = []
    for update in range(1, 7):
        trainer.progress.update = update
        assert trainer._validate(StopRequest()) and not trainer._validate(StopRequest())  # once for each update
        progress = trainer.progress
        seen.append(
            (progress.best_update, progress.best_figure, progress.validations_since_best, bool(trainer.limit_reached()))
        )
    assert seen == [
        (1, 10.0, 0, False),
        (2, 30.0, 0, False),
        (2, 30.0, 1, False),
        (2, 30.0, 2, True),
        (5, 40.0, 0, False),
        (5, 40.0, 1, False),
    ]
    assert reported == [(update, update in (1, 2, 5)) for update in range(1, 7)]
    assert [row["f1"] for row in metrics(tmp_path)][:2] == [10.0, 30.0]


def test_a_run_ends_by_updates_or_by_minutes_whichever_come_first(folder):
    options = small_config(folder, max_updates=100, max_minutes=2.0, patience=3).training
    for update, seconds, since, why in (
        (99, 119.0, 2, ""),
        (100, 0.0, 0, "max_updates"),
        (5, 120.0, 0, "max_minutes"),
        (5, 6.0, 3, "patience"),
    ):
        said = limit_reached(options, Progress(update=update, seconds=seconds, validations_since_best=since), "f1")
        assert why in said and bool(said) == bool(why)


def test_what_is_logged_counts_from_the_row_before(folder, tmp_path):
    trainer, shown = make_trainer(small_config(folder), tmp_path), []
    trainer._display = SimpleNamespace(update=lambda update, **figures: shown.append(figures))
    trainer.progress = Progress(update=2, tokens=100, seconds=4.0, epoch=1)
    trainer._interval = Interval(trainer.progress)
    for loss in (3.0, 1.0):
        trainer._interval.add({"a/first": torch.tensor(loss), "a/second": torch.tensor(9.0)})
    trainer._interval.add({"b/first": torch.tensor(6.0)})  # of a joint run, where an update holds some tasks
    kept = trainer._interval.state()
    trainer.progress = Progress(update=4, tokens=160, seconds=6.0, epoch=1, since_logged=kept)
    trainer._interval = Interval(trainer.progress)
    trainer._log(0.5)
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert (row["loss_a/first"], row["loss_a/second"], row["loss_b/first"]) == (2.0, 9.0, 6.0)
    assert (row["tokens_per_second"], row["epoch"], row["learning_rate"]) == (30.0, 2, 0.5)
    assert shown[0]["loss"] == 4.0  # of each task the first
    assert trainer.progress.since_logged == {} and trainer._interval.means() == {}
    assert (trainer._interval.tokens, trainer._interval.seconds) == (160, 6.0)


def test_gradients_are_clipped_to_the_norm(folder, tmp_path):
    trainer = make_trainer(small_config(folder, clip_norm=0.01), tmp_path)
    trainer.optimizer = recorder = Recorder(trainer.learner)
    trainer._update([(0, 1, collate(trainer.batches.items[:4], "parsing"))])
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in recorder.gradients.values()))
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_a_run_learns_and_every_row_of_its_metrics_is_finite(folder, tmp_path):
    start(small_config(folder, max_updates=60, learning_rate=1e-2, validate_every=30, save_every=100), tmp_path / "run")
    rows = metrics(tmp_path / "run")
    assert all(
        value is not None and (isinstance(value, str) or math.isfinite(value)) for row in rows for value in row.values()
    )
    losses = [row["loss_cross_entropy"] for row in rows if row["split"] == "train"]
    assert losses[-1] < 0.7 * losses[0]
    assert [row["update"] for row in rows if row["split"] == "validation"] == [30, 60]
    assert [row["update"] for row in rows if row["split"] == "train"] == [1, *range(2, 61, 2)]
    assert rows[0].keys() == {
        "update",
        "split",
        "epoch",
        "tokens",
        "learning_rate",
        "loss_cross_entropy",
        "loss_tags",
        "loss_moves",
    }


def test_patience_ends_a_run_and_a_resumed_one_ends_again(folder, tmp_path, capsys, monkeypatch):
    config = small_config(folder, max_updates=1000, validate_every=2, patience=2, learning_rate=1e-12)
    summary = start(config, tmp_path / "run")
    assert summary["updates"] == 6 and summary["best_update"] == 2
    assert "2 validations without a better validation loss" in capsys.readouterr().out
    assert start(config, tmp_path / "run", resume=True)["updates"] == 6
    assert "this run is finished (6 updates): 2 validations without" in capsys.readouterr().out


def test_the_limit_on_minutes_ends_a_run(folder, tmp_path, capsys):
    summary = start(small_config(folder, max_updates=10**6, max_minutes=0.005), tmp_path / "run")
    assert 0 < summary["updates"] < 10**6
    assert "training.max_minutes=0.005 is reached" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_ends_with_1_names_the_rows_and_spares_the_checkpoints(folder, tmp_path, capsys):
    config = small_config(folder, max_updates=5)
    directory, yaml = tmp_path / "run", tmp_path / "small.yaml"
    start(config, directory)
    yaml.write_text(config_file.dump(config))
    before = {path: path.read_bytes() for path in (directory / "checkpoints").rglob("*") if path.is_file()}
    command = [
        "run",
        str(yaml),
        "--output",
        str(directory),
        "--resume",
        "training.max_updates=50",
        "training.learning_rate=1e9",
        "training.save_every=40",
        "training.validate_every=40",
    ]
    capsys.readouterr()
    assert cli.main(command) == 1
    errors = capsys.readouterr().err
    assert "not finite at update" in errors and str(folder / "train.jsonl") + ":" in errors
    assert "training.learning_rate" in errors and "Traceback" not in errors
    assert {path: path.read_bytes() for path in (directory / "checkpoints").rglob("*") if path.is_file()} == before
    assert start(small_config(folder, max_updates=8), directory, resume=True)["updates"] == 8


def test_weights_are_never_stepped_with_a_gradient_that_is_not_finite(folder, tmp_path):
    trainer = make_trainer(small_config(folder), tmp_path)
    with torch.no_grad():
        trainer.learner.model.embedding.weight[5] = float("nan")
    before = {name: value.clone() for name, value in trainer.learner.state_dict().items()}
    with pytest.raises(RunError, match="update 1; the batch had"):
        trainer._update([(0, 1, collate(trainer.batches.items[:4], "parsing"))])
    assert all(
        torch.equal(torch.nan_to_num(value), torch.nan_to_num(before[name]))
        for name, value in trainer.learner.state_dict().items()
    )


def test_the_average_is_what_is_validated_and_training_goes_on_with_its_own_weights(folder, tmp_path):
    trainer = make_trainer(small_config(folder, ema_decay=0.99), tmp_path)
    stream = trainer.batches.batches(0)
    for _ in range(3):
        trainer._update([next(stream)])
    own = {name: value.clone() for name, value in trainer.learner.state_dict().items()}
    seen, validate = {}, trainer.validate

    def watching(between):
        seen.update({name: value.clone() for name, value in trainer.learner.named_parameters()})
        return validate(between)

    trainer.validate = watching
    trainer._display = type("Silent", (), {"validation": lambda *_: None})()
    trainer._validate(StopRequest())
    assert all(torch.equal(seen[name], value) for name, value in trainer.average.weights.items())
    assert all(torch.equal(own[name], value) for name, value in trainer.learner.state_dict().items())


def test_validation_can_be_a_fixed_part_of_the_split(folder, tmp_path):
    assert subset(8, 0, 1) == subset(8, 9, 1) == range(8)
    part = subset(100, 10, 1)
    assert len(set(part)) == 10 and part == sorted(part) == subset(100, 10, 1)
    assert part != subset(100, 10, 2)
    start(small_config(folder, max_updates=2, validate_examples=3), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 2


def test_a_run_whose_metric_is_constant_keeps_the_lowest_loss_and_says_so(folder, tmp_path, capsys):
    trainer = make_trainer(small_config(folder, max_updates=6, validate_every=1, patience=2), tmp_path)
    losses = iter((3.0, 2.0, 2.5, 2.2, 9.0))
    trainer.validate = lambda between: {"f1": 0.0, "loss_cross_entropy": next(losses)}
    trainer.run_to_best(resume=False)
    assert (tmp_path / "checkpoints" / "best").resolve().name == "step-2" and trainer.progress.update == 4
    end = capsys.readouterr()
    assert "f1 is 0 at all 4 validations" in end.out and "2 validations without a better validation loss" in end.out
    assert "f1 is 0 at all 4 validations" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(
    ("updates", "every", "logged"), [(4, 4, [1, 4]), (5, 2, [1, 2, 4, 5]), (1, 50, [1]), (3, 50, [1, 3])]
)
def test_first_and_last_update_are_logged_whatever_the_interval(folder, tmp_path, capsys, updates, every, logged):
    start(small_config(folder, max_updates=updates, log_every=every, validate_every=2), tmp_path / "run")
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("update ")]
    assert [int(line.split("/")[0].split()[1]) for line in printed] == logged
    assert [row["update"] for row in metrics(tmp_path / "run") if row["split"] == "train"] == logged
    log = (tmp_path / "run" / "log.txt").read_text()
    assert [line[21:] for line in log.splitlines() if line[21:].startswith("update ")] == [
        line.rpartition("  ")[0] for line in printed
    ]  # without the time left


def test_the_log_has_what_is_printed(folder, tmp_path, capsys):
    start(small_config(folder, max_updates=3, log_every=2, validate_every=2), tmp_path / "run")
    start(small_config(folder, max_updates=4, log_every=2, validate_every=2), tmp_path / "run", resume=True)
    printed, log = capsys.readouterr().out.splitlines(), (tmp_path / "run" / "log.txt").read_text().splitlines()
    lines = {line[21:] for line in log}
    said = [line for line in printed if line.startswith(("train", "resuming"))]
    assert len(said) == 8 and lines.issuperset(said)
    assert said[0] == "training.warmup_updates=5 is not below max_updates=3: the learning rate never reaches its peak"
    assert len([line for line in lines if line.startswith("validation at update")]) == 3  # with all figures
    own = [line for line in log if " test: " not in line and "  training on " not in line]
    assert len(own) == len(set(own))  # nothing twice; two runs may begin in one second


def test_the_log_says_how_a_run_failed(folder, tmp_path, monkeypatch):
    def broken(*given):
        raise RunError("the disk is full")

    monkeypatch.setattr("seq2seq_suite.training.trainer.Trainer.train", broken)
    with pytest.raises(RunError):
        start(small_config(folder, max_updates=2), tmp_path / "run")
    assert (tmp_path / "run" / "log.txt").read_text().endswith("  the disk is full\n")


def test_losses_are_logged_as_means_over_the_interval(folder, tmp_path):
    fine, coarse = small_config(folder, max_updates=6, log_every=1), small_config(folder, max_updates=6, log_every=3)
    start(fine, tmp_path / "fine")
    start(coarse, tmp_path / "coarse")
    each = [row["loss_cross_entropy"] for row in metrics(tmp_path / "fine") if row["split"] == "train"]
    means = [row["loss_cross_entropy"] for row in metrics(tmp_path / "coarse") if row["split"] == "train"]
    assert means == pytest.approx([each[0], sum(each[:3]) / 3, sum(each[3:]) / 3], rel=1e-6)
