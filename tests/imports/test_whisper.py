"""A run of an imported WhisperForConditionalGeneration computes what transformers does, from the samples on."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from pretrained import TEXTS, changed_run, moved, need_transformers, taught, write_bart, write_whisper
from safetensors.torch import load_file, save_file

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN, END
from seq2seq_suite.data.audio import RATE, Recording, WhisperLogMel
from seq2seq_suite.data.batching import collate
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.weights import MODEL
from seq2seq_suite.tasks.speech_translation import Translated

soundfile = pytest.importorskip("soundfile", reason="comes with the extra `speech`")
ODD = {
    "d_model": 18,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "encoder_layers": 3,
    "decoder_layers": 1,
    "max_target_positions": 51,
    "scale_embedding": True,
}
KINDS = {"multilingual": {}, "English, odd": {"multilingual": False, "bins": 128, **ODD}}
ALONE = ["device=cpu", "training.threads=1", "strategy.label_smoothing=0.0"]


def taken(folder, output, *words, changes=()):
    assert cli.main(["import", str(folder), "--output", str(output), *words]) == 0
    return open_run(output, [*ALONE, *changes])


def sounds():
    """Samples of a tone in noise, of noise that ends early, and of a whole window."""
    chance = np.random.default_rng(7)
    tone = 0.3 * np.sin(np.arange(2 * RATE) * (2 * np.pi * 440 / RATE)) + 0.01 * chance.standard_normal(2 * RATE)
    return [
        one.astype(np.float32)
        for one in (tone, 0.1 * chance.standard_normal(5 * RATE // 3), 0.2 * chance.standard_normal(30 * RATE))
    ]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Files of the samples, and the samples."""
    folder, made = tmp_path_factory.mktemp("sounds"), sounds()
    for number, samples in enumerate(made):
        soundfile.write(folder / f"{number}.wav", samples, RATE, subtype="FLOAT")
    return [str(folder / f"{number}.wav") for number in range(len(made))], made


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """One model as transformers has it, with its tokenizer, and as a run; and the folder with both."""
    folder = tmp_path_factory.mktemp(request.param.replace(", ", "-"))
    model = write_whisper(folder / "theirs", **KINDS[request.param])
    words = ["--language", "de"] if request.param == "multilingual" else []
    run = taken(folder / "theirs", folder / "run", *words, f"audio.cache={folder / 'features'}")
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(folder / "theirs")
    tokenizer.set_prefix_tokens(**({"language": "de", "task": "transcribe"} if words else {}), predict_timestamps=False)
    return model, tokenizer, run, folder


def features(pair, samples):
    extractor = need_transformers().WhisperFeatureExtractor.from_pretrained(pair[3] / "theirs")
    return extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features


def both(pair, recordings, texts):
    """A batch of both: the suite's, and what transformers' model is called with."""
    _, tokenizer, run, _ = pair
    names, samples = recordings
    examples = [Example(Recording(name), text) for name, text in zip(names, texts, strict=False)]
    ids = tokenizer(texts, return_tensors="pt", padding=True)
    labels = ids["input_ids"].masked_fill(ids["attention_mask"] == 0, -100)[:, 1:]  # without the decoder's first input
    theirs = {"input_features": features(pair, samples[: len(texts)]), "labels": labels}
    return collate(run.task.encode(examples), run.task.name), theirs


@pytest.mark.parametrize("bins", [80, 128])
def test_features_are_those_of_their_extractor(bins):
    extractor = need_transformers().WhisperFeatureExtractor(feature_size=bins)
    for samples in [*sounds(), np.zeros(100, dtype=np.float32)]:
        wanted = extractor(samples, sampling_rate=RATE, return_tensors="np").input_features[0].T
        found = WhisperLogMel(bins)(samples)
        assert found.shape == (3000, bins) and found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-4)


def test_the_tokenizers_agree(pair):
    _, tokenizer, run, _ = pair
    target = run.task.target
    for text in [*TEXTS["en"][:10], " The dog – sees it!", "Жук!"]:
        ids, theirs = target.encode(text, {}), tokenizer(text)["input_ids"]
        assert [target.pieces.rows[number] for number in [BEGIN, *ids, END]] == theirs
        assert target.pieces.decode(ids) == tokenizer.decode(theirs, skip_special_tokens=True).strip()


def test_logits_and_loss_are_equal_in_a_batch_and_alone(pair, recordings):
    model, _, run, _ = pair
    learner = run.predictor.learner
    for texts in (TEXTS["de"][:3], TEXTS["de"][3:4]):
        batch, theirs = both(pair, recordings, texts)
        with torch.no_grad():
            wanted, loss = model(**theirs), learner(batch)
            begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
            logits = learner.model(batch.source, batch.source_mask, begun)
        picked = logits.log_softmax(-1)[batch.target_mask].gather(1, batch.target[batch.target_mask].unsqueeze(1))
        labels = theirs["labels"]
        expected = wanted.logits.log_softmax(-1)[labels != -100].gather(1, labels[labels != -100].unsqueeze(1))
        torch.testing.assert_close(picked, expected, rtol=0, atol=5e-4)
        ((name, total),) = loss.sums.items()
        assert float(total) / int(loss.counts[name]) == pytest.approx(float(wanted.loss), abs=1e-4)


def test_gradients_are_equal(pair, recordings, tmp_path):
    """Theirs are written in the place of weights, and imported as those were."""
    model, _, run, folder = pair
    batch, theirs = both(pair, recordings, TEXTS["de"][:2])
    model.zero_grad()
    model(**theirs).loss.backward()
    shutil.copytree(folder / "theirs", tmp_path / "gradients")
    weights = load_file(folder / "theirs" / MODEL)
    given = {name: parameter.grad for name, parameter in model.named_parameters(remove_duplicate=False)}
    made = {name: one if given.get(name) is None else given[name].contiguous() for name, one in weights.items()}
    save_file(made, tmp_path / "gradients" / MODEL, metadata={"format": "pt"})
    wanted = dict(taken(tmp_path / "gradients", tmp_path / "run").predictor.model.named_parameters())
    learner = run.predictor.learner
    learner.zero_grad()
    loss = learner(batch)
    ((name, total),) = loss.sums.items()
    (total / loss.counts[name]).backward()
    checked = 0
    for name, parameter in learner.model.named_parameters():
        if name == "output.bias":  # theirs is fixed
            continue
        found, expected = parameter.grad, wanted[name].detach()
        if name == "embedding.weight":  # of END's row there are two more, which nothing reads
            found, expected = (torch.cat((one[1:3], one[4:])) for one in (found, expected))
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=2e-5, msg=lambda said, name=name: f"{name}: {said}")
        checked += float(expected.abs().max()) > 1e-4
    assert checked > 20


def generated(pair, samples, **options):
    """Their output's ids behind the prompt."""
    model, tokenizer, _, _ = pair
    prompt = torch.tensor([tokenizer.prefix_tokens])
    found = need_transformers().GenerationMixin.generate(  # without what Whisper's adds for timestamps and long sounds
        model,
        features(pair, samples),
        decoder_input_ids=prompt,
        max_length=model.config.max_target_positions,
        **{"suppress_tokens": [model.config.decoder_start_token_id], **options},
    )
    return found[0, prompt.size(1) :].tolist()


def test_greedy_outputs_are_equal(pair, recordings):
    _, _, run, _ = pair
    names, made = recordings
    examples = [run.task.from_text(name) for name in names[:2]]
    found = run.predictor.hypotheses(run.task.encode_beginnings(examples), examples)
    for samples, hypotheses in zip(made, found, strict=False):
        begins, rows = len(run.task.target.begins), run.task.target.pieces.rows
        ours, theirs = [rows[number] for number in hypotheses[0].symbols[begins:]], generated(pair, samples)
        assert len(theirs) > 40 and ours[: len(theirs)] == theirs


def outputs(run, names, rows):
    """Their numbers of the best outputs behind the prompt."""
    examples = [run.task.from_text(name) for name in names]
    found = run.predictor.hypotheses(run.task.encode_beginnings(examples), examples)
    return [[rows[number] for number in one[0].symbols[len(run.task.target.begins) :]] for one in found]


@pytest.mark.parametrize("beams", [1, 3])
def test_symbols_that_a_checkpoint_suppresses_are_in_no_output_as_theirs(pair, recordings, tmp_path, beams):
    """Its prompt is among them, and END among those that no output begins with, as in Whisper's own files."""
    model, tokenizer, run, folder = pair
    names, made = recordings
    rows, start = run.task.target.pieces.rows, model.config.decoder_start_token_id
    free = outputs(run, names[:1], rows)[0]
    lists = {
        "suppress_tokens": [*sorted({*free[1:4]}), *tokenizer.prefix_tokens],
        "begin_suppress_tokens": [free[0], tokenizer.eos_token_id],
    }
    shutil.copytree(folder / "theirs", tmp_path / "theirs")
    change_json("generation_config.json", **lists)(tmp_path / "theirs")
    words = ["--language", "de"] if model.generation_config.is_multilingual else []
    changes = [f"search.beam_size={beams}", "search.length_penalty=0.0"]
    own = taken(tmp_path / "theirs", tmp_path / "run", *words, changes=changes)
    search = own.config.search
    assert {rows[number] for number in search.suppress} == {*lists["suppress_tokens"]} - {start}
    assert search.begin_suppress == tuple(sorted((rows.index(free[0]), END)))
    options = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": "never"} if beams > 1 else {}
    options["renormalize_logits"] = True  # as Whisper's first program does, and this one
    found = outputs(own, names[:2], rows)
    for samples, ours in zip(made, found, strict=False):
        theirs = generated(pair, samples, **options, **lists)
        assert ours[:45] == theirs[:45] and len(theirs) > 45  # at the limit, which is one symbol later, ours must end
    assert not {*lists["suppress_tokens"]} & {*found[0]} and found[0][0] != free[0]


def test_a_number_that_no_symbol_has_is_refused(pair):
    with pytest.raises(ConfigError, match=r"search\.begin_suppress: no symbol has the number 99999") as caught:
        open_run(pair[3] / "run", ["search.begin_suppress=[2, 99999]"])
    assert str(len(pair[2].task.target)) in caught.value.expected


# -- the way out -------------------------------------------------------------------------------------------------------


def exported(run, folder):
    """The model, the tokenizer and the feature extractor of transformers that a run becomes."""
    assert cli.main(["export", str(run), "--to", "transformers", str(folder)]) == 0
    found = need_transformers()
    model = found.AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    return model, found.AutoTokenizer.from_pretrained(folder), found.AutoFeatureExtractor.from_pretrained(folder)


def test_what_comes_in_goes_out_and_comes_in_again_bit_for_bit(pair, recordings, tmp_path):
    model, tokenizer, run, folder = pair
    out, their, extractor = exported(folder / "run", tmp_path / "out")
    before = model.state_dict()
    assert all(torch.equal(one, before[name]) for name, one in out.state_dict().items() if "encoder.embed_" not in name)
    for text in TEXTS["de"][:4]:
        assert their(text)["input_ids"] == tokenizer(text)["input_ids"]  # the prompt included
    found = extractor(recordings[1][0], sampling_rate=RATE, return_tensors="pt").input_features
    assert torch.equal(found, features(pair, recordings[1][0]))
    with torch.no_grad():
        theirs = both(pair, recordings, TEXTS["de"][:2])[1]
        torch.testing.assert_close(out(**theirs).logits, model(**theirs).logits, rtol=0, atol=1e-5)
    again = taken(tmp_path / "out", tmp_path / "run")  # of the language that it went out with
    ours, later = (one.predictor.learner.state_dict() for one in (run, again))
    assert ours.keys() == later.keys() and all(torch.equal(one, later[name]) for name, one in ours.items())
    for name in ("config.yaml", "vocabulary/target.tokenizer.json"):
        kept = [line for line in (tmp_path / "run" / name).read_text().split("\n") if "cache:" not in line]
        assert kept == [line for line in (folder / "run" / name).read_text().split("\n") if "cache:" not in line]


def test_generate_of_what_went_out_has_the_prompt_and_the_search_of_the_run(pair, recordings, tmp_path):
    model, _, run, folder = pair
    names, made = recordings
    rows = run.task.target.pieces.rows
    first = outputs(run, names[:1], rows)[0][0]
    place = tmp_path / "run"
    shutil.copytree(folder / "run", place, symlinks=True)
    text = (place / "config.yaml").read_text()
    chosen = rows.index(first)
    assert text.count("  begin_suppress: []") == 1
    (place / "config.yaml").write_text(text.replace("begin_suppress: []", f"begin_suppress: [{chosen}]"))
    out, _, extractor = exported(place, tmp_path / "out")
    assert out.generation_config.begin_suppress_tokens == [first]
    found = out.generate(extractor(made[0], sampling_rate=RATE, return_tensors="pt").input_features)[0].tolist()
    prompt = [model.config.decoder_start_token_id, *(rows[number] for number in run.task.target.begins)]
    found = found[len(prompt) :] if found[: len(prompt)] == prompt else found  # which transformers may leave out
    ours = outputs(open_run(place, ALONE), names[:1], rows)[0]
    assert len(found) > 30 and ours[: len(found)] == found


def test_a_run_that_has_learned_since_goes_out_unless_the_output_has_a_bias(pair, recordings, tmp_path, capsys):
    _, _, _, folder = pair
    place = changed_run(folder / "run", tmp_path / "run", lambda weights: moved(weights, "output.bias"))
    run, (out, *_) = open_run(place, ALONE), exported(place, tmp_path / "out")
    batch, theirs = both((None, pair[1], run, folder), recordings, TEXTS["de"][:2])
    begun = torch.cat((torch.full_like(batch.target[:, :1], BEGIN), batch.target[:, :-1]), 1)
    with torch.no_grad():
        ours = run.predictor.model(batch.source, batch.source_mask, begun)
        wanted = out(**theirs).logits
    rows = torch.tensor(run.task.target.pieces.rows)
    others = [number for number in range(len(rows)) if number not in (0, 3)]  # which have END's row there
    mask = batch.target_mask
    torch.testing.assert_close(ours[mask][:, others], wanted[mask][:, rows[others]], rtol=0, atol=5e-4)

    def learn(weights):
        weights["model.output.bias"][5] = 0.25

    place = changed_run(folder / "run", tmp_path / "biased", learn)
    assert cli.main(["export", str(place), "--to", "transformers", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert "has no bias of the output" in said and "model.output.bias" in said and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("word", "said"),
    [("level: false", "audio.level true"), ("pad_seconds: 0.0", "audio.pad_seconds 0.5")],
)
def test_sound_that_is_read_otherwise_is_refused(pair, tmp_path, capsys, word, said):
    shutil.copytree(pair[3] / "run", tmp_path / "run", symlinks=True)
    path = tmp_path / "run" / "config.yaml"
    text, key = path.read_text(), word.partition(":")[0]
    assert text.count(f"  {word}\n") == 1
    path.write_text(text.replace(f"  {word}\n", f"  {key}: {said.split()[1]}\n"))
    assert cli.main(["export", str(tmp_path / "run"), "--to", "transformers", str(tmp_path / "out")]) == 2
    assert f"Whisper cannot express {said}" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_lines_in_the_card_transcribe_a_recording(pair, recordings, tmp_path):
    exported(pair[3] / "run", tmp_path / "out")
    code = re.search(r"```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.DOTALL)[1]
    code = code.replace("path/to/this/folder", str(tmp_path / "out"))
    code = re.sub(r'soundfile.read\(".*?"\)', f'soundfile.read("{recordings[0][0]}")', code)
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()


@pytest.mark.slow
def test_a_model_that_has_learned_gives_equal_outputs_by_greedy_search_and_five_beams(tmp_path, recordings):
    names, made = recordings
    model = write_whisper(tmp_path / "theirs")
    words = ["--language", "de"]
    run = taken(tmp_path / "theirs", tmp_path / "run", *words)
    tokenizer = need_transformers().AutoTokenizer.from_pretrained(tmp_path / "theirs")
    tokenizer.set_prefix_tokens(language="de", task="transcribe", predict_timestamps=False)
    texts = TEXTS["de"][:3]
    taught(model, both((model, tokenizer, run, tmp_path), recordings, texts)[1], 60).save_pretrained(
        tmp_path / "theirs"
    )
    for beams in (1, 5):
        changes = [f"search.beam_size={beams}", "search.length_penalty=0.0"]
        run = taken(tmp_path / "theirs", tmp_path / f"{beams}", *words, changes=changes)
        found = [one[0][0] for one in run.predict([run.task.from_text(name) for name in names])]
        options = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": "never"} if beams > 1 else {}
        ids = [generated((model, tokenizer, run, tmp_path), samples, **options) for samples in made]
        assert found == [tokenizer.decode(one, skip_special_tokens=True).strip() for one in ids]
    assert len({*found}) > 1


def test_speech_translation_begins_with_its_task(tmp_path, recordings):
    write_whisper(tmp_path / "theirs")
    run = taken(tmp_path / "theirs", tmp_path / "run", "--task", "speech_translation", "--language", "german")
    assert run.config.task == "speech_translation"
    names = run.task.target.names(run.task.target.begins)
    assert names == ["<|de|>", "<|translate|>", "<|notimestamps|>"]
    assert isinstance(next(iter(run.predict([run.task.from_text(recordings[0][0])])))[0][0], str)
    ids = run.task.encode([Example(Recording(recordings[0][0]), Translated("A dog.", "Ein Hund."))])[0].target.tolist()
    assert ids[:3] == list(run.task.target.begins) and run.task.target.pieces.decode(ids) == "A dog."


def test_a_longer_recording_is_refused_by_name(pair, tmp_path):
    soundfile.write(tmp_path / "long.wav", np.random.default_rng(3).uniform(-0.3, 0.3, 31 * RATE), RATE)
    with pytest.raises(DataError, match=r"long\.wav: a recording of 31\.0 seconds") as caught:
        pair[2].task.from_text(str(tmp_path / "long.wav"))
    assert "at most 30" in str(caught.value)


def change_json(name, **changes):
    def change(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def change_weights(name, made):
    def change(folder):
        weights = load_file(folder / MODEL)
        weights[name] = made
        save_file({key: one for key, one in weights.items() if one is not None}, folder / MODEL)

    return change


BROKEN = {
    "positions": (change_json("config.json", max_source_positions=750), [], "max_source_positions is 750"),
    "bins": (change_json("config.json", num_mel_bins=128), [], "conv1.weight"),
    "a missing weight": (
        change_weights("model.encoder.conv2.weight", None),
        [],
        "no weight model.encoder.conv2.weight",
    ),
    "an unused weight": (change_weights("projector.weight", torch.ones(3, 16)), [], "projector.weight"),
    "learned positions": (
        change_weights("model.encoder.embed_positions.weight", torch.randn(1500, 16)),
        [],
        "learned positions",
    ),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), [], "the tokenizer is missing"),
    "another start": (change_json("config.json", decoder_start_token_id=7), [], "the decoder with 7"),
    "another language": (lambda folder: None, ["--language", "xx"], "--language xx"),
    "a language beyond": (lambda folder: None, ["--language", "yue"], "--language yue"),
    "another task": (lambda folder: None, ["--task", "translation"], "--task translation"),
    "English alone": (
        change_json("generation_config.json", is_multilingual=False),
        ["--task", "speech_translation"],
        "of English alone",
    ),
    "a language of English alone": (
        change_json("generation_config.json", is_multilingual=False),
        ["--language", "de"],
        "--language de, which",
    ),
    "another width": (lambda folder: None, ["backbone.width=32"], "backbone.width=32"),
    "another front-end": (lambda folder: None, ["audio.frontend=subsampled"], "1500 positions"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("whole") / "whisper"
    write_whisper(folder)
    return folder


@pytest.mark.parametrize("kind", BROKEN)
def test_what_the_suite_cannot_take_in_is_refused_by_name_and_leaves_nothing(whole, tmp_path, capsys, kind):
    change, words, said = BROKEN[kind]
    shutil.copytree(whole, tmp_path / "theirs")
    change(tmp_path / "theirs")
    assert cli.main(["import", str(tmp_path / "theirs"), "--output", str(tmp_path / "run"), *words]) == 2
    found = capsys.readouterr().err
    assert said in found and "Traceback" not in found and not (tmp_path / "run").exists(), found


def test_a_model_of_text_has_neither_tasks_nor_languages_of_this_kind(tmp_path, capsys):
    write_bart(tmp_path / "bart")
    words = ["--language", "de"]
    assert cli.main(["import", str(tmp_path / "bart"), "--output", str(tmp_path / "run"), *words]) == 2
    assert "--language de, which a model of the family bart has no choice of" in capsys.readouterr().err
