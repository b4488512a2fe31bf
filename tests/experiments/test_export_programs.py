"""What is exported for another program computes the same there; what the program does not know is refused by name."""

import re
from contextlib import suppress

import pytest
import torch

from seq2seq_suite import cli
from seq2seq_suite.config import Config
from seq2seq_suite.experiments.export import export
from seq2seq_suite.experiments.export_transformers import write as write_transformers
from seq2seq_suite.experiments.opening import LoadedRun
from seq2seq_suite.miniworld import rows
from seq2seq_suite.tasks import open_task
from seq2seq_suite.training.build import build_predictor
from seq2seq_suite.types import ConfigError, DataError, Example

PAIRS = [Example(row["en"], row["de"]) for row in rows("translations", "train", size=24)]
SENTENCES = [pair.source for pair in PAIRS[:6]]
TINY = {"width": 16, "feed_forward_width": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}


def settings(**changes):
    """Those of a tiny run; keys of sections are joined by two underscores."""
    given = {"task": "translation", "device": "cpu", "backbone": dict(TINY),
             "translation": {"vocabulary_size": 120}, "search": {"max_length_extra": 6, "max_length_factor": 1.0},
             "training": {"threads": 1, "max_updates": 1, "validate_every": 1, "log_every": 1, "precision": "float32"}}
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


SHAPES = [{}, {"backbone__norm_placement": "post"}, {"backbone__tie_embeddings": False, "backbone__activation": "gelu"},
          {"backbone__norm_placement": "post", "backbone__tie_embeddings": False},
          {"translation__joint": False, "translation__target_subwords": "unigram", "backbone__activation": "gelu"},
          {"translation__joint": False, "backbone__norm_placement": "post", "backbone__tie_embeddings": False}]


@pytest.mark.parametrize("changes", SHAPES, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_transformers_computes_the_same_logits_and_greedy_outputs(tiny, transformers, tmp_path, changes):
    run = tiny(**changes)
    write_transformers(run, tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(model).__name__ == ("MarianMTModel" if changes.get("backbone__norm_placement") == "post" else
                                    "PegasusForConditionalGeneration")
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
def trained(tmp_path_factory):
    """A run directory."""
    import seq2seq_suite as s2s

    folder = tmp_path_factory.mktemp("trained")
    small = settings(data__size=40, translation__lowercase="source")
    return s2s.train(small, output=folder / "run")


def card_of(run, folder, kind):
    assert cli.main(["export", str(run.path), "--to", kind, str(folder)]) == 0
    text = (folder / "README.md").read_text()
    assert f"library_name: {kind}" in text
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    return code.replace("path/to/this/folder", str(folder))


def test_the_lines_in_the_card_for_transformers_run(trained, transformers, tmp_path, capsys):
    code = card_of(trained, tmp_path, "transformers")
    assert len([line for line in code.splitlines() if line]) == 5
    capsys.readouterr()
    exec(code, {})
    assert capsys.readouterr().out.startswith(trained.predict(["The dog sleeps."])[0].text)


@pytest.mark.parametrize(("changes", "named", "program"), [
    ({"backbone__positions": "rotary"}, "backbone.positions rotary", "transformers"),
    ({"backbone__norm": "rms"}, "backbone.norm rms", "transformers"),
    ({"backbone__encoder_kernel": 3}, "backbone.encoder_kernel 3", "transformers"),
    ({"strategy__kind": "ctc"}, "strategy.kind ctc", "transformers"),
    ({"translation__source_subwords": "characters", "translation__target_subwords": "characters"}, "characters",
     "transformers")])
def test_what_a_program_cannot_express_is_refused_by_name(tiny, monkeypatch, tmp_path, changes, named, program):
    run = tiny(**changes)
    monkeypatch.setattr("seq2seq_suite.experiments.export.config_of", lambda *_, **__: run.config)
    monkeypatch.setattr("seq2seq_suite.experiments.export.open_run", lambda *_, **__: run)
    monkeypatch.setattr("seq2seq_suite.experiments.export.card", lambda *_, **__: "")
    with pytest.raises(ConfigError) as caught:
        export(tmp_path / "run", tmp_path / "out", kind=program)
    assert f"{program} cannot express" in caught.value.got and named in caught.value.got
    assert caught.value.expected and caught.value.remedy
    assert not list(tmp_path.glob("out/*"))
