"""bAbI's numbered lines become questions with the statements before them; wrong counts are not passed over."""

import io
import json
import tarfile

import pytest

from scripts.babi_text import convert, main, questions, texts
from seq2seq_suite.common.errors import DataError

STORY = (
    "1 Mary moved to the bathroom.\n2 John went to the hallway.\n3 Where is Mary? \tbathroom\t1\n"
    "4 Daniel went back.\n5 Where is Daniel?\thallway\t4\n"
    "1 The office is east of the hallway.\n2 How do you go?\ts,e\t1 1\n"
)


def test_a_question_has_the_statements_of_its_story_before_it():
    assert list(questions(STORY, task=19, name="path", file="x.txt")) == [
        {
            "task": 19,
            "name": "path",
            "question": "Where is Mary?",
            "answer": "bathroom",
            "context": "Mary moved to the bathroom. John went to the hallway.",
        },
        {
            "task": 19,
            "name": "path",
            "question": "Where is Daniel?",
            "answer": "hallway",
            "context": "Mary moved to the bathroom. John went to the hallway. Daniel went back.",
        },
        {
            "task": 19,
            "name": "path",
            "question": "How do you go?",
            "answer": "s e",
            "context": "The office is east of the hallway.",
        },
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("1 Mary left.\nMary left.\n", 2), ("1 Where is Mary?\thome\t1\n", 1), ("1 Mary left.\n2 Who left?\t\t1\n", 2)],
)
def test_a_broken_line_is_named(text, line):
    with pytest.raises(DataError, match=rf"qa1_x_test\.txt:{line}: "):
        list(questions(text, task=1, name="x", file="qa1_x_test.txt"))


def archive_of(folder, **files: str):
    path = folder / "babi.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(f"tasks_1-20_v1-2/en/{name}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_an_archive_and_its_folder_give_the_same_files(tmp_path):
    path = archive_of(tmp_path, qa1_one_train=STORY, qa1_one_test=STORY, LICENSE="free")
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # which Python 3.11.4 brought
        archive.extractall(tmp_path / "unpacked")
    assert texts(path, "en") == texts(tmp_path / "unpacked" / "tasks_1-20_v1-2", "en")
    assert set(texts(path, "en")) == {"qa1_one_train.txt", "qa1_one_test.txt"}
    with pytest.raises(DataError, match="en-10k"):
        texts(path, "en-10k")


def test_counts_are_checked_and_the_last_tenth_of_training_is_for_validation():
    files = {}
    for task in range(1, 21):
        for part, count in (("train", 20), ("test", 3)):
            files[f"qa{task}_x_{part}.txt"] = "".join(
                f"1 Fact {number}.\n2 Which?\t{number}\t1\n" for number in range(count)
            )
    splits, wrong = convert(files, train_questions=20, test_questions=3)
    assert not wrong and [len(rows) for rows in splits.values()] == [360, 40, 60]
    assert [row["answer"] for row in splits["validation"][:3]] == ["18", "19", "18"]
    del files["qa3_x_train.txt"]
    assert convert(files, train_questions=20, test_questions=3)[1] == ["task 3, train: 0 questions, published are 20"]


def test_missing_questions_stop_the_script_unless_they_are_accepted(tmp_path, capsys):
    path = archive_of(tmp_path, qa1_one_train=STORY, qa1_one_test=STORY)
    arguments = [str(path), "--folder", "en", "--output", str(tmp_path / "out")]
    assert main(arguments) == 2 and not (tmp_path / "out").exists()
    assert "task 2, test: 0 questions, published are 1,000" in capsys.readouterr().err
    assert main([*arguments, "--accept-counts"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "test.jsonl").read_text().splitlines()]
    assert [row["answer"] for row in rows] == ["bathroom", "hallway", "s e"]
    assert main([str(tmp_path / "nothing"), "--output", str(tmp_path)]) == 2
