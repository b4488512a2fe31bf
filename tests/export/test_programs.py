"""What is exported for another program computes the same there; what the program does not know is refused by name."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from daily import daily

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config.schema import Config
from seq2seq_suite.export.ctranslate2_engine import with_engine
from seq2seq_suite.export.hub import export
from seq2seq_suite.export.transformers_models import write as write_transformers
from seq2seq_suite.miniworld import rows
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.prediction.open_task import open_task

PAIRS = [Example(row["en"], row["de"]) for row in rows("translations", "train", size=24)]
SENTENCES = [pair.source for pair in PAIRS[:6]]
TINY = {"width": 16, "feed_forward_width": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}


def settings(**changes):
    """Those of a tiny run; keys of sections are joined by two underscores."""
    given = {
        "task": "translation",
        "device": "cpu",
        "backbone": dict(TINY),
        "translation": {"vocabulary_size": 120},
        "search": {"max_length_extra": 6, "max_length_factor": 1.0},
        "training": {"threads": 1, "max_updates": 1, "validate_every": 1, "log_every": 1, "precision": "float32"},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        given.setdefault(section, {})[name] = value
    return given


@pytest.fixture
def tiny(roughen):
    """A factory of runs with random weights."""

    def make(**changes):
        torch.manual_seed(1)
        config = Config.model_validate(settings(**changes))
        task = open_task(config.task, config)
        task.fit(PAIRS)
        predictor = build_predictor(config, task, device=torch.device("cpu"))
        roughen(predictor.learner, noise=0.1)
        predictor.learner.eval()
        return LoadedRun(config, predictor)

    return make


@pytest.fixture(scope="module")
def transformers():
    from seq2seq_suite.data.torchaudio_import import load_torchaudio

    found = pytest.importorskip("transformers", reason="comes with the extra `transformers`")
    with suppress(DataError):
        load_torchaudio()  # where it is installed, transformers imports it, and it may be made for CUDA
    return found


def outputs(run, sentences=SENTENCES):
    return [found[0][0] for found in run.predict([run.task.from_text(text) for text in sentences])]


def logits(run, source, target_in):
    with torch.no_grad():
        return run.predictor.model(source, torch.ones_like(source, dtype=torch.bool), target_in)


SHAPES = [
    {},
    {"backbone__norm_placement": "post", "backbone__activation": "swish"},
    {"backbone__tie_embeddings": False, "backbone__activation": "gelu"},
    {"backbone__norm_placement": "post", "backbone__tie_embeddings": False},
    {"translation__joint": False, "translation__target_subwords": "unigram", "backbone__activation": "gelu"},
    {"translation__joint": False, "backbone__norm_placement": "post", "backbone__tie_embeddings": False},
    {"strategy__kind": "blocks", "search__order": "verified"},
]


@pytest.mark.parametrize("changes", SHAPES, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_transformers_computes_the_same_logits_and_greedy_outputs(tiny, transformers, tmp_path, changes):
    run = tiny(**changes)
    write_transformers(run, tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(model).__name__ == (
        "MarianMTModel" if changes.get("backbone__norm_placement") == "post" else "PegasusForConditionalGeneration"
    )
    batch = tokenizer([SENTENCES[0]], return_tensors="pt")
    assert batch["input_ids"][0].tolist() == run.task.source.encode(SENTENCES[0], {}).tolist()
    target_in = torch.tensor([[1, 7, 9, 30, 8]])
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=target_in).logits
    wanted = logits(run, batch["input_ids"], target_in)
    assert (theirs[..., : wanted.size(-1)] - wanted).abs().max() < 1e-5
    for text, ours in zip(SENTENCES[:2], outputs(run, SENTENCES[:2]), strict=True):
        batch = tokenizer([text], return_tensors="pt")
        found = model.generate(**batch, max_length=batch["input_ids"].size(1) + 7)  # BEGIN, and the suite's limit
        assert tokenizer.batch_decode(found, skip_special_tokens=True) == [ours]


@pytest.fixture(scope="module")
def ctranslate2():
    return pytest.importorskip("ctranslate2", reason="comes with the extra `ctranslate2`")


MORE = [
    *SHAPES,
    {"backbone__norm": "rms", "backbone__activation": "swiglu"},
    {"backbone__positions": "learned"},
    {"backbone__norm": "rms", "backbone__norm_placement": "post"},
    {"translation__source_subwords": "characters", "translation__target_subwords": "characters"},
]


@pytest.mark.parametrize("changes", MORE, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_ctranslate2_finds_the_same_greedy_outputs_with_the_same_scores(tiny, ctranslate2, tmp_path, changes):
    run = tiny(**changes)
    examples = [run.task.from_text(text) for text in SENTENCES]
    ours, theirs = (list(one.predict(examples)) for one in (run, with_engine(run, tmp_path, "ctranslate2")))
    assert [found[0][0] for found in theirs] == [found[0][0] for found in ours]
    limit = [
        int(run.predictor.options.max_length_factor * len(one.source)) + run.predictor.options.max_length_extra
        for one in run.task.encode(examples)
    ]
    for one, other, most in zip(ours, theirs, limit, strict=True):
        if len(run.task.target.encode(one[0][0], {})) < most - 1:  # END was not forced
            assert other[0][1] == pytest.approx(one[0][1], abs=1e-4)


def test_an_engine_gives_several_hypotheses_ranked_by_the_suites_scores(tiny, ctranslate2, tmp_path):
    run = with_engine(tiny(), tmp_path, "ctranslate2-int8")
    for found in run.predict([run.task.from_text(text) for text in SENTENCES], num_hypotheses=3):
        scores = [score for _, score in found]
        assert len(found) == 3 and scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("changes", "engine", "named"),
    [
        ({}, "onnx", "--engine onnx"),
        ({"search__sampling": True}, "ctranslate2", "search.sampling"),
        ({"search__no_repeat_ngram": 2}, "ctranslate2", "search.no_repeat_ngram"),
        ({"strategy__kind": "blocks"}, "ctranslate2", "search.order left"),
        ({"backbone__norm": "power"}, "ctranslate2", "backbone.norm power"),
        ({"backbone__positions": "alibi"}, "ctranslate2-int8", "backbone.positions alibi"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_by_name(tiny, ctranslate2, tmp_path, changes, engine, named):
    with pytest.raises(ConfigError) as caught:
        with_engine(tiny(**changes), tmp_path, engine)
    assert named in caught.value.got and caught.value.expected and caught.value.remedy


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory."""
    import seq2seq_suite as s2s

    folder = tmp_path_factory.mktemp("trained")
    small = settings(data__size=40, translation__lowercase="source")
    return s2s.train(small, output=folder / "run")


def test_the_half_of_blocks_that_is_exported_is_named(tiny, monkeypatch, tmp_path, capsys):
    run, folder = tiny(strategy__kind="blocks"), tmp_path / "out"
    monkeypatch.setattr("seq2seq_suite.export.hub.config_of", lambda *_, **__: run.config)
    monkeypatch.setattr("seq2seq_suite.export.hub.open_run", lambda *_, **__: run)
    monkeypatch.setattr("seq2seq_suite.export.hub.best", lambda path: path)
    monkeypatch.setattr("seq2seq_suite.export.hub.load_tensors", lambda path: {})
    summary = {"task": "translation", "primary_metric": "bleu", "higher_is_better": True, "splits": {}, "failures": {}}
    summary |= {"formula": "", "signature": "", "updates": 1, "tokens": 1, "seconds": 1.0, "tokens_per_second": 1.0}
    (tmp_path / "summary.json").write_text(json.dumps(summary | {"parameters": 1, "core_parameters": 1}))
    export(tmp_path, folder, kind="transformers")
    assert "left-to-right half" in capsys.readouterr().err
    assert "`blocks`; of blocks this is the left-to-right half" in (folder / "README.md").read_text()


def card_of(run, folder, kind):
    assert cli.main(["export", str(run.path), "--to", kind, str(folder)]) == 0
    text = (folder / "README.md").read_text()
    assert f"library_name: {'seq2seq_suite' if kind == 'hub-folder' else kind}" in text
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    return code.replace("path/to/this/folder", str(folder))


@pytest.mark.parametrize(
    ("kind", "most"), daily([("transformers", 7), ("ctranslate2", 6), ("hub-folder", 3)], ("ctranslate2", 6))
)
def test_the_lines_in_the_card_run_in_a_fresh_process_beside_a_torchaudio_that_cannot_be_loaded(
    trained, tmp_path, kind, most
):
    if kind != "hub-folder":
        pytest.importorskip(kind, reason=f"comes with the extra `{kind}`")
    code = card_of(trained, tmp_path / "exported", kind)
    assert len([line for line in code.splitlines() if line]) <= most
    broken = tmp_path / "modules" / "torchaudio" / "__init__.py"  # as one made for CUDA beside a CPU's PyTorch
    broken.parent.mkdir(parents=True)
    broken.write_text("raise OSError('Could not load this library')")
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{broken.parents[1]}:{Path(cli.__file__).parents[2]}"},
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(trained.predict(["The dog sleeps."])[0].text)


def test_predict_takes_an_engine(trained, ctranslate2, capsys):
    assert cli.main(["predict", str(trained.path), "--engine", "ctranslate2", "The dog sleeps."]) == 0
    assert capsys.readouterr().out.strip() == trained.predict(["The dog sleeps."])[0].text
    assert cli.main(["predict", str(trained.path), str(trained.path), "--engine", "ctranslate2", "The dog."]) == 2
    assert "several runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "named", "program"),
    [
        ({"backbone__positions": "rotary"}, "backbone.positions rotary", "transformers"),
        ({"backbone__norm": "rms"}, "backbone.norm rms", "transformers"),
        ({"backbone__encoder_kernel": 3}, "backbone.encoder_kernel 3", "transformers"),
        ({"strategy__kind": "ctc"}, "strategy.kind ctc", "transformers"),
        ({"strategy__kind": "blocks", "strategy__joint": 0.0}, "strategy.joint 0", "transformers"),
        (
            {"translation__source_subwords": "characters", "translation__target_subwords": "characters"},
            "characters",
            "transformers",
        ),
    ],
)
def test_what_a_program_cannot_express_is_refused_by_name(tiny, monkeypatch, tmp_path, changes, named, program):
    run = tiny(**changes)
    monkeypatch.setattr("seq2seq_suite.export.hub.config_of", lambda *_, **__: run.config)
    monkeypatch.setattr("seq2seq_suite.export.hub.open_run", lambda *_, **__: run)
    monkeypatch.setattr("seq2seq_suite.export.hub.card", lambda *_, **__: "")
    with pytest.raises(ConfigError) as caught:
        export(tmp_path / "run", tmp_path / "out", kind=program)
    assert f"{program} cannot express" in caught.value.got and named in caught.value.got
    assert caught.value.expected and caught.value.remedy
    assert not list(tmp_path.glob("out/*"))
