"""A training split that is mapped gives what one that lies in memory gives: numbers, batches, errors, runs."""

import itertools
import json
import os
import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from small_run import metrics, start, weights
from two_processes import launch

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import DataError, RunError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data import cache, workers
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.data.mapped import Mapped, pack
from seq2seq_suite.experiments import corpus as corpora
from seq2seq_suite.experiments.corpus import Corpus, large
from seq2seq_suite.experiments.prepare import encode, read_splits
from seq2seq_suite.experiments.resuming import fingerprint
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs import distributed
from seq2seq_suite.tasks.base import Task

WORDS = ("der", "die", "das", "ein", "Hund", "Katze", "Baum", "sieht", "liegt", "unter", "vor", "neben", "kleine")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, tmp_path):
    """A cache of the test's own, and parts of a few rows, so that there are many."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(corpora, "_ROWS", 7)


def write_pairs(folder: Path, *, train: int = 60) -> Path:
    draw = random.Random(1)
    folder.mkdir()
    for split, count in (("train", train), ("validation", 6), ("test", 6)):
        for language in ("en", "de"):
            lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def config_of(folder: Path, *, mapped: bool, task: str = "translation", **sections: Any) -> Config:
    data = {"path": str(folder), "in_memory_megabytes": 0 if mapped else 64, **sections.pop("data", {})}
    return Config.model_validate(
        {
            "task": task,
            "device": "cpu",
            "data": data,
            task: {"vocabulary_size": 40},
            "backbone": {
                "width": 32,
                "feed_forward_width": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "training": {
                "max_updates": 6,
                "batch_tokens": 64,
                "precision": "float32",
                "schedule": "constant",
                "warmup_updates": 5,
                "validate_every": 6,
                "save_every": 3,
                "log_every": 1,
                "threads": 1,
            },
            **sections,
        }
    )


def opened(config: Config) -> tuple[Any, Any, Any]:
    """The task, its training split and the split as numbers."""
    task = open_task(config.task, config)
    train = read_splits(config, task)["train"]
    if isinstance(train, Corpus):
        train.fit()
    else:
        task.fit(train)
    return task, train, encode(config.backbone, task, train)


def same(one: Any, other: Any) -> bool:
    return (
        all(
            np.array_equal(getattr(one, name), getattr(other, name))
            and getattr(one, name).dtype == getattr(other, name).dtype
            for name in ("source", "target")
        )
        and one.index == other.index
        and (one.given is None) == (other.given is None)
        and one.auxiliary.keys() == other.auxiliary.keys()
    )


@pytest.mark.parametrize("settings", [{}, {"share": 0.4}, {"split": {"validation": 0.2}}])
def test_a_mapped_corpus_has_the_examples_of_one_in_memory(tmp_path, settings):
    folder = write_pairs(tmp_path / "data")
    task, examples, ready = opened(config_of(folder, mapped=False, data=settings))
    again, corpus, mapped = opened(config_of(folder, mapped=True, data=settings))
    assert isinstance(corpus, Corpus) and not isinstance(examples, Corpus)
    assert len(mapped) == len(ready) and all(map(same, mapped, ready))
    assert list(corpus.origins()) == [example.origin for example in examples]
    assert task.target.pieces.model == again.target.pieces.model
    if "share" not in settings:
        assert fingerprint(mapped) == fingerprint(ready)


@pytest.mark.parametrize("round_lengths", [False, True])
def test_its_batches_are_those_of_examples_in_memory(tmp_path, round_lengths):
    folder = write_pairs(tmp_path / "data")
    streams = [
        Bucketed(
            opened(config_of(folder, mapped=mapped))[2],
            "translation",
            batch_tokens=48,
            seed=3,
            round_lengths=round_lengths,
        ).batches(1, 2)
        for mapped in (False, True)
    ]
    for one, other in itertools.islice(zip(*streams, strict=True), 40):
        assert one[:2] == other[:2] and one[2].indices == other[2].indices
        for name in ("source", "target", "given", "source_mask"):
            assert torch.equal(getattr(one[2], name), getattr(other[2], name))


def test_a_run_on_a_mapped_corpus_is_that_of_one_in_memory_and_resumes_as_it(tmp_path, capsys):
    folder = write_pairs(tmp_path / "data")
    for name, mapped in (("memory", False), ("mapped", True)):
        start(config_of(folder, mapped=mapped), tmp_path / name)
    assert metrics(tmp_path / "mapped") == metrics(tmp_path / "memory")
    assert weights(tmp_path / "mapped") == weights(tmp_path / "memory")
    start(changed(config_of(folder, mapped=True), max_updates=3), tmp_path / "parts")
    capsys.readouterr()
    start(config_of(folder, mapped=True), tmp_path / "parts", resume=True)
    assert weights(tmp_path / "parts") == weights(tmp_path / "memory")
    assert "encoding" not in capsys.readouterr().out


@pytest.mark.slow
def test_two_processes_share_what_one_has_encoded_and_train_as_one(tmp_path, monkeypatch):
    folder, encode_all = write_pairs(tmp_path / "data"), Corpus._encode

    def noted(corpus: Corpus, path: Path) -> None:
        with (tmp_path / "encoded").open("a") as file:
            file.write("once\n")
        encode_all(corpus, path)

    monkeypatch.setattr(Corpus, "_encode", noted)
    config = config_of(folder, mapped=True)
    config = config.model_copy(update={"backbone": config.backbone.model_copy(update={"dropout": 0.0})})

    def command() -> int:
        return distributed.together(lambda: (0, start(config, tmp_path / "pair") and ""))[0]

    assert [code for code, _, _ in launch(command, tmp_path)] == [0, 0]
    assert (tmp_path / "encoded").read_text() == "once\n"
    start(config, tmp_path / "alone")
    for row, same_row in zip(metrics(tmp_path / "pair"), metrics(tmp_path / "alone"), strict=True):
        assert row.pop("split") == same_row.pop("split") and row == pytest.approx(same_row, rel=1e-4)


def changed(config: Config, **training: Any) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update=training)})


@pytest.mark.slow
def test_a_joint_run_mixes_mapped_corpora_as_those_in_memory(tmp_path):
    pairs, texts = write_pairs(tmp_path / "pairs"), write_texts(tmp_path / "texts")
    for name, mapped in (("memory", False), ("mapped", True)):
        size = {"in_memory_megabytes": 0 if mapped else 64}
        whole = config_of(pairs, mapped=mapped).model_dump(include={"backbone", "training", "device"})
        start(
            Config.model_validate(
                {
                    **whole,
                    "task": "multitask",
                    "tasks": {
                        "move": {
                            "task": "translation",
                            "data": {"path": str(pairs), **size},
                            "translation": {"vocabulary_size": 40},
                        },
                        "cut": {
                            "task": "summarisation",
                            "data": {"path": str(texts), **size},
                            "summarisation": {"vocabulary_size": 40},
                        },
                    },
                }
            ),
            tmp_path / name,
        )
    assert metrics(tmp_path / "mapped") == metrics(tmp_path / "memory")
    assert weights(tmp_path / "mapped") == weights(tmp_path / "memory")


def write_texts(folder: Path) -> Path:
    draw = random.Random(2)
    folder.mkdir()
    for split, count in (("train", 40), ("validation", 5), ("test", 5)):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 30))) for _ in range(count)]
        (folder / f"{split}.jsonl").write_text(
            "".join(json.dumps({"text": text, "summary": text[:9]}) + "\n" for text in texts), encoding="utf-8"
        )
    return folder


@pytest.mark.parametrize("task, options", [("language_model", {"window": 40}), ("summarisation", {})])
def test_texts_are_mapped_too_and_their_windows(tmp_path, task, options):
    folder = write_texts(tmp_path / "data")
    (_, examples, ready), (_, corpus, mapped) = (
        opened(config_of(folder, mapped=mapped, task=task, **{task: {"vocabulary_size": 40, **options}}))
        for mapped in (False, True)
    )
    assert len(mapped) == len(ready) and all(map(same, mapped, ready))
    assert list(corpus.origins()) == [example.origin for example in examples]
    assert fingerprint(mapped) == fingerprint(ready)


@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_a_corpus_that_changes_while_it_is_read_ends_in_a_line(tmp_path, harm):
    items = [Encoded(np.full(900, 7), np.full(900, 8), index) for index in range(2000)]
    batch, path = pack(items, [(0, 1)] * len(items), {}), tmp_path / "examples"
    with pa.ipc.new_file(str(path), batch.schema) as file:
        file.write_batch(batch)
    found = Mapped(path, digest="")
    assert "examples" not in Path("/proc/self/maps").read_text()
    assert all(map(same, itertools.islice(found, 300), items))
    if harm == "cut":
        os.truncate(path, 0)
    else:
        os.utime(path, (1, 1))
    with pytest.raises(RunError, match="examples: the encoded corpus has changed while it was read"):
        list(itertools.islice(found, 200))


def test_a_task_whose_rows_do_not_stand_alone_stays_in_memory(tmp_path):
    folder = write_texts(tmp_path / "data")
    config = config_of(folder, mapped=True, task="multilabel", multilabel={})
    assert large(config, open_task("multilabel", config), range) is None


@pytest.mark.parametrize("most", [0, 3])
def test_broken_rows_are_reported_as_they_are_in_memory(tmp_path, capsys, most):
    folder = write_pairs(tmp_path / "data")
    lines = (folder / "train.de").read_bytes().split(b"\n")
    lines[3], lines[17], lines[40] = b"Stra\xdfe", b"", b"\xff"
    (folder / "train.de").write_bytes(b"\n".join(lines))
    said = []
    for mapped in (False, True, True):  # the third time from the cache
        try:
            opened(config_of(folder, mapped=mapped, data={"max_bad_rows": most}))
            rows = [line for line in capsys.readouterr().out.splitlines() if "train.en:" in line or "train.de:" in line]
            said.append([line for line in rows if "encoding" not in line])
        except DataError as error:
            said.append(str(error))
    assert said[0] == said[1] == said[2] and said[0]


def test_files_that_do_not_match_are_refused_as_in_memory(tmp_path):
    folder = write_pairs(tmp_path / "data")
    with (folder / "train.de").open("a", encoding="utf-8") as file:
        file.write("noch einer\n")
    said = []
    for mapped in (False, True):
        with pytest.raises(DataError, match="ends after 60 lines") as raised:
            opened(config_of(folder, mapped=mapped))
        said.append(str(raised.value))
    assert said[0] == said[1] and not list((tmp_path / "cache").rglob("*.arrow"))


def test_what_the_numbers_depend_on_makes_another_entry_and_nothing_else_does(tmp_path):
    folder = write_pairs(tmp_path / "data")

    def made(**sections: Any) -> int:
        opened(config_of(folder, mapped=True, **sections))
        return len(list((tmp_path / "cache").rglob("*.arrow")))

    assert made() == 1 and made() == 1
    assert made(seed=2) == made(backbone={"width": 64, "num_heads": 2}) == made(data={"test_splits": []}) == 1
    assert made(translation={"vocabulary_size": 30}) == 2
    assert made(data={"vocabulary_rows": 30}) == 3
    os.utime(folder / "train.de", (1, 1))
    assert made() == 4


def test_vocabularies_come_from_rows_spread_evenly(tmp_path):
    config = config_of(write_pairs(tmp_path / "data"), mapped=True, data={"vocabulary_rows": 20})
    corpus = large(config, open_task("translation", config), range)
    assert [int(example.origin.rpartition(":")[2]) for example in corpus] == list(range(3, 61, 3))


def test_a_killed_encoding_leaves_nothing_that_is_used(tmp_path, monkeypatch):
    folder = write_pairs(tmp_path / "data")
    _, _, ready = opened(config_of(folder, mapped=False))
    child = os.fork()
    if not child:
        import pyarrow as pa

        monkeypatch.setattr(pa.ipc.RecordBatchFileWriter, "write_batch", lambda *_: os.kill(os.getpid(), 9))
        opened(config_of(folder, mapped=True))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 9
    left = [path.name for path in (tmp_path / "cache").rglob("examples-*") if path.is_dir()]
    assert len(left) == 1 and left[0].endswith(".partial")
    _, _, mapped = opened(config_of(folder, mapped=True))
    assert all(map(same, mapped, ready)) and not list((tmp_path / "cache").rglob("*.partial"))


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path):
    """The system refuses to let files grow, in a process of its own."""
    config = config_of(write_pairs(tmp_path / "data", train=2000), mapped=True)
    large(config, open_task("translation", config), range).fit()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            opened(config)
        except OSError as error:
            os._exit(7 if "too large" in str(error) and error.filename else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not [path for path in (tmp_path / "cache").rglob("examples-*") if path.is_dir()]
    assert len(opened(config)[2]) == 2000


def test_splits_cut_off_a_corpus_are_looked_for_once(tmp_path, monkeypatch):
    config, splits = (
        config_of(write_pairs(tmp_path / "data"), mapped=True, data={"split": {"validation": 0.2, "test": 0.1}}),
        [],
    )
    task = open_task("translation", config)
    expected = {split: task.read(split) for split in ("validation", "test")}
    monkeypatch.setattr(
        type(task),
        "open",
        lambda task, split, bad: (splits.append(split), Task.open(task, split, bad))[1],
        raising=False,
    )
    for _ in range(2):
        found = read_splits(config, task)
        assert found["validation"] == expected["validation"] and found["test"] == expected["test"]
    assert splits == ["validation", "test"]


@pytest.mark.parametrize(
    "entry, name, harm",
    [
        ("examples", "examples.arrow", lambda text: b""),
        ("examples", "examples.arrow", lambda text: text[:-9]),
        ("examples", "examples.arrow", lambda text: text[:-2000] + bytes([text[-2000] ^ 1]) + text[-1999:]),
        ("examples", "facts.json", lambda text: b"{}"),
        ("examples", "kept.json", lambda text: b"[3"),
        ("examples", "facts.json", lambda text: text.replace(b'"notes": []', b'"notes": 3')),
        ("vocabulary", "*", lambda text: text[:-9]),
    ],
)
def test_a_damaged_entry_is_made_again(tmp_path, capsys, entry, name, harm):
    config = config_of(write_pairs(tmp_path / "data"), mapped=True)
    expected = list(opened(config)[2])
    kept = (tmp_path / "cache").rglob(f"{entry}-*/{name}")
    file = next(file for file in kept if name != "*" or file.name != "kept.json")
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert file.read_bytes() != whole and all(map(same, opened(config)[2], expected))
    assert "is damaged: it is made again" in capsys.readouterr().out and file.read_bytes() == whole


def test_a_file_restored_with_its_time_and_size_is_encoded_again(tmp_path):
    config = config_of(write_pairs(tmp_path / "data"), mapped=True)
    opened(config)
    file = tmp_path / "data" / "train.en"
    before = file.stat()
    file.write_text(file.read_text()[::-1].strip() + "\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    opened(config)
    assert len(list((tmp_path / "cache").rglob("examples.arrow"))) == 2


def test_what_others_made_is_never_cleared(tmp_path, capsys):
    folder = tmp_path / "mine"
    (folder / "thesis").mkdir(parents=True)
    (folder / "thesis" / "thesis.tex").write_bytes(bytes(2_000_000))
    (folder / "thesis.lock").touch()
    for words in (["--clear"], ["--keep", "0.001"]):
        assert cli.main(["cache", "--folder", str(folder), *words]) == 2
        assert "no cache of the suite" in capsys.readouterr().err
    cache.entry(folder, "ours", lambda made: (made / "content").write_bytes(bytes(9)))
    (folder / "link").symlink_to(folder / "ours")
    (folder / "forged").mkdir()
    (folder / "forged" / "kept.json").symlink_to(folder / "ours" / "kept.json")
    assert cli.main(["cache", "--folder", str(folder), "--clear"]) == 0
    assert {path.name for path in folder.iterdir() if path.suffix != ".lock"} == {"thesis", "link", "forged"}
    assert (folder / "thesis" / "thesis.tex").stat().st_size == 2_000_000
    assert folder.stat().st_mode & 0o700


def test_a_file_that_grows_meanwhile_is_refused(tmp_path, monkeypatch):
    config = config_of(write_pairs(tmp_path / "data"), mapped=True)
    pack = Corpus._rows

    def growing(corpus: Corpus) -> Any:
        yield from pack(corpus)
        with (tmp_path / "data" / "train.en").open("a") as file:
            file.write("ein\n")

    monkeypatch.setattr(Corpus, "_rows", growing)
    with pytest.raises(DataError, match="has changed while it was read"):
        opened(config)


def test_the_verb_lists_what_is_kept_and_clears_it(tmp_path, capsys):
    opened(config_of(write_pairs(tmp_path / "data"), mapped=True))
    for arguments, kept in ((["cache"], True), (["cache", "--clear"], True), (["cache"], False)):
        capsys.readouterr()
        assert cli.main(arguments) == 0
        listed = capsys.readouterr().out
        assert ("examples-" in listed) == ("vocabulary-" in listed) == kept
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_what_was_used_last_is_kept_up_to_a_size_and_what_is_used_now_always(tmp_path, capsys):
    for number, name in enumerate(("old", "older", "oldest", "used")):
        path = cache.entry(tmp_path, name, lambda folder: (folder / "content").write_bytes(bytes(400_000)))
        os.utime(path, (1e9 - number, 1e9 - number))
    file = cache.used(tmp_path / "used")
    arguments = ["cache", "--folder", str(tmp_path), "--keep", "0.001"]
    assert cli.main(arguments) == 0 and "used: left alone" in capsys.readouterr().out
    assert {one.path.name for one in cache.entries(tmp_path)} == {"old", "older", "used"}
    file.close()
    assert cli.main(arguments) == 0 and {one.path.name for one in cache.entries(tmp_path)} == {"old", "older"}


def test_a_killed_worker_ends_the_encoding():
    def work(item: int) -> int:
        if item == 3:
            os.kill(os.getpid(), 9)
        return item

    with pytest.raises(RunError, match="was killed"):
        list(workers.in_processes(work, range(9), 2))
    assert list(workers.in_processes(lambda item: -item, range(9), 3)) == [-item for item in range(9)]


def test_one_process_makes_an_entry_and_the_others_wait(tmp_path):
    def want(number: int) -> None:
        def make(folder: Path) -> None:
            with (tmp_path / "made").open("a") as file:
                file.write(f"{number}\n")
            (folder / "content").write_text("whole")

        assert (cache.entry(tmp_path / "entries", "one", make) / "content").read_text() == "whole"

    children = []
    for number in range(4):
        children.append(os.fork())
        if not children[-1]:
            want(number)
            os._exit(0)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len((tmp_path / "made").read_text().splitlines()) == 1
