"""Shapes in which people keep their data: COCO, SQuAD, Kaldi, tables with any delimiter, one file for all splits."""

import json

import pandas
import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.config.schema import Data
from seq2seq_suite.data.formats import BadRows
from seq2seq_suite.data.nested import read_nested
from seq2seq_suite.data.sources import read_rows
from seq2seq_suite.tasks.qa.passages import Passage
from seq2seq_suite.tasks.rows import open_split

COCO = {
    "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
    "categories": [{"id": 3, "name": "dog"}],
    "annotations": [
        {"image_id": 7, "category_id": 3, "bbox": [0, 1, 2, 3]},
        {"image_id": 7, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
    ],
}
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Tom",
            "paragraphs": [
                {
                    "context": "Tom sat. He left.",
                    "qas": [
                        {"id": "q1", "question": "Who sat?", "answers": [{"text": "Tom", "answer_start": 0}]},
                        {"id": "q2", "question": "Who left?", "answers": [{"text": "He", "answer_start": 9}]},
                    ],
                }
            ],
        }
    ],
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows(path, split="train", **options):
    return list(read_rows(str(path), split, splits={}, **options))


def error(path, split="train", **options):
    with pytest.raises(DataError) as caught:
        rows(path, split, **options)
    return caught.value


@pytest.mark.parametrize(
    ("annotations", "picture", "found"),
    [
        ("train.json", "a.png", "a.png"),
        ("train/_annotations.coco.json", "train/a.png", "a.png"),
        ("annotations/instances_train2017.json", "train2017/a.png", "../train2017/a.png"),
        ("train.json", "images/a.png", "images/a.png"),
    ],
)
def test_coco_is_read_with_its_pictures_wherever_they_lie(tmp_path, annotations, picture, found):
    write(tmp_path / annotations, COCO)
    write(tmp_path / picture, "")
    first, second = rows(tmp_path)
    assert first.fields["file_name"].removeprefix("./") == found
    assert first.fields["objects"] == {
        "bbox": [[0, 1, 2, 3], [0, 0, 9, 9]],
        "categories": ["dog", "dog"],
        "area": [None, None],
        "iscrowd": [0, 1],
    }
    assert second.fields["objects"] == {"bbox": [], "categories": []}


def test_squad_is_read_with_its_articles(tmp_path):
    write(tmp_path / "train-v1.1.json", SQUAD)
    found = rows(tmp_path)
    assert [
        (row.fields["question"], row.fields["answers"]["text"], row.fields["title"], row.line) for row in found
    ] == [("Who sat?", ["Tom"], "Tom", 1), ("Who left?", ["He"], "Tom", 2)]
    assert {row.fields["context"] for row in found} == {"Tom sat. He left."}


ROWS = [{"en": "one two", "de": "eins zwei"}, {"en": "a b", "de": "c d"}]


@pytest.mark.parametrize(
    "content",
    [
        {"data": ROWS},
        {"version": "1.0", "data": ROWS},
        {"rows": ROWS},
        {"info": {"by": "me"}, "train": ROWS},
        {"data": ROWS, "categories": [{"id": 1}]},
        {"schema": {"fields": []}, "data": ROWS},
        *(
            json.loads(pandas.DataFrame(ROWS).to_json(orient=orient))
            for orient in ("columns", "index", "split", "table")
        ),
        {"en": ["one two", "a b"], "de": ["eins zwei", "c d"]},
        {"x": ROWS[0], "y": ROWS[1]},
    ],
    ids=str,
)
def test_rows_of_json_are_found_wherever_they_are(tmp_path, content):
    write(tmp_path / "train.json", content)
    found = [{key: row.fields[key] for key in ("en", "de")} for row in rows(tmp_path)]
    assert found == ROWS


def test_an_object_that_is_a_row_stays_one(tmp_path):
    row = {"question": "Who?", "context": "Tom sat.", "answers": [{"text": "Tom"}]}
    assert read_nested(json.dumps(row), tmp_path / "a.json") is None
    assert read_nested(json.dumps({"translation": ROWS[0]}), tmp_path / "a.json") is None


def test_rows_of_several_splits_in_one_file_are_refused(tmp_path):
    found = error(write(tmp_path / "train.json", {"train": ROWS, "test": ROWS}))
    assert "several keys: train, test" in found.got and found.remedy


def kaldi(folder, **files):
    write(folder / "wavs/a.wav", "")
    tables = {
        "wav.scp": "u1 wavs/a.wav\nu2 wavs/b.wav\n",
        "text": "u2 HELLO\nu1 GOOD BYE\n",
        "utt2spk": "u1 ann\nu2 bob\n",
    } | files
    for name, content in tables.items():
        write(folder / "data/train" / name, content)
    return folder / "data"


def test_kaldis_tables_are_read_as_recordings_with_their_speakers(tmp_path):
    first, second = rows(kaldi(tmp_path))
    assert first.fields == {"audio": "../../wavs/a.wav", "text": "GOOD BYE", "id": "u1", "speaker": "ann"}
    assert (second.fields["text"], second.fields["speaker"], second.line) == ("HELLO", "bob", 2)


@pytest.mark.parametrize("blank", ["\t", "  ", " \t"])
def test_kaldis_keys_may_be_followed_by_any_blanks(tmp_path, blank):
    tables = {
        "wav.scp": f"u1{blank}wavs/a.wav{blank}\n\n",
        "text": f"u1{blank}GOOD  DAY\u3000X\r\n",
        "utt2spk": f"u1{blank}ann\n",
    }
    (found,) = rows(kaldi(tmp_path, **tables))
    assert found.fields == {"audio": "../../wavs/a.wav", "text": "GOOD  DAY\u3000X", "id": "u1", "speaker": "ann"}


def test_utterances_of_one_table_alone_are_counted(tmp_path):
    bad = BadRows(9)
    found = rows(kaldi(tmp_path, **{"text": "u1 A\nu2 B\nu3 C\nu4 D\n", "utt2spk": "u2 ann\nu5 ann\n"}), bad=bad)
    assert [row.fields.get("speaker") for row in found] == [None, "ann"]
    assert [line.rpartition(": ")[2] for line in bad.report()] == ["u3 has no recording", "u4 has no recording"]
    assert [note.partition(": ")[2] for note in bad.notes] == [
        "1 utterances have no speaker, the first u1",
        "1 utterances have a speaker, but no recording, the first u5",
    ]


@pytest.mark.parametrize("delimiter", [";", "|", "\t", ","])
def test_columns_are_separated_by_what_separates_their_names(tmp_path, delimiter):
    bad = BadRows(0)
    write(tmp_path / "train.csv", f'source{delimiter}target\n"a, b; c"{delimiter}d\n')
    assert rows(tmp_path, bad=bad)[0].fields == {"source": "a, b; c", "target": "d"}
    assert [note.rpartition(" ")[2] for note in bad.notes] == [repr(delimiter)] * (delimiter != ",")


@pytest.mark.parametrize("name", ["all.txt", "all.en", "train.txt"])
def test_one_file_is_cut_into_splits_without_overlap(tmp_path, name):
    folder = tmp_path / name
    write(folder, "".join(f"row {number % 150}\n" for number in range(200)))
    write(tmp_path / "all.de", "".join(f"Zeile {number % 150}\n" for number in range(200)))
    path = tmp_path / "all" if name == "all.en" else tmp_path if name == "train.txt" else folder
    data, bad = Data(path=str(path), split={"validation": 0.1, "test": 0.2}), BadRows(0)
    found = {
        split: [repr(row.fields) for row in open_split(data, split, bad, view="", languages=("en", "de"))]
        for split in ("train", "validation", "test")
    }
    assert sum(map(len, found.values())) == 200 and len(found["train"]) > 100 and min(map(len, found.values())) > 5
    assert not set(found["train"]) & set(found["validation"]) and not set(found["train"]) & set(found["test"])
    assert f"test: {len(found['test'])} of 200 rows, by a hash of each (data.split)" in bad.notes


@pytest.mark.parametrize("shares", [{"train": 0.5}, {"validation": 0.5, "test": 0.5}, {"test": 1.0}])
def test_train_keeps_rows(shares):
    with pytest.raises(ValueError, match=r"data\.split|less than"):
        Data(split=shares)


@pytest.mark.parametrize(
    ("content", "line", "got"),
    [
        ('{"images": [],\n "annotations": [}', 2, "invalid JSON"),
        (COCO | {"categories": None}, 0, "'categories' is None"),
        (
            COCO | {"annotations": [{"image_id": 9, "category_id": 3, "bbox": []}]},
            0,
            "annotation 1 is of the picture 9",
        ),
        (COCO | {"annotations": [{"image_id": 7, "category_id": 4, "bbox": []}]}, 0, "annotation 1 has the category 4"),
        (COCO | {"annotations": [5]}, 0, "annotation 1 is 5"),
        (COCO | {"images": COCO["images"] + COCO["images"][:1]}, 0, "'images' has the id 7 several times"),
        (
            COCO | {"annotations": [COCO["annotations"][0] | {"id": 1}] * 2},
            0,
            "annotation 2 has the id 1 of annotation 1",
        ),
        ({"data": [{"paragraphs": []}, {"title": "x"}]}, 0, "is no article"),
        ({"data": [{"paragraphs": [{"qas": [{"question": "Who?"}]}]}]}, 1, "question 1 is"),
    ],
)
def test_broken_annotations_are_said(tmp_path, content, line, got):
    found = error(write(tmp_path / "train.json", content))
    assert got in str(found) and found.line == line and found.expected and found.remedy


@pytest.mark.parametrize(
    ("tables", "name", "line", "got"),
    [
        ({"wav.scp": "u1 sph2pipe a.sph |\n"}, "wav.scp", 1, "u1 is a command"),
        ({"wav.scp": "u1 a.wav\nu3 c.wav\n"}, "wav.scp", 2, "u3 has no text"),
        ({"text": "u1\n"}, "text", 1, "nothing after 'u1'"),
        ({"text": "u1 \t \n"}, "text", 1, "nothing after 'u1'"),
        ({"text": "u1 A\nu2 B\nu1\tA\n"}, "text", 3, "u1 is there twice, first in line 1"),
        ({"wav.scp": "u1 a.wav\nu2 b.wav\nu2 c.wav\n"}, "wav.scp", 3, "u2 is there twice, first in line 2"),
        ({"utt2spk": "u1 ann\nu1 bob\n"}, "utt2spk", 2, "u1 is there twice"),
        ({"text": "u1 A\nu2 B\nu3 C\n"}, "text", 3, "u3 has no recording"),
        ({"wav.scp": "u1 raw.ark:1234\n"}, "wav.scp", 1, "u1 is in an archive"),
        ({"segments": "u1 a 0 1\n"}, "segments", 1, "parts of recordings"),
    ],
)
def test_broken_tables_of_recordings_are_said(tmp_path, tables, name, line, got):
    found = error(kaldi(tmp_path, **tables))
    assert got in str(found) and found.line == line and found.file.endswith(name) and found.remedy


def test_what_is_missing_of_parallel_text_is_said(tmp_path):
    for name in ("corpus.en", "corpus.de"):
        write(tmp_path / name, "a\n")
    found = error(tmp_path, languages=("en", "fr"))
    assert "corpus.de, corpus.en" in found.got and "train.en and train.de" in found.expected
    assert f"data.path={tmp_path / 'corpus'}" in found.remedy and "data.split={validation: 0.1" in found.remedy
    assert "data.split={test: 0.1}" in error(tmp_path, "test", languages=("en", "fr")).remedy


def test_the_message_on_a_folder_with_one_file_says_how_to_split_it(tmp_path):
    file = write(tmp_path / "all.csv", "a;b\n1;2\n")
    assert f"data.path={file}" in error(tmp_path).remedy
    write(tmp_path / "README.txt", "about")
    assert f"data.path={file}" in error(tmp_path).remedy


def test_japanese_and_chinese_are_read_sign_by_sign():
    passage = Passage.of("誰が来た？", "太郎が来た。花子は帰った。")
    assert passage.question == ("誰", "が", "来", "た", "？") and len(passage.sentences) == 2
    assert passage.texts() == ("太郎が来た。花子は帰った。", "誰が来た？")


def sound(path):
    return write(path, "RIFF")


def test_ljspeech_is_read_as_it_is(tmp_path):
    for name in ("L1", "L2"):
        sound(tmp_path / "wavs" / f"{name}.wav")
    write(tmp_path / "metadata.csv", 'L1|In 7 "days.|In seven "days.\nL2|Yes, he said.|\n')
    assert [row.fields for row in rows(tmp_path)] == [
        {"audio": "wavs/L1.wav", "id": "L1", "text": 'In seven "days.'},
        {"audio": "wavs/L2.wav", "id": "L2", "text": "Yes, he said."},
    ]
    write(tmp_path / "metadata.csv", "L1|one\nL2\n")
    assert "metadata.csv:2: 1 column" in str(error(tmp_path))


@pytest.mark.parametrize("folder", ["", "train"])
def test_texts_beside_recordings_are_rows_and_what_has_no_text_is_said(tmp_path, folder):
    for name in ("a", "b"):
        sound(tmp_path / folder / f"{name}.wav")
        write(tmp_path / folder / f"{name}.txt", f"\ufeffword {name}\nmore\n")
    assert [row.fields for row in rows(tmp_path)] == [
        {"audio": f"{name}.wav", "text": f"word {name} more"} for name in ("a", "b")
    ]
    sound(tmp_path / folder / "c.flac")
    assert "c.flac has no text" in str(error(tmp_path))


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_metadata_without_splits_is_train_and_can_be_cut(tmp_path, name):
    table = "file_name,text\n" + "".join(f"{number}.wav,word {number}\n" for number in range(50))
    lines = "".join(f'{{"file_name": "{number}.wav", "text": "word {number}"}}\n' for number in range(50))
    write(tmp_path / name, table if name.endswith("csv") else lines)
    write(tmp_path / "README.txt", "about these data\n")
    assert len(rows(tmp_path)) == 50
    found = error(tmp_path, "test")
    assert "data.split={validation: 0.1, test: 0.1}" in found.remedy
    data = Data(path=str(tmp_path), split={"test": 0.3})
    cut = [len(list(open_split(data, split, BadRows(0), view=""))) for split in ("train", "test")]
    assert sum(cut) == 50 and min(cut) > 5


def test_a_saved_data_set_without_splits_is_train_in_all_its_shards(tmp_path, capfd, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.enable_progress_bars()
    datasets.Dataset.from_dict({"text": list(map(str, range(7)))}).save_to_disk(str(tmp_path / "saved"), num_shards=2)
    capfd.readouterr()
    assert [row.fields["text"] for row in rows(tmp_path / "saved")] == list(map(str, range(7)))
    assert capfd.readouterr() == ("", "")
    assert "data.split" in error(tmp_path / "saved", "test").remedy
