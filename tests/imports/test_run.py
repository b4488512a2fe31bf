"""A run that `import` wrote is one like any other: each verb takes it, and others begin from it."""

import json

import pytest
import torch
from pretrained import TEXTS, write_marian, write_t5

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.imports import checkpoint
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.records import read_provenance, read_summary

SMALL = ["device=cpu", "training.threads=1", "training.max_updates=2", "training.validate_every=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory; beside it `data` with splits, and `pairs.jsonl`."""
    folder = tmp_path_factory.mktemp("imported")
    write_marian(folder / "opus", max_position_embeddings=512)
    words = ["search.beam_size=1", f"data.path={folder / 'data'}"]
    assert cli.main(["import", str(folder / "opus"), "--output", str(folder / "run"), *words]) == 0
    rows = [json.dumps({"en": source, "de": target}) for source, target in zip(*TEXTS.values(), strict=True)]
    (folder / "data").mkdir()
    for split, some in {"train": rows[:8], "validation": rows[8:10], "test": rows[10:12]}.items():
        (folder / "data" / f"{split}.jsonl").write_text("\n".join(some) + "\n")
    return folder / "run"


def test_provenance_has_the_cards_facts_and_the_hash_of_the_weights(run):
    facts = read_provenance(run).model_dump()["imported"]
    assert (facts["family"], facts["name"], facts["licence"]) == ("marian", "opus", "cc-by-4.0")
    assert facts["languages"] == "en, de" and len(facts["sha256 of model.safetensors"]) == 64
    assert read_summary(run).splits == {} and read_summary(run).parameters > 10_000


def test_a_folder_in_the_hubs_cache_has_its_revision(run, tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / commit).symlink_to(run.parent / "opus")
    (run.parent / "opus").rename(tmp_path / commit)
    try:
        assert cli.main(["import", str(tmp_path / commit), "--output", str(tmp_path / "run")]) == 0
    finally:
        (tmp_path / commit).rename(run.parent / "opus")
    assert read_provenance(tmp_path / "run").model_dump()["imported"]["revision"] == commit


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_a_model_of_the_hub_comes_without_bin_where_it_has_safetensors(tmp_path, monkeypatch, weights):
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    (tmp_path / weights).write_bytes(b"")
    asked = []

    def fetched(name, *, without):
        asked.append((name, "*.bin" in without))
        return tmp_path

    monkeypatch.setattr(checkpoint, "fetched", fetched)
    monkeypatch.setattr(checkpoint, "Weights", lambda folder: folder)
    assert checkpoint.Checkpoint.of("owner/opus@v1").name == "owner/opus"
    first = ("hf://owner/opus@v1", True)
    assert asked == [first] if weights.endswith("safetensors") else [first, (first[0], False)]


def test_it_predicts_by_the_command_and_by_the_api(run, capsys):
    assert cli.main(["predict", str(run), TEXTS["en"][0]]) == 0
    assert capsys.readouterr().out.strip() == s2s.load(run).predict([TEXTS["en"][0]])[0].text
    assert cli.main(["import", str(run.parent / "opus"), "--output", str(run)]) == 2
    said = capsys.readouterr().err
    assert "not empty" in said and "--overwrite deletes" in said and "--resume" not in said


@pytest.mark.slow
def test_evaluate_compare_export_and_distill_take_it(run, tmp_path, capsys):
    data = run.parent / "data"
    assert cli.main(["evaluate", str(run)]) == 0
    assert cli.main(["evaluate", str(run), "--data", str(data / "train.jsonl")]) == 0
    assert (run / "predictions" / "test-train.jsonl").is_file()
    other = tmp_path / "again"
    assert cli.main(["import", str(run.parent / "opus"), "--output", str(other), f"data.path={data}"]) == 0
    assert cli.main(["evaluate", str(other)]) == 0
    assert cli.main(["compare", str(run), str(other)]) == 0
    assert "bleu" in capsys.readouterr().out.lower()
    assert cli.main(["export", str(run), "--to", "hub-folder", str(tmp_path / "hub")]) == 0
    assert s2s.load(tmp_path / "hub").predict(TEXTS["en"][:2]) == s2s.load(run).predict(TEXTS["en"][:2])
    card = (tmp_path / "hub" / "README.md").read_text()
    assert "license: cc-by-4.0" in card and "base_model: opus" in card
    assert cli.main(["distill", str(run), "--output", str(tmp_path / "distilled")]) == 0
    assert (tmp_path / "distilled" / "train.jsonl").is_file()


def test_ctranslate2_gives_the_same_outputs(run, capsys):
    pytest.importorskip("ctranslate2", reason="comes with the extra `ctranslate2`")
    said = []
    for engine in ("pytorch", "ctranslate2"):
        assert cli.main(["predict", str(run), "--engine", engine, *TEXTS["en"][:2]]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


BEGUN = {
    "further": ["init_parts=[all]"],
    "low": ["init_parts=[all]", "backbone.lora.rank=2"],
    "ctc": ["strategy.kind=ctc", "strategy.factor=2.0"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BEGUN)
def test_training_begins_from_it(run, tmp_path, kind):
    words = [*SMALL, *BEGUN[kind], f"init_from={run}", "data.max_length=100", "training.learning_rate=1e-12"]
    assert cli.main(["run", str(run / "config.yaml"), *words, "--output", str(tmp_path / "run")]) == 0
    ours, theirs = (open_run(one, ["device=cpu"]).predictor.model for one in (tmp_path / "run", run))
    torch.testing.assert_close(ours.encoder.state_dict(), theirs.encoder.state_dict())
    assert (tmp_path / "run" / "vocabulary" / "source.model").is_file()


LABELS = ["multilabel.encoding=pieces", "search.max_length_factor=1.0", "training.learning_rate=1e-12"]


@pytest.mark.slow
def test_a_task_of_labels_begins_from_its_front_end_and_encoder(run, tmp_path):
    rows = [json.dumps({"text": text, "labels": [text.split()[0].lower()]}) for text in TEXTS["en"][:8]]
    (tmp_path / "data").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    config = open_run(run, ["device=cpu"]).config.backbone.model_dump()
    summary = s2s.train(
        {"task": "multilabel", "backbone": config, "data": {"path": str(tmp_path / "data"), "max_length": 100}},
        output=tmp_path / "run",
        settings=[*SMALL, *LABELS, f"init_from={run}"],
    )
    ours, theirs = (open_run(one, ["device=cpu"]) for one in (tmp_path / "run", run))
    torch.testing.assert_close(ours.predictor.model.frontend.state_dict(), theirs.predictor.model.frontend.state_dict())
    text = TEXTS["en"][0].lower()
    assert (
        ours.task.source.encode(tuple(text.split()), {}).tolist()[1:]
        == theirs.task.source.encode(text, {}).tolist()[:-1]
    )
    assert summary.predict([text])


@pytest.mark.slow
def test_training_goes_on_from_t5(tmp_path):
    write_t5(tmp_path / "t5", gated=True)
    assert cli.main(["import", str(tmp_path / "t5"), "--output", str(tmp_path / "run")]) == 0
    rows = [
        json.dumps({"source": f"translate: {one}", "target": two}) for one, two in zip(*TEXTS.values(), strict=True)
    ]
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows[:8]) + "\n")
    begun = open_run(tmp_path / "run", ["device=cpu"]).config.model_dump()
    kept = {key: begun[key] for key in ("task", "backbone", "translation", "search", "data")}
    kept["data"]["path"], settings = str(tmp_path), ["init_parts=[all]", f"init_from={tmp_path / 'run'}"]
    s2s.train(kept, output=tmp_path / "further", settings=[*SMALL, *settings, "training.learning_rate=1e-12"])
    ours, theirs = (
        open_run(tmp_path / one, ["device=cpu"]).predictor.learner.state_dict() for one in ("further", "run")
    )
    assert ours.keys() == theirs.keys()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_summaries_begin_from_its_pieces_and_its_weights(run, tmp_path):
    rows = [json.dumps({"text": text, "summary": text.split()[-1]}) for text in TEXTS["en"][:8]]
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    config = open_run(run, ["device=cpu"]).config.backbone.model_dump()
    begun = s2s.train(
        {"task": "summarisation", "backbone": config, "data": {"path": str(tmp_path), "max_length": 100}},
        output=tmp_path / "run",
        settings=[*SMALL, "summarisation.subwords=imported", "search.max_length_factor=1.0", f"init_from={run}"],
    )
    assert begun.predict([TEXTS["en"][0]]) == s2s.load(tmp_path / "run").predict([TEXTS["en"][0]])
    assert (tmp_path / "run" / "vocabulary" / "target.json").is_file()
