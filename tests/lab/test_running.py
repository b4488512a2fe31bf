"""`lab run`: what is trained with what, what is said, and what is left behind."""

import json

import pytest

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.lab import running, starting
from seq2seq_suite.lab.folder import seed_of

pytestmark = pytest.mark.slow


def test_a_run_says_what_computes_and_how_far_it_is_from_the_suite(finished):
    text = "\n".join(finished[1])
    assert "one: attend, causal_mask of yours is plugged in" in text
    assert "calls of attend" in text and "first 20 losses against the suite's own: largest difference" in text
    assert "more than rounding" not in text and "never called" not in text
    assert "bleu" in text and text.endswith(f"now fill in {finished[0] / 'answers.yaml'}")
    page = (finished[0] / "runs" / "page.html").read_text(encoding="utf-8")
    assert f"drawn in {finished[0] / 'runs' / 'page.html'}" in text and "learning curve" in page.lower()


def test_a_run_leaves_behind_what_a_grader_needs(finished):
    record = running.read_lab_record(finished[0] / "runs" / "one")
    assert (record.assignment, record.student, record.seed) == ("tiny", "ada", seed_of("ada"))
    assert set(record.files) == {"attend.py", "masks.py", "greedy.py"} and set(record.data) == {"train", "validation"}
    assert record.calls["attend"] > 40 and len(record.losses) == running.COMPARED
    assert running.is_alike(record.losses, record.own_losses)
    assert {"bleu", "repeated", "invalid"} <= set(record.figures)


def test_a_run_keeps_its_weights_alone_and_no_links(finished):
    checkpoints = finished[0] / "runs" / "one" / "checkpoints"
    assert {str(file.relative_to(checkpoints)) for file in checkpoints.rglob("*") if file.is_file()} == {
        "best/model.safetensors",
        "best/state.json",
    }
    assert not [file for file in finished[0].rglob("*") if file.is_symlink()]


def test_a_run_from_another_searches_with_its_weights(finished):
    record = running.read_lab_record(finished[0] / "runs" / "again")
    assert not record.losses and record.calls == {"greedy": 8} and "decoding_seconds" in record.figures
    lines = (finished[0] / "runs" / "again" / "predictions" / "validation.jsonl").read_text().splitlines()
    before = (finished[0] / "runs" / "one" / "predictions" / "validation.jsonl").read_text().splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == [json.loads(line)["prediction"] for line in before[:8]]


def test_a_bug_is_seen_and_what_is_not_written_is_the_suites(begun):
    folder, said = begun("grace"), []
    text = (folder / "attend.py").read_text()
    (folder / "attend.py").write_text(text.replace("math.sqrt(query.size(-1))", "query.size(-1)"))
    (folder / "masks.py").write_text("def causal_mask(length, past=0):\n    raise NotImplementedError\n")
    running.run(folder, ["one"], said.append)
    text = "\n".join(said)
    assert "more than rounding: something differs" in text
    assert "not written yet, so the suite's own: causal_mask" in text


def test_what_cannot_be_run_is_named(begun, tmp_path):
    folder = begun("alan")
    with pytest.raises(ConfigError, match="there is no run two"):
        running.run(folder, ["two"])
    with pytest.raises(ConfigError, match="again goes on from one, which has not been run"):
        running.run(folder, ["again"], lambda line: None)
    with pytest.raises(DataError, match=r"lab start"):
        running.run(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base: nothing.yaml\nruns: {one: {}}\n", "nothing.yaml"),
        ("base: {task: translation}\nruns: {one: {plug: [atend]}}\n", "atend has no place in the core"),
        ("base: {task: translation}\nruns: {one: {from: two}}\n", "there is no run two above it"),
        ("base: {task: translation}\nruns: {one: {training.max_update: 3}}\n", "max_update"),
        ("base: {task: translation}\n", "'runs' is missing"),
    ],
)
def test_a_wrong_experiment_is_refused(begun, text, said):
    folder = begun("kurt")
    (folder / "experiment.yaml").write_text(text)
    with pytest.raises((ConfigError, DataError), match=said):
        running.run(folder)


def test_a_question_is_asked_in_the_students_language_with_its_choices_and_points():
    question = {"ask": "Which?", "ask_zh": "哪个？", "choices": ["a", "b"], "points": 1}
    assert starting.asking(question, "en") == "Which? [a | b]  (1 point)"
    assert starting.asking(question, "zh") == "哪个？ [a | b]  (1 分)"
    assert starting.asking({"ask": "Why?", "points": 2}, "zh") == "Why?  (2 分)"
