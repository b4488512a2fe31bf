"""The study of checkpoints: stand-ins that the suite imports, runs from them and from nothing, and the way back."""

import gzip
import json
import random

import pytest
from pretrained import need_transformers

from benchmarks import pretrained, stand_ins
from seq2seq_suite.miniworld import rows


def test_a_corrupted_text_is_whole_again_with_its_target():
    draw = random.Random(3)
    for size in range(4, 80):
        ids = [draw.randrange(10, 400) for _ in range(size)]
        source, target = stand_ins.corrupted(ids, 500, draw)
        spans, at = {}, 0
        assert source[-1] == target[-1] == 1 and target[-2] == 499 - len(source) + sum(one < 400 for one in source)
        for number in target[:-1]:
            at = number if number >= 400 else at
            spans.setdefault(at, []).extend([number] * (number < 400))
        whole = [one for number in source[:-1] for one in (spans[number] if number >= 400 else [number])]
        assert whole == ids and sum(map(len, spans.values())) == max(round(size * 0.15), 1)


def test_batches_have_each_pair_once_and_no_more_pieces_than_asked():
    pairs = [([1] * size, [2] * (size % 5 + 1)) for size in range(1, 40)]
    found = list(stand_ins._batches(pairs, 60, random.Random(1)))
    assert sorted(pair for batch in found for pair in batch) == sorted(pairs)
    assert all(len(batch) * max(len(one) + len(two) for one, two in batch) <= 60 for batch in found)


def data_sets(folder):
    """Tiny ones with the names and columns of the real ones."""
    read = {
        pretrained.PAIRS: ("translations", lambda row: {"src": row["en"], "tgt": row["de"]}),
        pretrained.COMMENTS: ("topics", lambda row: row),
        pretrained.TREES: ("trees", lambda row: row),
    }
    for name, (kind, columns) in read.items():
        (folder / name).mkdir(parents=True)
        for split, size in {"train": 60, "validation": 4, "test": 4}.items():
            lines = [json.dumps(columns(row)) for row in rows(kind, split, size=size)]
            with gzip.open(folder / name / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")


@pytest.mark.slow
def test_the_study_ends_in_tables_and_keeps_what_it_made(tmp_path, monkeypatch, capsys):
    need_transformers()
    monkeypatch.setattr(stand_ins, "PIECES", {"marian": 120, "t5": 160})
    monkeypatch.setattr(stand_ins, "WIDTH", 16)
    monkeypatch.setattr(stand_ins, "INNER", 16)
    monkeypatch.setattr(stand_ins, "LAYERS", 1)
    monkeypatch.setattr(pretrained, "COMPARED", 3)
    data_sets(tmp_path / "data")
    quick = ["training.max_updates=2", "training.validate_every=2", "data.share=1.0"]
    folders = ["--folder", str(tmp_path / "made"), "--data", str(tmp_path / "data")]
    command = [*quick, *folders, "--minutes", "0.02", "--seeds", "1"]
    pretrained.main([*command, "--output", str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    for name in ("labels", "trees", "ctc"):
        assert f"| {name} | from nothing |" in page and f"| {name} | imported |" in page
    assert "writes 3 of 3 test sentences as the suite does" in page and "| pretraining t5 |" in page
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "made").rglob("*.safetensors")}
    pretrained.main(command)
    assert times == {path: path.stat().st_mtime_ns for path in times}
