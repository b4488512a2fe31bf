"""Reading rows: formats, names of splits, and errors that name file, line and remedy."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pytest

from seq2seq_suite import miniworld
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.data import formats, lines
from seq2seq_suite.data.formats import BadRows, Row, with_names
from seq2seq_suite.data.sources import files_of, read_rows
from seq2seq_suite.miniworld import sentences


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def rows(path, split="train", *, splits=None, **options):
    return list(read_rows(str(path), split, splits=splits or {}, **options))


def error(path, split="train", **options) -> DataError:
    with pytest.raises(DataError) as caught:
        rows(path, split, **options)
    return caught.value


@pytest.fixture
def datasets(tmp_path_factory, monkeypatch):
    """The library, with its cache in a temporary folder."""
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
    return library


def texts(found):
    return [row.fields["text"] for row in found]


# Formats


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "TRAIN.JSONL"])
def test_json_lines_know_their_line_and_skip_blank_ones(tmp_path, name):
    file = write(tmp_path / name, '\ufeff{"text": "ein"}\r\n\n{"text": "zwei\u2028"}')
    assert rows(file) == [Row({"text": "ein"}, file, 1), Row({"text": "zwei\u2028"}, file, 3)]


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz"])
def test_csv_rows_begin_where_their_first_line_is(tmp_path, name):
    file = write(tmp_path / name, 'a,b\n1,"two\nlines"\n\n3,"say ""x"""\n')
    assert rows(file) == [Row({"a": "1", "b": "two\nlines"}, file, 2), Row({"a": "3", "b": 'say "x"'}, file, 5)]


def test_quotes_are_ordinary_characters_in_tsv(tmp_path):
    file = write(tmp_path / "train.tsv", 'a\tb\n"1\t2,\n3\t"4"\n')
    assert rows(file) == [Row({"a": '"1', "b": "2,"}, file, 2), Row({"a": "3", "b": '"4"'}, file, 3)]


def test_text_lines_are_rows(tmp_path):
    file = write(tmp_path / "train.txt", "one \r\n\ntwo")
    assert rows(file) == [Row({"text": "one "}, file, 1), Row({"text": "two"}, file, 3)]


@pytest.mark.parametrize("name", ["a.mrg", "a.ptb", "a.bracket", "a.trees", "a.parse", "a.mrg.gz"])
def test_trees_may_share_a_line_or_span_several(tmp_path, name):
    content = "\n( (S (NP (NN a))\n    (VP (VB b))) )\n(S (NN c)) (S (NN d))\n\n(S (NN -LRB-)\n)\n"
    file = write(tmp_path / name, content)
    found = rows(file)
    assert [row.line for row in found] == [2, 4, 4, 6]
    assert found[0].fields == {"tree": "( (S (NP (NN a))\n    (VP (VB b))) )"}
    direct = [str(tree) for _, tree in read_trees(content)]
    assert [str(next(read_trees(row.fields["tree"]))[1]) for row in found] == direct


def test_trees_without_indents_are_whole(tmp_path):
    file = write(tmp_path / "a.mrg", "(S\n(NP (NN a))\n(VP (VB b)))\n(S (NN c))\n")
    assert [row.line for row in rows(file)] == [1, 4]


def test_parquet_goes_through_datasets_offline(tmp_path, monkeypatch, datasets):
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    file = tmp_path / "train-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b"], "labels": [["x"], []]}), file)
    assert rows(tmp_path) == [
        Row({"text": "a", "labels": ["x"]}, str(file), 1),
        Row({"text": "b", "labels": []}, str(file), 2),
    ]


@pytest.mark.parametrize("content", ['[{"text": "a"}, {"text": "b"}]', '{"text": "a"}\n{"text": "b"}\n'])
def test_json_goes_through_datasets(tmp_path, content, datasets):
    file = write(tmp_path / "test.json", content)
    assert rows(tmp_path, "test") == [Row({"text": "a"}, file, 1), Row({"text": "b"}, file, 2)]


def test_a_folder_that_datasets_saved_can_be_read(tmp_path, datasets):
    datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a", "b"]})}).save_to_disk(tmp_path)
    assert texts(rows(tmp_path)) == ["a", "b"]


def test_pictures_come_as_they_are_stored(tmp_path, datasets):
    image = pytest.importorskip("PIL.Image")
    picture = io.BytesIO()
    image.new("RGB", (2, 2)).save(picture, "PNG")
    features = datasets.Features({"image": datasets.Image()})
    data = datasets.Dataset.from_dict({"image": [{"bytes": picture.getvalue(), "path": None}]}, features=features)
    data.to_parquet(tmp_path / "train.parquet")
    assert rows(tmp_path)[0].fields["image"]["bytes"] == picture.getvalue()


def test_the_hub_is_asked_for_subset_and_split_expression(monkeypatch, datasets):
    asked = []

    def load(path, **options):
        asked.append((path, options))
        return datasets.Dataset.from_dict({"text": ["a"]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert rows("owner/some-set", splits={"train": "train[:90%]"}, subset="en") == [
        Row({"text": "a"}, "owner/some-set", 1)
    ]
    assert asked == [("owner/some-set", {"name": "en", "data_files": None, "split": "train[:90%]"})]


def test_reading_text_does_not_import_datasets(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # an import would raise
    assert texts(rows(write(tmp_path / "a.txt", "a"))) == ["a"]
    assert "import of datasets halted" in error("some_set").got


# Names of splits


@pytest.mark.parametrize(
    "name", ["train.txt", "train.txt.gz", "train-00000-of-00002.txt", "train/any.txt", "train/deep/any.txt"]
)
def test_a_split_is_found_by_file_or_subfolder(tmp_path, name):
    write(tmp_path / name, "a")
    for other in ("test.txt", "training.txt", "other/train.txt", ".hidden/train.txt", "train/.hidden.txt"):
        write(tmp_path / other, "wrong")
    assert texts(rows(tmp_path)) == ["a"]


@pytest.mark.parametrize("name", ["validation", "dev", "valid", "val"])
def test_validation_has_several_names(tmp_path, name):
    write(tmp_path / f"{name}.txt", "a")
    assert texts(rows(tmp_path, "validation")) == ["a"]
    assert texts(rows(tmp_path, "tune", splits={"tune": "validation"})) == ["a"]


def test_the_given_name_goes_before_its_alternates(tmp_path):
    write(tmp_path / "validation.txt", "a")
    write(tmp_path / "dev.txt", "b")
    assert texts(rows(tmp_path, "validation")) == ["a"]
    assert texts(rows(tmp_path, "validation", splits={"validation": "dev"})) == ["b"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("wsj_0[2-9]*,wsj_1*", ["(A 02)", "(A 03)", "(A 10)"]),
        ("0[23]", ["(A 02)", "(A 03)"]),
        ("02, 10/", ["(A 02)", "(A 10)"]),
        ("0?/wsj_0[03]*", ["(A 00)", "(A 03)"]),
        ("10/wsj_1001", ["(A 10)"]),
        ("*", ["(A 00)", "(A 02)", "(A 03)", "(A 10)"]),
    ],
)
def test_a_treebank_is_split_by_ranges_of_files_and_folders(tmp_path, pattern, expected):
    for section in ("00", "02", "03", "10"):
        write(tmp_path / section / f"wsj_{section}01.mrg", f"(A {section})\n")
    assert [row.fields["tree"] for row in rows(tmp_path, splits={"train": pattern})] == expected


def test_a_subset_is_a_subfolder(tmp_path):
    write(tmp_path / "en" / "train.txt", "a")
    assert texts(rows(tmp_path, subset="en")) == ["a"]
    found = error(tmp_path, subset="em")
    assert found.file == str(tmp_path / "em")
    assert f"did you mean {tmp_path / 'en'}?" in found.remedy


def test_a_local_copy_of_one_subset_needs_no_subfolder(tmp_path):
    write(tmp_path / "train.txt", "a")
    assert texts(rows(tmp_path, subset="simplified")) == ["a"]


def test_metadata_goes_before_the_files_it_describes(tmp_path):
    file = write(tmp_path / "train" / "metadata.jsonl", '{"file_name": "a.txt"}')
    write(tmp_path / "train" / "a.txt", "words")
    assert rows(tmp_path) == [Row({"file_name": "a.txt"}, file, 1)]


def test_a_file_is_train_and_another_split_only_if_that_is_said(tmp_path):
    file = write(tmp_path / "odd.txt", "a")
    assert texts(rows(file, "train")) == texts(rows(file, "test", splits={"test": "train"})) == ["a"]
    for splits in ({}, {"test": "nothing"}):
        with pytest.raises(DataError, match="no split 'test': a single file") as caught:
            rows(file, "test", splits=splits)
        assert "data.split={" in caught.value.remedy and "data.test_splits" in caught.value.remedy


# Errors


def test_a_missing_path_offers_the_nearest_name(tmp_path):
    write(tmp_path / "genia" / "train.txt", "a")
    found = error(tmp_path / "gena")
    assert found.file == str(tmp_path / "gena")
    assert f"did you mean {tmp_path / 'genia'}?" in found.remedy
    assert f"did you mean {tmp_path / 'genia'}?" in error(tmp_path / "gena" / "train.txt").remedy
    assert found.expected == "a file, a folder with the subset, or the name of a data set of the Hub"
    assert error(tmp_path / "zzz").remedy == "correct the path or the subset"


def test_a_missing_relative_path_is_not_looked_up_on_the_hub(tmp_path, monkeypatch):
    write(tmp_path / "data" / "genia" / "train.txt", "a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    for path in ("data/gena", "./gena", "gena.jsonl", "data/deeper/gena"):
        assert error(path).got == "no such file or folder"
    assert "did you mean data/genia?" in error("data/gena").remedy


def test_a_split_may_be_a_link_to_a_folder_elsewhere(tmp_path):
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    (elsewhere / "part-1.txt").write_text("one\n", encoding="utf-8")
    (data / "train").symlink_to(elsewhere, target_is_directory=True)
    assert files_of(str(data), "train", splits={}) == [data / "train" / "part-1.txt"]


def test_a_split_without_files_lists_what_is_there(tmp_path):
    write(tmp_path / "test.txt", "a")
    found = error(tmp_path)
    assert (found.file, found.got) == (str(tmp_path), "no file of the split 'train'; there is test.txt")
    assert found.expected.startswith("train.*, train-*.* or train/")
    assert "data.splits" in found.remedy
    write(tmp_path / "empty" / "train.doc", "a")
    assert "there is train.doc" in error(tmp_path / "empty").got


@pytest.mark.parametrize("other", ["train.jsonl", "train.txt.gz"])
def test_a_split_in_several_formats_is_refused(tmp_path, other):
    write(tmp_path / "train.txt", "a")
    write(tmp_path / other, '{"text": "a"}')
    found = error(tmp_path)
    assert found.file == str(tmp_path)
    assert "train.txt" in found.got and other in found.got
    assert "write the extension under data.splits" in found.remedy
    assert texts(rows(tmp_path, splits={"train": other})) in (["a"], ['{"text": "a"}'])


@pytest.mark.parametrize(
    ("name", "content"),
    [("train.txt", "\n \n"), ("train.jsonl", ""), ("train.csv", "a,b\n"), ("train.csv", ""), ("train.mrg", "")],
)
def test_an_empty_split_is_refused(tmp_path, name, content):
    file = write(tmp_path / name, content)
    found = error(tmp_path)
    assert found.file == file
    assert "the split 'train' is empty" in found.got
    assert "data.splits" in found.remedy


def test_a_split_of_broken_rows_alone_is_empty(tmp_path):
    found = error(write(tmp_path / "a.jsonl", "x\ny\n"), bad=BadRows(5))
    assert "is empty, with 2 broken rows left out" in found.got


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    file = write(tmp_path / "train.doc", "a")
    found = error(file)
    assert (found.file, found.got) == (file, "'.doc' is not a known format")
    assert ".jsonl" in found.expected
    assert "convert" in found.remedy


BROKEN_ROWS = [
    ("a.jsonl", b'{"a": 1}\n{"a": \n{"a": 3}\n', 2, "invalid JSON at column", "an object such as"),
    ("a.jsonl", b'{"a": 1}\n\n["a"]\n{"a": 3}\n', 3, "a JSON value of type list, not an object", "an object such as"),
    ("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n{"a": 3}\n', 2, "the text is not UTF-8", "UTF-8"),
    ("a.txt", b"1\n\xff\n3\n", 2, "the text is not UTF-8", "UTF-8"),
    ("a.csv", b'a,b\n1,"1\n1"\n2\n3,3\n', 4, "1 columns", "2 columns: a, b"),
    ("a.csv", b'a,b\n1,1\n"2"x,2\n3,3\n', 3, "expected after", "2 columns: a, b"),
    ("a.csv", b'a,b\n1,1\n2,"\xe9\n2"\n3,3\n', 3, "the text is not UTF-8", "UTF-8"),
    ("a.tsv", b"a\tb\n1\t1\n2\t2\t2\n3\t3\n", 3, "3 columns", "2 columns: a, b"),
    ("a.mrg", b"(A 1)\n(B (A 2)\n(A 3)\n", 2, "cut short", "as many ')' as '('"),
    ("a.mrg", b"(A 1)\n(A 2))\n(A 3)\n", 2, "a closing bracket without its opening one", "(LABEL child ...)"),
    ("a.mrg", b"(A 1)\n(A\n \xe9)\n(A 3)\n", 2, "the text is not UTF-8", "UTF-8"),
    ("a.jsonl", b'{"a": 1}\n{"a": ' + b"[" * 100_000 + b'\n{"a": 3}\n', 2, "nested too deep", "an object such as"),
    ("a.jsonl", b'{"a": 1}\n{"a": "\\ude00"}\n{"a": 3}\n', 2, "\\ude00 is half a surrogate pair", "such as"),
    ("a.jsonl", b'{"a": 1}\n{"a": ["\\ud83d\\ude00", "\\ud83d"]}\n{"a": 3}\n', 2, "\\ud83d is half", "such as"),
    ("a.jsonl", b'{"a": 1}\n{"a": ' + b"9" * 5_000 + b'}\n{"a": 3}\n', 2, "more than 4,300 digits", "such as"),
    ("a.mrg", b"word\n(A 1)\n(A 3)\n", 1, "'word' is outside a tree", "(LABEL child ...)"),
]


@pytest.mark.parametrize(("name", "content", "line", "got", "expected"), BROKEN_ROWS)
def test_a_broken_row_is_reported_and_does_not_end_the_reading(tmp_path, name, content, line, got, expected):
    file = write(tmp_path / name, content)
    bad = BadRows(1)
    first, *_, last = (next(iter(row.fields.values())) for row in read_rows(file, "train", splits={}, bad=bad))
    assert str(first) in ("1", "(A 1)") and str(last) in ("3", "(A 3)")
    (report,) = bad.report()
    assert report.startswith(f"{file}:{line}: ") and got in report

    found = error(file)  # without a limit the first one is refused
    assert (found.file, found.line) == (file, line)
    assert got in found.got and expected in found.expected
    assert "raise data.max_bad_rows" in found.remedy


@pytest.mark.parametrize(
    ("name", "content", "line", "got", "remedy"),
    [
        ("a.csv", b"a,a\n1,1\n", 1, "does not name the columns", "line of column names"),
        ("a.csv", b"\n1,1\n", 1, "does not name the columns", "line of column names"),
        ("a.csv", b'"a"x,b\n1,1\n', 1, "does not name the columns", "line of column names"),
        ("a.csv", b"a,\xe9\n1,1\n", 1, "does not name the columns", "line of column names"),
        ("a.csv", b'a,b\n1,1\n2,"2\n3,3\n', 3, "unexpected end of data", "correct the row"),
        ("a.mrg", b"(S\n(A 1)\n(A 2)))\n(A 3)\n", 1, "cut short", "complete the tree"),
        ("a.mrg", b"(A 1)\n(A \xe9)\n(A 3\n", 2, "not UTF-8", "convert the file to UTF-8"),
        ("a.json", b'[{"a": 1}\n', 0, "cannot be loaded with Hugging Face datasets", "convert it to .jsonl"),
        ("a.parquet", b"no parquet", 0, "cannot be loaded with Hugging Face datasets", "convert it to .jsonl"),
    ],
)
def test_what_hides_the_rows_behind_it_is_refused_whatever_the_limit(
    tmp_path, name, content, line, got, remedy, datasets
):
    file = write(tmp_path / name, content)
    found = error(file, bad=BadRows(100))
    assert (found.file, found.line) == (file, line)
    assert got in found.got and remedy in found.remedy


def test_a_damaged_archive_is_refused(tmp_path):
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps({"a": list(range(9999))}).encode() + b"\n")[:-200])
    found = error(file, bad=BadRows(100))
    assert found.file == str(file)
    assert "the file cannot be read" in found.got
    assert "unpack it again" in found.remedy


def test_a_data_set_that_cannot_be_fetched_says_what_to_do(monkeypatch, tmp_path, datasets, capsys):

    def load(path, **options):
        raise ConnectionError("Couldn't reach the Hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", load)
    (tmp_path / "multi30k").mkdir()
    monkeypatch.chdir(tmp_path)
    found = error("multi3k")
    assert capsys.readouterr().err == "multi3k: no such local file or folder, asking the Hugging Face Hub\n"
    assert found.file == "multi3k"
    assert found.got == "cannot be loaded with Hugging Face datasets: ConnectionError: Couldn't reach the Hub"
    assert "did you mean multi30k?" in found.remedy
    assert "path of a local folder" in found.remedy and "HF_HUB_OFFLINE" in found.remedy


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv", "a.mrg", "a.jsonl.gz"])
def test_a_line_beyond_the_bound_is_refused_with_the_key_that_raises_it(tmp_path, name):
    file = write(tmp_path / name, '{"a": "(x"}\n' + "x" * 2**20 + "\n")
    found = error(file, bad=BadRows(100, longest=2**20))
    assert (found.file, found.line, found.got) == (file, 2, "a line of more than 1 megabytes")
    assert "raise data.max_row_megabytes" in found.remedy
    write(tmp_path / name, '{"a": "(x)"}\n' if "json" in name else '"a"\n(x 1)\n')
    assert name == "a.mrg" or rows(file, bad=BadRows(100, longest=2**20))


def test_cells_of_tables_may_be_as_long_and_over_several_lines_no_longer(tmp_path):
    file = write(tmp_path / "a.csv", 'a,b\n1,"' + "x" * 200_000 + '"\n2,"' + "y\n" * 9_000 + '"\n3,3\n')
    assert [len(row.fields["b"]) for row in rows(file)] == [200_000, 18_000, 1]
    write(tmp_path / "a.csv", 'a,b\n2,"' + "y\n" * 9_000 + '"\n3,3\n')
    found = error(file, bad=BadRows(100, longest=2**12))
    assert found.line == 2 and "field larger than field limit" in found.got
    assert "raise data.max_row_megabytes" in found.remedy


def test_an_archive_that_unpacks_to_many_times_its_size_is_refused(tmp_path, monkeypatch):
    for module in (formats, lines):
        monkeypatch.setattr(module, "UNPACKED", 2**14)
    found = error(write(tmp_path / "a.txt.gz", b"a\n" * 2**16), bad=BadRows(100))
    assert found.got == "the archive unpacks to more than 200 times its size" and 2**12 < found.line < 2**16
    assert len(rows(write(tmp_path / "b.txt.gz", "a\n" * 1000))) == 1000


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl", "a.csv"])
def test_nothing_but_empty_lines_for_long_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines, "_BLANK", 100)
    found = error(write(tmp_path / name, b"a\n" + b" \r\n" * 200), bad=BadRows(9999))
    assert (found.got, found.line) == ("more than 100 empty lines one after another", 102)


# Too many broken rows


def test_rows_beyond_the_limit_raise_and_the_first_are_listed(tmp_path):
    file = write(tmp_path / "a.jsonl", '{"a": 1}\n' + "broken\n" * 20)
    bad = BadRows(6)
    found = error(file, bad=bad)
    assert (found.file, found.line) == (file, 2)
    assert "7 broken rows, but data.max_bad_rows allows 6" in found.got
    assert [line for line in range(2, 9) if f"{file}:{line}: " in found.got] == [2, 3, 4, 5, 6]
    assert found.got.endswith("...")
    assert "data.max_bad_rows" in found.remedy
    assert len(bad.report()) == 7


def test_as_many_as_the_limit_are_put_up_with(tmp_path):
    bad = BadRows(2)
    assert len(rows(write(tmp_path / "a.jsonl", '{"a": 1}\nx\ny\n{"a": 2}\n'), bad=bad)) == 2
    assert len(bad.report()) == 2


def test_every_line_is_a_row_or_in_the_report(tmp_path):
    lines = ['{"a": 1}', "x", "[]", "", '{"a": 2}', "3"] * 5
    bad = BadRows(100)
    found = rows(write(tmp_path / "a.jsonl", "\n".join(lines)), bad=bad)
    assert len(found) + len(bad.report()) == sum(bool(line) for line in lines)


def test_a_tree_is_named_by_the_line_it_begins_on():
    text = "(S (NN a))\n\n(S\n  (NN b))\n(S (NN c))\n"
    assert [line for line, _ in read_trees(text, file="a.mrg")] == [1, 3, 5]


def test_parquet_that_unpacks_to_many_times_its_size_is_refused_before_it_is_read(tmp_path):
    import pyarrow.parquet

    file = tmp_path / "train.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a" * 30_000_000]}), file, compression="zstd")
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        next(read_rows(str(tmp_path), "train", splits={}))


def test_a_number_of_a_class_is_its_name_and_any_other_stays_a_number(datasets):
    kinds = datasets.Features({"kind": datasets.ClassLabel(names=["cat", "dog"])})
    assert [with_names({"kind": number}, kinds)["kind"] for number in (0, 1, 2, -1)] == ["cat", "dog", 2, -1]


@pytest.mark.parametrize(("split", "named"), [("compositional", True), ("validation", False)])
def test_a_missing_split_of_a_preset_may_be_left_out_of_the_tests(tmp_path, split, named):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(DataError) as caught:
        list(read_rows(str(tmp_path), split, splits={}))
    assert ("leave it out of data.test_splits" in caught.value.remedy) == named


def test_embedded_texts_are_generated_once_and_cached_for_later_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sentences.SIZES, "test", 60)
    generated = list(miniworld.rows("tags", "test"))
    first, again = (rows("miniworld", "test", subset="tags") for _ in range(2))
    assert [row.fields for row in first] == [row.fields for row in again] == generated
    (kept,) = tmp_path.rglob("rows.jsonl")
    before = kept.stat().st_ino
    assert len(list(rows("miniworld", "test", subset="tags"))) == len(generated) and kept.stat().st_ino == before
    kept.write_text('{"words": ["changed"]}\n', encoding="utf-8")
    assert [row.fields for row in rows("miniworld", "test", subset="tags")] == generated
    monkeypatch.setattr(miniworld, "version", lambda: "another")  # other code tells them anew
    assert [row.fields for row in rows("miniworld", "test", subset="tags")] == generated


def test_embedded_texts_are_generated_where_nothing_can_be_cached(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert next(iter(read_rows("miniworld", "test", subset="tags", splits={}))).fields == next(
        iter(miniworld.rows("tags", "test"))
    )


# Tables as other programs write them


@pytest.mark.parametrize(
    "header", ["en,de", " en , de ", "\ufeffen ,de", "sep=,\nen,de", '"sep=,"\r\n en,\tde', "\ufeffsep=,\nen,de"]
)
def test_a_table_reads_as_the_plain_one_however_its_header_is_written(tmp_path, header):
    found = rows(write(tmp_path / "a.csv", f"{header}\none two,eins zwei\n"))
    assert [row.fields for row in found] == [{"en": "one two", "de": "eins zwei"}]
    assert found[0].line == header.count("\n") + 2


def test_excels_first_line_names_the_delimiter_and_quotes_may_follow_blanks(tmp_path):
    assert rows(write(tmp_path / "a.csv", "sep=|\na|b\n1,2|3;4\n"))[0].fields == {"a": "1,2", "b": "3;4"}
    assert rows(write(tmp_path / "a.csv", 'a, b\n1, "2, 3"\n'))[0].fields == {"a": "1", "b": "2, 3"}


def test_a_column_name_that_is_there_twice_is_said(tmp_path):
    assert "'a' is there more than once" in error(write(tmp_path / "a.csv", "a,b, a\n1,2,3\n")).got


CELLS = [
    ["joy", "fear"],
    ["it's", 'say "x"', "a, b"],
    ["new\nline", "back\\slash"],
    [["a", "b"], ["c"]],
    {"text": ["a b"], "answer_start": [3]},
    [{"x": 1}, {"x": None}],
    {"bbox": [[0, 1.5, 2, 3]], "categories": ["dog"]},
    [None, "a"],
]


@pytest.mark.parametrize("how", ["python", "json", "numpy", "tuple"])
@pytest.mark.parametrize("value", CELLS, ids=str)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_printed_lists_and_objects_are_what_was_printed(tmp_path, name, value, how):
    def arrays(one):
        if isinstance(one, dict):
            return {key: arrays(inner) for key, inner in one.items()}
        plain = isinstance(one, list) and not any(isinstance(inner, list | dict) for inner in one)
        return np.array(one, dtype=object if isinstance(one[0], str | None) else None) if plain else one

    text = {
        "python": str,
        "json": json.dumps,
        "numpy": lambda one: str(arrays(one)),
        "tuple": lambda one: str(tuple(one) if isinstance(one, list) else one),
    }[how](value)
    with open(tmp_path / name, "w", newline="") as file:
        if name == "a.csv":
            csv.writer(file).writerows([["id", "cell"], ["1", text]])
        else:
            file.write(f"id\tcell\n1\t{text}\n")
    bad = BadRows(0)
    assert rows(str(tmp_path / name), bad=bad)[0].fields == {"id": "1", "cell": value}
    assert len(bad.notes) == 1 and "'cell' is the text of" in bad.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "[laughs]",
        "[1]",
        "(S (NN a))",
        "{x}",
        "['Tis the season",
        "['a' ... 'b']",
        "[]",
        "[[Link]]",
        "( 'a' )",
        "['a' + 'b']",
        "['a', b]",
        "[" * 5000,
        "null",
        "NA",
        "1e5",
    ],
)
def test_other_cells_stay_text(tmp_path, text):
    assert rows(write(tmp_path / "a.tsv", f"a\tb\n1\t{text}\n"))[0].fields["b"] == text
