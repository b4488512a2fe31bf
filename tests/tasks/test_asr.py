"""The task of speech recognition: folders of sound, bad rows, composed sequences, and eight recordings by heart."""

import io
import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import task_tools
import torch

soundfile = pytest.importorskip("soundfile", reason="comes with the extra `speech`")

from making import auxiliaries_of, strategy_of  # noqa: E402

from benchmarks import cascade  # noqa: E402
from seq2seq_suite.common.errors import DataError  # noqa: E402
from seq2seq_suite.common.examples import Example  # noqa: E402
from seq2seq_suite.config.schema import Config  # noqa: E402
from seq2seq_suite.data.audio import Composed, Recording  # noqa: E402
from seq2seq_suite.data.batching import collate  # noqa: E402
from seq2seq_suite.data.formats import Row  # noqa: E402
from seq2seq_suite.experiments import verbs  # noqa: E402
from seq2seq_suite.options.search import Search as SearchOptions  # noqa: E402
from seq2seq_suite.strategies.assisted import Assisted  # noqa: E402
from seq2seq_suite.studies.compare import compare_runs  # noqa: E402
from seq2seq_suite.tasks.rows import file_of  # noqa: E402

TEXTS = ("yes", "no", "go to two", "zero one", "one zero", "aab", "ba", "stop")
SMALL = {"audio__bins": 12, "audio__frequency_width": 2, "audio__subsampling": 2}


def sing(text: str, *, rate: int = 16_000) -> np.ndarray:
    """A tone of its own for each letter."""
    parts = [np.sin(2 * np.pi * (300 + 110 * (ord(letter) - 96)) * np.arange(rate // 12) / rate) for letter in text]
    return np.concatenate(parts).astype(np.float32) * 0.5


@pytest.fixture
def folder(tmp_path):
    """Three splits of the same eight recordings by two speakers."""
    for split in ("train", "validation", "test"):
        place = tmp_path / "data" / split
        place.mkdir(parents=True)
        rows = []
        for number, text in enumerate(TEXTS):
            soundfile.write(place / f"{number}.wav", sing(text), 16_000)
            rows.append({"file_name": f"{number}.wav", "text": text.upper() + ".", "speaker": f"s{number % 2}"})
        (place / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data"


@pytest.fixture
def make_task(folder, tmp_path):
    return partial(task_tools.make_task, "asr", data__path=str(folder), audio__cache=str(tmp_path / "cache"), **SMALL)


def test_a_folder_of_sound_files_is_read(make_task, folder):
    examples = make_task().read("train")
    assert [example.reference for example in examples] == [text.upper() + "." for text in TEXTS]
    assert examples[0].source.name == str(folder / "train" / "0.wav")
    assert examples[1].origin == f"{folder}/train/metadata.jsonl:2"


def test_bytes_as_the_hub_serves_them_are_read(make_task, tmp_path):
    from datasets import Dataset

    content = io.BytesIO()
    soundfile.write(content, sing("yes"), 8000, format="FLAC")
    place = tmp_path / "hub"
    place.mkdir()
    Dataset.from_list([{"audio": {"bytes": content.getvalue(), "path": "a.flac"}, "text": "yes"}]).to_parquet(
        place / "train.parquet"
    )
    example = make_task(data__path=str(place)).read("train")[0]
    assert example.source.name == "a.flac" and example.reference == "yes"


def test_sounds_that_are_no_files_are_written_for_a_row_with_the_same_samples(make_task, folder, tmp_path):
    pytest.importorskip("espeakng_loader")
    content = io.BytesIO()
    soundfile.write(content, np.stack([sing("yes"), 0.5 * sing("yes")], 1), 8000, format="FLAC")
    parts = (Recording(str(folder / "train" / "0.wav")), Recording("a.flac", content.getvalue()))
    long = {"data__max_length": 900, "search__max_length_factor": 1.0}
    task = make_task(**long)
    embedded = make_task(data__path="miniworld", data__size=1, **long).read("train")[0].source
    for number, sound in enumerate((embedded, parts[1], Composed((parts[0], parts[0]), 0.1))):
        found = task.source.stored(sound, tmp_path / "sounds" / str(number))
        assert found.name == str(tmp_path / "sounds" / f"{number}.wav")
        again = task.example(Row(task.row(Example(found, "yes"), "no"), "rows.jsonl", 1))
        assert again.reference == "no" and again.source == found
        for one, other in zip(sound.samples(), again.source.samples(), strict=True):
            np.testing.assert_array_equal(one, other)
    assert task.source.stored(parts[0], tmp_path / "other") is parts[0] and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("row", "got"),
    [
        ({"text": "hello"}, "the columns are text"),
        ({"file_name": "0.wav"}, "no column text"),
        ({"file_name": "0.wav", "text": "..."}, "no word"),
        ({"file_name": "none.wav", "text": "hello"}, "none.wav: there is no such file"),
        ({"file_name": "metadata.jsonl", "text": "hello"}, "the sound cannot be read"),
        ({"file_name": "long.wav", "text": "hello"}, "a recording of 2.0 seconds"),
        ({"file_name": "cut.wav", "text": "hello"}, "the recording is cut"),
        ({"file_name": "silent.wav", "text": "hello"}, "the recording is silent"),
    ],
)
def test_bad_rows_are_named_with_their_number(make_task, folder, row, got):
    soundfile.write(folder / "train" / "long.wav", np.sin(np.arange(32_000)), 16_000)
    soundfile.write(folder / "train" / "silent.wav", np.zeros(1600), 16_000)
    (folder / "train" / "cut.wav").write_bytes((folder / "train" / "0.wav").read_bytes()[:2000])
    with open(folder / "train" / "metadata.jsonl", "a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(DataError) as caught:
        make_task(data__max_length=150).read("train")
    assert "metadata.jsonl:9" in str(caught.value) and got in str(caught.value) and caught.value.remedy
    assert len(make_task(data__max_length=150, data__max_bad_rows=1).read("train")) == 8


def test_what_stands_out_in_recordings_is_said_when_they_are_read_and_predicted(make_task, folder, capsys):
    tone = sing("yes")
    soundfile.write(folder / "train" / "0.wav", np.stack([tone, -tone], 1), 16_000)
    task = make_task()
    examples = task.read("train")
    assert (
        "train: channels that cancel each other, of which the loudest is read, in 1 of 8 recordings"
        in capsys.readouterr().out
    )
    assert task.figures(examples).startswith("level -9 dB (-9 to -9), peak 0.50, 0% silence, 0.00% clipped")
    soundfile.write(folder / "silent.wav", np.zeros(1600), 16_000)
    with pytest.raises(DataError, match="silent"):
        task.from_text(str(folder / "silent.wav"))


def test_a_speaker_can_be_left_out_and_tested_alone(make_task, capsys):
    task = make_task(asr__leave_out_speaker="s1")
    for split, numbers in (("train", "0246"), ("validation", "0246"), ("test", "1357")):
        assert [example.source.name[-5] for example in task.read(split)] == list(numbers)
    assert "4 recordings left out" in capsys.readouterr().out


def test_composed_sequences_have_one_speaker_and_all_words(make_task):
    task = make_task(asr__composed=5, data__max_length=900, search__max_length_factor=1.0)
    made = task.read("train")[8:]
    assert len(made) == 5 and len(task.read("composed")) == 8
    assert [example.origin for example in made] == [f"train/composed:{number}" for number in range(1, 6)]
    for example in made:
        speakers = {int(part.name[-5]) % 2 for part in example.source.parts}
        assert len(speakers) == 1 and 3 <= len(example.source.parts) <= 7
        assert example.reference == " ".join(TEXTS[int(part.name[-5])].upper() + "." for part in example.source.parts)


def test_compositions_are_of_every_speaker_and_drawn_by_the_seed(make_task):
    def made(split: str = "composed", **keys) -> list[tuple[str, ...]]:
        task = make_task(data__max_length=900, search__max_length_factor=1.0, **keys)
        return [tuple(part.name for part in example.source.parts) for example in task.read(split)[-8:]]

    assert made() == made() and made() != made(seed=2) and made() != made("train", asr__composed=8)
    assert {int(parts[0][-5]) % 2 for parts in made()} == {0, 1}


def test_a_row_that_names_two_files_means_the_sound(folder):
    row = Row({"audio": "b.wav", "file_name": "a.wav"}, str(folder / "rows.jsonl"), 1)
    assert file_of(row, "audio") == (str(folder / "b.wav"), b"")
    assert file_of(Row({"file_name": "a.wav"}, str(folder / "rows.jsonl"), 1), "audio") == (str(folder / "a.wav"), b"")


def test_recordings_too_short_for_ctc_are_counted(make_task, capsys):
    task = make_task()
    examples = task.read("train")
    task.fit(examples)
    assert "too short" not in capsys.readouterr().out
    task.fit([*examples, replace(examples[0], reference="a much longer text than could be spoken", origin="here:1")])
    assert " recordings is too short for CTC (their CTC loss is 0; audio.subsampling=2" in capsys.readouterr().out


def test_features_are_normalised_and_kept_with_the_run(make_task, tmp_path):
    task = make_task()
    examples = task.read("train")
    task.fit(examples)
    frames = np.concatenate([np.asarray(item.source) for item in task.encode(examples)])
    np.testing.assert_allclose(frames.mean(0), task.source.mean, atol=1e-4)
    task.save(tmp_path / "vocabulary")
    other = make_task()
    other.load(tmp_path / "vocabulary")
    assert other.shape() == task.shape()
    (tmp_path / "vocabulary" / "features.npz").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"features\.npz"):
        other.load(tmp_path / "vocabulary")


def test_speeds_are_drawn_anew_for_each_epoch(make_task):
    task = make_task(audio__speeds=[0.9, 1.0, 1.1])
    examples = task.read("train")
    task.fit(examples)
    epochs = [[len(item.source) for item in task.encode_epoch(examples, epoch)] for epoch in (0, 0, 1)]
    assert task.varies and epochs[0] == epochs[1] != epochs[2] and not make_task().varies


def test_eight_recordings_are_learned_by_heart(learned):
    task, model, strategy, examples = learned
    items = task.encode(examples)
    for weight, beam_size in itertools.product((0.0, 0.4, 1.0), (1, 3)):
        options = SearchOptions(length_penalty=0.0, ctc_weight=weight, beam_size=beam_size)
        found = strategy.generate(model, collate(items, "asr"), options=options, limit=torch.full((8,), 30))
        texts = [task.read_hypothesis(best[0], example) for best, example in zip(found, examples, strict=True)]
        assert texts == list(TEXTS), options
        assert task.score(texts, [example.reference for example in examples]).figures["wer"] == 0.0


@pytest.fixture
def learned(make_task, make_model, overfit):
    """A model that knows the eight recordings by attention and by CTC."""
    task = make_task(audio__frequency_bars=0, audio__time_bars=0)
    examples = task.read("train")
    task.fit(examples)
    model = make_model(task.shape(), noise=0.0, width=48, feed_forward_width=96, encoder_layers=2, decoder_layers=1)
    strategy = strategy_of(Assisted, width=48, noise=0.0, auxiliaries=auxiliaries_of(task.shape(), ctc=0.5, width=48))
    overfit(model, strategy, collate(task.encode(examples), "asr"), updates=150)
    return task, model, strategy, examples


@pytest.fixture
def train(folder, tmp_path):
    """Trains two updates on the recordings, whose translations are their texts read backwards."""
    for split in ("train", "validation", "test"):
        rows = [json.loads(line) for line in (folder / split / "metadata.jsonl").read_text().splitlines()]
        (folder / split / "metadata.jsonl").write_text(
            "".join(json.dumps({**row, "translation": row["text"][::-1]}) + "\n" for row in rows)
        )
    common = {
        "device": "cpu",
        "data": {"path": str(folder)},
        "backbone": {"width": 16, "feed_forward_width": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        "strategy": {"ctc_weight": 0.3},
        "search": {"max_length_factor": 0.5},
        "training": {"max_updates": 2, "validate_every": 2, "log_every": 1, "threads": 1},
    }

    sound = {"bins": 12, "frequency_width": 2, "cache": str(tmp_path / "cache"), "speeds": [0.9, 1.0]}

    def run(name: str, **keys):
        for section, changes in keys.items():
            keys[section] = (
                {**common[section], **changes} if isinstance(changes, dict) and section in common else changes
            )
        audio = {"audio": sound} if keys["task"] != "translation" else {}
        return verbs.run(
            Config.model_validate({**common, **audio, **keys}),
            tmp_path / name,
            resume=False,
            overwrite=False,
            command=["test"],
        )

    return run


def test_a_translation_is_initialised_from_a_recogniser(train, tmp_path):
    train("asr", task="asr", search={"ctc_weight": 0.3})
    summary = train("st", task="speech_translation", init_from=str(tmp_path / "asr"))
    assert {"bleu", "chrf"} <= set(summary["splits"]["test"])
    said = (tmp_path / "st" / "log.txt").read_text()
    assert "frontend, encoder start from" in said
    assert "backbone." not in said
    train("turned", task="speech_translation", init_from=str(tmp_path / "asr"), backbone={"positions": "rotary"})
    assert "; backbone.positions is rotary, but sinusoidal there" in (tmp_path / "turned" / "log.txt").read_text()
    with pytest.raises(DataError, match="the part 'encoder' does not fit"):
        train(
            "wide",
            task="speech_translation",
            init_from=str(tmp_path / "asr"),
            init_parts=["encoder"],
            backbone={"feed_forward_width": 32},
        )


def test_a_cascade_stands_beside_the_direct_model(train, tmp_path, capsys):
    train("asr", task="asr", search={"ctc_weight": 1.0})
    direct = train("st", task="speech_translation")
    yaml, texts = tmp_path / "st" / "config.yaml", tmp_path / "texts"
    cascade.main(["texts", str(yaml), "--output", str(texts)])
    assert json.loads((texts / "test.jsonl").read_text().splitlines()[2]) == {"src": "go to two", "tgt": ".OWT OT OG"}
    train(
        "written",
        task="translation",
        data={"path": str(texts)},
        strategy={"ctc_weight": 0.0},
        translation={"source_subwords": "characters", "target_subwords": "characters"},
    )
    command = ["translate", str(tmp_path / "asr"), str(tmp_path / "written"), "--output", str(tmp_path / "two")]
    cascade.main([*command, "--like", str(tmp_path / "st")])
    found = compare_runs([tmp_path / "st", tmp_path / "two"], measure=False)
    assert [row.metric for row in found.rows] == ["bleu", "bleu"] and len(found.pairs) == 1
    assert found.rows[0].figure == direct["splits"]["test"]["bleu"]
    rows = [json.loads(line) for line in (tmp_path / "two" / "predictions" / "test.jsonl").read_text().splitlines()]
    assert [row["reference"] for row in rows] == ["." + text.upper()[::-1] for text in TEXTS]
    with pytest.raises(SystemExit) as caught:
        cascade.main([*command, "--overwrite", "--like", str(tmp_path / "asr")])
    assert caught.value.code == 2 and "its task is asr" in capsys.readouterr().err


def test_all_apostrophes_are_learned_as_one(make_task, folder):
    rows = folder / "train" / "metadata.jsonl"
    for sign, form in (("\N{RIGHT SINGLE QUOTATION MARK}", "nfc"), ("'", "nfc"), ("\N{ACUTE ACCENT}", "none")):
        text = rows.read_text(encoding="utf-8").replace('."', f'{sign}s."')
        (folder / "validation" / "metadata.jsonl").write_text(text, encoding="utf-8")
        task = make_task(data__unicode=form)
        learned = [task.target.normalised(one.reference) for one in task.read("validation")]
        assert all(one.endswith("'s" if form == "nfc" else " s") for one in learned), learned
