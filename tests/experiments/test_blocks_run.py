"""Runs of blocks end to end: begun from a left-to-right run, resumed, judged, joint, of speech and of texts alone."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from serving import train
from small_run import metrics, weights

from seq2seq_suite.cli import app as cli
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import verbs
from seq2seq_suite.prediction import load_run as opening

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
SMALL = {"width": 16, "feed_forward_width": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("pairs")
    rows = [
        {"src": " ".join(words), "tgt": " ".join(words[::-1]).upper(), "text": " ".join(words) * 2}
        for words in itertools.permutations(WORDS[:4], 3)
    ]
    for split in ("train", "validation", "test"):
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def config(
    folder: Path,
    strategy: dict | None = None,
    *,
    task: str = "translation",
    max_updates: int = 4,
    learning_rate: float = 1e-3,
    backbone: dict | None = None,
    **given,
) -> Config:
    own = {
        "translation": {"source_subwords": "characters", "target_subwords": "characters", "joint": False},
        "language_model": {"subwords": "characters", "window": 40},
    }
    return Config.model_validate(
        {
            "task": task,
            "device": "cpu",
            "data": {"path": str(folder)},
            task: own[task],
            "backbone": {**SMALL, "dropout": 0.1, **(backbone or {})},
            "strategy": strategy or {"kind": "autoregressive"},
            "training": {
                "max_updates": max_updates,
                "batch_tokens": 128,
                "precision": "float32",
                "schedule": "constant",
                "warmup_updates": 1,
                "validate_every": 2,
                "save_every": 2,
                "log_every": 1,
                "threads": 1,
                "learning_rate": learning_rate,
            },
            **given,
        }
    )


def start(made: Config, directory: Path, *, resume: bool = False) -> dict:
    return verbs.run(made, directory, resume=resume, overwrite=False, command=["run"])


def summary_of(directory: Path) -> dict:
    return json.loads((directory / "summary.json").read_text())


def rows_of(directory: Path, split: str) -> list[str]:
    return [
        json.loads(line)["prediction"]
        for line in (directory / "predictions" / f"{split}.jsonl").read_text().splitlines()
    ]


@pytest.mark.slow
def test_a_run_resumed_halfway_equals_one_in_a_go(folder, tmp_path):
    strategy = {"kind": "blocks", "block": 4, "blocks": (1, 2, 4)}
    start(config(folder, strategy), tmp_path / "whole")
    start(config(folder, strategy, max_updates=2), tmp_path / "parts")
    start(config(folder, strategy), tmp_path / "parts", resume=True)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert {name for row in metrics(tmp_path / "whole") for name in row if name.startswith("loss_")} >= {
        "loss_cross_entropy",
        "loss_left_to_right",
    }


@pytest.fixture(scope="module")
def both(folder, tmp_path_factory) -> tuple[Path, Path]:
    """A run from left to right, and one of blocks that has learned next to nothing since."""
    place = tmp_path_factory.mktemp("runs")
    start(config(folder, max_updates=40, learning_rate=5e-3), place / "left")
    start(
        config(
            folder,
            {"kind": "blocks"},
            learning_rate=1e-12,
            init_from=str(place / "left"),
            init_parts=("all",),
            search={"order": "verified"},
        ),
        place / "blocks",
    )
    return place / "left", place / "blocks"


def test_what_begins_from_a_run_from_left_to_right_writes_and_judges_as_it_does(both):
    left, blocks = both
    begun = [json.loads((one / "summary.json").read_text()) for one in both]
    assert rows_of(blocks, "test") == rows_of(left, "test")
    found = [verbs.evaluate(one, split="test", data=None, overrides=[]) for one in both]
    exact, same = (one["likelihood"]["test"] for one in found)
    assert exact["nats_per_symbol"] == pytest.approx(same["nats_per_symbol"], rel=1e-5) and set(exact) == set(same)
    assert begun[0]["likelihood"] == {"test": exact}
    took = [one["decoding"]["test"]["passes_per_symbol"] for one in begun]
    assert took[0] == 1.0 > took[1]
    bound = verbs.evaluate(blocks, split="test", data=None, overrides=["search.order=left", "search.block=3"])
    (name,) = bound["splits"]
    low, high = bound["likelihood"][name]["interval"]
    assert exact["nats_per_symbol"] < low < bound["likelihood"][name]["nats_per_symbol"] < high
    assert set(json.loads((blocks / "summary.json").read_text())["likelihood"]) == {"test", name}


def test_a_table_shows_how_likely_the_targets_are(both, capsys):
    assert cli.main(["evaluate", str(both[1]), "search.order=any"]) == 0
    assert "nats per symbol" in (said := capsys.readouterr().out) and "at most" in said


@pytest.mark.parametrize("given", [["search.beam_size=2"], ["search.compile=true"], ["search.drafter=ctc"]])
def test_what_blocks_cannot_do_ends_with_the_code_2(both, capsys, given):
    assert cli.main(["evaluate", str(both[1]), *given]) == 2
    assert given[0].partition("=")[0] in capsys.readouterr().err


def test_runs_of_blocks_do_not_predict_together(both, capsys):
    assert cli.main(["evaluate", str(both[1]), str(both[1])]) == 2
    assert "an ensemble of task translation, strategy.kind blocks" in capsys.readouterr().err


def test_texts_are_judged_by_a_bound_and_continued(folder, tmp_path):
    made = config(folder, {"kind": "blocks", "block": 3}, task="language_model", max_updates=4)
    found = start(made, tmp_path / "run")["splits"]["test"]["bits_per_character"]
    exact = verbs.evaluate(tmp_path / "run", split="test", data=None, overrides=["search.order=verified"])
    (name,) = exact["splits"]
    assert found != exact["splits"][name]["bits_per_character"] > 0.0
    loaded = opening.open_run(tmp_path / "run", [])
    again = opening.open_run(tmp_path / "run", ["search.order=verified"])
    greedy = opening.open_run(tmp_path / "run", ["search.block=1"])
    texts = [loaded.task.from_text(text) for text in ("one tw", "", "three")]
    written = [[best[0][0] for best in one.predict(texts)] for one in (loaded, again, greedy)]
    assert written[1] == written[2] and all(text.startswith("one tw") for text in (one[0] for one in written))


def test_a_decoder_only_model_learns_blocks_and_its_source(folder, tmp_path):
    strategy = {"kind": "blocks", "block": 2, "language_weight": 0.5}
    summary = start(
        config(folder, strategy, backbone={"encoder": "none"}, search={"order": "verified"}), tmp_path / "run"
    )
    assert "bleu" in summary["splits"]["test"]
    assert any("loss_language" in row for row in metrics(tmp_path / "run"))


def test_a_joint_run_has_a_task_of_blocks_and_says_what_each_takes(folder, tmp_path, capsys):
    part = {"task": "translation", "data": {"path": str(folder)}}
    joint = Config.model_validate(
        {
            "task": "multitask",
            "device": "cpu",
            "backbone": {**SMALL, "source_tag": True},
            "tasks": {
                "left": part,
                "blocks": {**part, "strategy": {"kind": "blocks"}, "search": {"order": "any", "threshold": 0.0}},
            },
            "training": {
                "max_updates": 4,
                "validate_every": 2,
                "save_every": 2,
                "log_every": 1,
                "threads": 1,
                "batch_tokens": 128,
                "precision": "float32",
            },
        }
    )
    start(joint, tmp_path / "run")
    assert any("loss_blocks/left_to_right" in row for row in metrics(tmp_path / "run"))
    found = verbs.evaluate(tmp_path / "run", split="test", data=None, overrides=[])
    assert {"left/bleu", "blocks/bleu"} <= set(found["splits"]["test"])
    whole, parts = (
        summary_of(tmp_path / "run"),
        {name: summary_of(tmp_path / "run" / "tasks" / name) for name in joint.tasks},
    )
    for section, figures in (
        ("decoding", {"passes_per_symbol", "milliseconds_per_sentence"}),
        ("likelihood", {"nats_per_symbol"}),
    ):
        for name, part in parts.items():
            own = {f"{name}/{figure}": value for figure, value in part[section]["test"].items()}
            assert figures <= set(part[section]["test"]) and own.items() <= found[section]["test"].items()
            assert set(own) <= set(whole[section]["test"])
    assert whole["decoding"]["test"]["left/passes_per_symbol"] == 1.0
    assert whole["decoding"]["test"]["blocks/passes_per_symbol"] < 1.0
    assert "blocks/interval" in found["likelihood"]["test"] and "left/interval" not in found["likelihood"]["test"]
    assert cli.main(["evaluate", str(tmp_path / "run"), "search.batch_sentences=7"]) == 0
    said = capsys.readouterr().out
    assert (
        "left/passes per symbol" in said and "blocks/ms a sentence" in said and "batch 7" in said and "at most" in said
    )


@pytest.mark.slow
def test_speech_is_learned_in_blocks_with_ctc_beside_and_verified_is_greedy(tmp_path):
    train(tmp_path / "run", task="asr", strategy={"kind": "blocks", "ctc_weight": 0.3})
    assert any("loss_ctc" in row for row in metrics(tmp_path / "run"))
    found = {}
    for asked in ("search.block=1", "search.order=verified"):
        for weight in ("0.0", "0.4"):
            loaded = opening.open_run(tmp_path / "run", [asked, f"search.ctc_weight={weight}"])
            torch.manual_seed(1)
            found[asked, weight] = [best[0][0] for best in loaded.predict(loaded.task.read("test"))]
    for weight in ("0.0", "0.4"):
        assert found["search.block=1", weight] == found["search.order=verified", weight]
