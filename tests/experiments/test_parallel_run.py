"""Runs of every parallel decoder end to end: trained, judged, resumed, in both precisions."""

import itertools
import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from making import parallel_kinds, strategy_of

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.types import END
from seq2seq_suite.config.config_file import dump
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.experiments import verbs
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.strategies import options_of
from seq2seq_suite.strategies.assisted import Assisted

KINDS = {
    kind: {"glancing": (0.5, 0.5)} if "glancing" in options_of(kind).model_fields else {} for kind in parallel_kinds()
} | {"dag": {"glancing": (0.5, 0.5), "factor": 3.0}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for split in ("train", "validation", "test"):
        words = ["one", "two", "three", "four", "five", "six", "seven"]
        rows = [
            {"src": " ".join(words[first : first + 3]), "tgt": " ".join(words[first : first + 2][::-1]).upper()}
            for first in range(5)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 4))
    return folder


def config(folder, kind: str, *, max_updates: int = 4, precision: str = "float32") -> Config:
    return Config.model_validate(
        {
            "task": "translation",
            "device": "cpu",
            "data": {"path": str(folder)},
            "translation": {"source_subwords": "characters", "target_subwords": "characters", "joint": False},
            "backbone": {
                "width": 16,
                "feed_forward_width": 16,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "strategy": {"kind": kind, **KINDS[kind]},
            "search": {"beam_size": 1 if kind == "cut_at_end" else 2},
            "training": {
                "max_updates": max_updates,
                "batch_tokens": 128,
                "precision": precision,
                "schedule": "constant",
                "warmup_updates": 1,
                "validate_every": 2,
                "save_every": 2,
                "log_every": 1,
                "threads": 1,
            },
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumed_halfway_equals_one_in_a_go(folder, tmp_path, kind):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    summary = verbs.run(config(folder, kind), whole, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, kind, max_updates=2), parts, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, kind), parts, resume=True, overwrite=False, command=["run"])
    one, other = ((path / "checkpoints" / "last" / "model.safetensors").read_bytes() for path in (whole, parts))
    assert one == other
    assert set(summary["splits"]["test"]) >= {"bleu", "chrf"}
    again = verbs.evaluate(whole, split="test", data=None, overrides=["search.beam_size=1"])
    (name,) = again["failures"]
    assert name in ("test", "test@beam_size=1")  # those whose own beam is of another size
    assert set(again["failures"][name]) == {"invalid", "empty", "repeated", "truncated"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_run_multiplies_in_bfloat16_and_its_losses_are_finite(folder, tmp_path, monkeypatch, kind):
    encode, seen = Seq2Seq.encode, []
    monkeypatch.setattr(
        Seq2Seq,
        "encode",
        lambda model, batch: (
            seen.append((model.training, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            or encode(model, batch)
        ),
    )
    verbs.run(
        config(folder, kind, max_updates=2, precision="bfloat16"),
        tmp_path / "run",
        resume=False,
        overwrite=False,
        command=["run"],
    )
    assert {(training, low) for training, low, _ in seen} == {(True, True), (False, False)}  # decoding is exact
    assert {kind for _, low, kind in seen if low} == {torch.bfloat16}
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [value for row in rows for name, value in row.items() if name.startswith("loss_")]
    assert len(losses) >= 4 and all(isinstance(value, float) and math.isfinite(value) for value in losses)


def test_a_run_writes_its_targets_anew_for_another_to_learn_from(folder, tmp_path, capsys):
    teacher, distilled = tmp_path / "teacher", tmp_path / "distilled"
    left_to_right = config(folder, "ctc").model_copy(update={"strategy": Config(task="translation").strategy})
    verbs.run(left_to_right, teacher, resume=False, overwrite=False, command=["run"])
    distilled.mkdir()  # an empty folder will do
    assert cli.main(["distill", str(teacher), "--output", str(distilled), "search.beam_size=1"]) == 0
    rows = {
        split: [json.loads(line) for line in (distilled / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "validation", "test")
    }
    original = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    assert rows["validation"] == rows["test"] == original
    assert [row["src"] for row in rows["train"]] == [row["src"] for row in original]
    facts = json.loads((distilled / "provenance.json").read_text())
    kept = sum(row["tgt"] == old["tgt"] for row, old in zip(rows["train"], original, strict=True))
    assert facts["rows"] == 20 and facts["empty"] <= kept and facts["search"]["beam_size"] == 1
    assert len(facts["teacher_weights_sha256"]) == 64 and "bleu" in facts["against_references"]
    capsys.readouterr()
    pupil = config(distilled, "ctc")
    pupil = pupil.model_copy(update={"strategy": pupil.strategy.model_copy(update={"factor": 15.0})})  # long outputs
    verbs.run(pupil, tmp_path / "pupil", resume=False, overwrite=False, command=["run"])
    assert "usually gains" not in capsys.readouterr().out
    verbs.run(config(folder, "ctc"), tmp_path / "raw", resume=False, overwrite=False, command=["run"])
    assert "usually gains" in capsys.readouterr().out
    assert cli.main(["distill", str(teacher), "--output", str(distilled)]) == 2
    below = distilled / "train.jsonl" / "folder"  # a file stands where a folder belongs
    assert cli.main(["distill", str(teacher), "--output", str(below), "search.beam_size=1"]) == 2
    assert "the folder is not empty" in capsys.readouterr().err


def test_a_teacher_translates_sources_that_nobody_has_translated(folder, tmp_path, capsys):
    teacher, distilled, more = tmp_path / "teacher", tmp_path / "distilled", tmp_path / "more.txt"
    left_to_right = config(folder, "ctc").model_copy(update={"strategy": Config(task="translation").strategy})
    verbs.run(left_to_right, teacher, resume=False, overwrite=False, command=["run"])
    known = [json.loads(line)["src"] for line in (folder / "train.jsonl").read_text().splitlines()]
    new = [f"{first} {second}" for first, second in itertools.pairwise(known[:5])]
    more.write_text("\n".join([*known[:3], *new, *new[:2]]) + "\n")
    capsys.readouterr()
    assert cli.main(["distill", str(teacher), "--output", str(distilled), "--sources", str(more)]) == 0
    assert f"{more}: " in capsys.readouterr().out
    rows = [json.loads(line) for line in (distilled / "train.jsonl").read_text().splitlines()]
    counts = json.loads((distilled / "provenance.json").read_text())["more_sources"][str(more)]
    assert [row["src"] for row in rows[:20]] == known
    assert len(rows) == 20 + counts["rows"] and counts["rows"] + counts["empty"] == len(new) and counts["known"] == 5
    assert cli.main(["predict", str(teacher), *(row["src"] for row in rows[20:])]) == 0
    assert [row["tgt"] for row in rows[20:]] == capsys.readouterr().out.splitlines()
    more.write_text("a\n\nb\n")
    assert cli.main(["distill", str(teacher), "--output", str(tmp_path / "no"), "--sources", str(more)]) == 2
    assert f"{more}:2: the input is empty" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("task", "malformed"),
    [
        ("parsing", False),
        pytest.param("parsing", True, marks=pytest.mark.slow),
        pytest.param("tagging", False, marks=pytest.mark.slow),
        pytest.param("multilabel", False, marks=pytest.mark.slow),
    ],
)
def test_trees_tags_and_labels_are_written_anew_and_learned_from(folder, tmp_path, capsys, task, malformed):
    like = config(folder, "ctc", max_updates=2).model_dump(include={"device", "backbone", "training"})
    keys = {**like, "task": task, "data": {"size": 20, "test_splits": ["validation"]}, "search": {"beam_size": 1}}
    teacher, distilled, more = tmp_path / "teacher", tmp_path / "distilled", tmp_path / "more.txt"
    verbs.run(Config.model_validate(keys), teacher, resume=False, overwrite=False, command=["run"])
    more.write_text("The dog sees Maria .\nThe dog sees Maria .\n")
    command = ["distill", str(teacher), "--output", str(distilled), "--sources", str(more)]
    assert cli.main([*command, *["search.constraint=false"] * malformed]) == 0
    facts = json.loads((distilled / "provenance.json").read_text())
    assert facts["empty"] == (20 if malformed else 0)  # no tree of two updates is one by chance
    assert facts["more_sources"][str(more)] == {"rows": int(not malformed), "known": 1, "empty": int(malformed)}
    pupil = {**keys, "data": {"path": str(distilled), "test_splits": ["validation"]}}
    verbs.run(Config.model_validate(pupil), tmp_path / "pupil", resume=False, overwrite=False, command=["run"])
    assert f"training on {21 - malformed} examples" in capsys.readouterr().out


def test_an_autoregressive_run_chooses_among_the_outputs(folder, tmp_path, capsys):
    teacher, pupil = tmp_path / "teacher", tmp_path / "pupil"
    left_to_right = config(folder, "ctc").model_copy(update={"strategy": Config(task="translation").strategy})
    verbs.run(left_to_right, teacher, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, "length_head"), pupil, resume=False, overwrite=False, command=["run"])
    loaded = opening.open_run(pupil, ["search.beam_size=4", f"search.rescorer={teacher}"])
    examples = loaded.task.read("test")[:5]
    found = loaded.predictor.hypotheses(loaded.task.encode(examples))
    free = opening.open_run(pupil, ["search.beam_size=4", "search.num_hypotheses=4"])
    candidates = free.predictor.hypotheses(free.task.encode(examples))
    scorer = opening.open_run(teacher, [])
    for example, (best,), others in zip(examples, found, candidates, strict=True):
        batch = collate(scorer.task.encode([example]), "translation")
        scores = []
        for one in others:
            target = torch.tensor([[*one.symbols, END]])
            single = replace(batch, target=target, target_mask=target > 0, given=target < 0)
            loss = strategy_of(Assisted).eval().loss(scorer.predictor.model, single).sums["cross_entropy"]
            scores.append(float(loaded.predictor.options.normalise(-loss.detach(), target.size(1))))
        assert best.symbols == others[scores.index(max(scores))].symbols
        assert best.score == pytest.approx(max(scores), abs=1e-4)
    assert cli.main(["evaluate", str(pupil), f"search.rescorer={pupil}"]) == 2
    assert "an autoregressive run" in capsys.readouterr().err
    itself = opening.open_run(teacher, [f"search.rescorer={teacher}"])  # it is asked without one of its own
    assert itself.predictor.rescorer is not None


def test_other_runs_draft_what_is_written_left_to_right(folder, tmp_path, capsys):
    writer, parallel, smaller = (tmp_path / name for name in ("writer", "parallel", "smaller"))
    left_to_right = config(folder, "ctc").model_copy(update={"strategy": Config(task="translation").strategy})
    narrow = {"backbone": left_to_right.backbone.model_copy(update={"width": 8}), "seed": 2}
    verbs.run(left_to_right, writer, resume=False, overwrite=False, command=["run"])
    verbs.run(left_to_right.model_copy(update=narrow), smaller, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, "ctc"), parallel, resume=False, overwrite=False, command=["run"])
    greedy = ["search.beam_size=1"]
    alone = opening.open_run(writer, greedy)
    encoded = alone.task.encode(alone.task.read("test")[:8])
    expected = [row[0].symbols for row in alone.predictor.hypotheses(encoded)]
    for drafter, more in ((parallel, []), (smaller, []), (smaller, ["search.compile=true"])):
        drafted = opening.open_run(writer, [*greedy, f"search.drafter={drafter}", *more])
        options = drafted.predictor.drafter.options
        assert (options.beam_size, options.compile) == (1 if drafter == smaller else 2, bool(more))
        assert [row[0].symbols for row in drafted.predictor.hypotheses(encoded)] == expected
    threads = torch.get_num_threads()
    opening.open_run(writer, [*greedy, f"search.drafter={smaller}", "training.threads=2"])  # the drafter's own has 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    own = writer / "config.yaml"
    own.write_text(own.read_text().replace("threads: 1", "threads: 2"))
    opening.open_together([writer, smaller], greedy)  # the second one's own has 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)
    assert cli.main(["evaluate", str(writer), *greedy, f"search.drafter={parallel}", "search.compile=true"]) == 2
    assert "a drafter that writes left to right" in capsys.readouterr().err
    assert cli.main(["evaluate", str(writer), f"search.drafter={parallel}", "search.beam_size=2"]) == 2
    assert "search.beam_size" in capsys.readouterr().err
    assert cli.main(["evaluate", str(writer), *greedy, "search.drafter=ctc"]) == 2
    assert "expected: a task that transcribes speech" in capsys.readouterr().err


def test_a_run_that_cannot_choose_is_refused_before_the_training(folder, tmp_path):
    def refused(message: str, **changes) -> None:
        given = config(folder, "ctc").model_dump()
        given = {**given, **changes, "search": {**given["search"], "rescorer": str(tmp_path / "other")}}
        given = {key: value for key, value in given.items() if value is not None}
        with pytest.raises((ConfigError, DataError), match=message):
            verbs.run(Config.model_validate(given), tmp_path / "run", resume=False, overwrite=True, command=[])
        assert not (tmp_path / "run" / "metrics.jsonl").exists()

    refused("not a run directory")
    left_to_right = config(folder, "ctc", max_updates=1).model_copy(update={"strategy": Config(task="qa").strategy})
    verbs.run(left_to_right, tmp_path / "other", resume=False, overwrite=False, command=["run"])
    refused("its task is translation", task="qa", translation=None)
    refused(
        "its vocabulary differs",
        translation={"source_subwords": "characters", "target_subwords": "characters", "joint": True},
    )
    shutil.rmtree(tmp_path / "other" / "checkpoints")
    refused("no checkpoint")
    written = tmp_path / "other" / "config.yaml"
    written.write_text(dump(config(folder, "ctc")))
    refused("its strategy is ctc")


def test_a_guided_run_cannot_choose(tmp_path):
    """The scorer reads whole outputs, without the constraint that would guide its decoder."""
    small = {"width": 16, "feed_forward_width": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    common = {
        "task": "tagging",
        "device": "cpu",
        "data": {"size": 20, "test_splits": ()},
        "backbone": small,
        "training": {"max_updates": 1, "validate_examples": 2, "threads": 1},
    }
    verbs.run(Config.model_validate(common), tmp_path / "guided", resume=False, overwrite=False, command=["run"])
    choosing = Config.model_validate(
        {**common, "strategy": {"kind": "length_head"}, "search": {"rescorer": str(tmp_path / "guided")}}
    )
    with pytest.raises(ConfigError, match="its decoder is guided, as that of task tagging is"):
        verbs.run(choosing, tmp_path / "run", resume=False, overwrite=False, command=["run"])
    assert not (tmp_path / "run").exists()
