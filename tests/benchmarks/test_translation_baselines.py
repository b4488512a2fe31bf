"""Translation without a network: what it can do, and that it cannot do more."""

import json
from pathlib import Path

import pytest

from benchmarks.translation_baselines import dictionary, main, nearest
from seq2seq_suite.common.examples import Example

ROOT = Path(__file__).parents[2]
PAIRS = [
    ("the dog sees a man.", "der Hund sieht einen Mann."),
    ("the man sees a dog.", "der Mann sieht einen Hund."),
    ("a cat sleeps.", "eine Katze schläft."),
    ("the cat sees a tree.", "die Katze sieht einen Baum."),
    ("a dog sleeps.", "ein Hund schläft."),
    ("the man sleeps.", "der Mann schläft."),
]
TRAIN = [Example(source, target) for source, target in PAIRS]


def test_the_nearest_sentences_translation_is_given():
    pytest.importorskip("sklearn")
    translate = nearest(TRAIN)
    assert translate([source for source, _ in PAIRS]) == [target for _, target in PAIRS]
    assert translate(["a cat sleeps well."]) == ["eine Katze schläft."]


def test_a_dictionary_translates_word_by_word_and_keeps_unknown_words():
    translate = dictionary(TRAIN, ("en", "de"))
    assert translate(["cat sleeps.", "man, Tom!"]) == ["Katze schläft.", "Mann, Tom!"]


def test_chinese_words_are_found_without_spaces():
    pairs = [("red dog", "红色的狗"), ("red cat", "红色的猫"), ("green dog", "绿色的狗"), ("green cat", "绿色的猫")] * 3
    translated = dictionary([Example(*pair) for pair in pairs], ("en", "zh"))(["dog", "cat"])
    assert [text[-1] for text in translated] == ["狗", "猫"]


def test_a_table_is_written_with_its_signature_and_provenance(tmp_path, capsys):
    pytest.importorskip("sklearn")
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(json.dumps({"src": source, "tgt": target}) + "\n" for source, target in PAIRS)
        )
    main([str(ROOT / "tasks/translation-multi30k.yaml"), f"data.path={tmp_path}", "--output", str(tmp_path / "t.md")])
    text = (tmp_path / "t.md").read_text()
    assert text == capsys.readouterr().out
    assert "| `translation-multi30k.yaml` | nearest | test | 100.00 |" in text and "| dictionary | test | " in text
    assert "BLEU|nrefs:1|case:mixed|eff:no|tok:13a" in text and "- seed 1, commit " in text
