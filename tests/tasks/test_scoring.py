"""Scoring files: whatever is wrong with them is answered with their name, and figures need no model."""

import json

import pytest
from task_tools import examples_of, installed, make_task, others

from seq2seq_suite.cli import app as cli
from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.metrics.significance import interval_of
from seq2seq_suite.tasks import TASKS, find_task

GOLD = {
    "parsing": "(S (NP (NN cats)) (VP (VBP sleep)))",
    "translation": "cats sleep all day",
    "qa": "cats ||| the cats",
    "multilabel": 'cats, "dogs, or wolves"',
    "asr": "cats sleep",
    "speech_translation": "cats sleep all day",
    "tagging": "NNS VBP",
    "summarisation": "cats sleep",
    "language_model": "cats sleep",
    "detection": json.dumps({"boxes": [[0, 0, 5, 5.5]], "labels": ["cat"]}),
}
GOLD |= {name: make_task(name).to_text(examples_of(name)[0].reference) for name in others(*GOLD)}
# Of references as their own predictions, where predictions are of the same form.
BEST = {name: 100 if find_task(name).higher_is_better else 0 for name in TASKS if name != "language_model"}


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    """Exit code, output and complaint of a score of two contents; None leaves a file out."""
    monkeypatch.chdir(tmp_path)

    def call(task, gold, given, *options):
        installed(task)
        for name, content in (("gold.txt", gold), ("given.txt", given)):
            if content is not None:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        code = cli.main(["score", task, "gold.txt", "given.txt", *options])
        out, complaint = capsys.readouterr()
        return code, out, complaint

    return call


@pytest.mark.parametrize("task", BEST)
def test_references_score_best_against_themselves(score, task):
    code, out, complaint = score(task, "\ufeff" + f"{GOLD[task]}\r\n" * 3, f"{GOLD[task]}\n" * 3, "--json")
    assert code == 0 and not complaint
    assert next(iter(json.loads(out)["figures"].values())) == pytest.approx(BEST[task])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "given.txt: there is no such file"),
        (b"caf\xe9\n", "given.txt:1: byte 3 is not UTF-8"),
        (b"", "given.txt: 0 predictions for 1 references in gold.txt"),
    ],
)
def test_an_unreadable_file_is_named(score, task, content, message):
    code, _, complaint = score(task, GOLD[task] + "\n", content)
    assert code == 2 and complaint.startswith(message)


@pytest.mark.parametrize("task", TASKS)
def test_two_empty_files_and_folders_are_no_references(score, task, tmp_path):
    code, _, complaint = score(task, b"", b"")
    assert code == 2 and complaint.startswith("gold.txt: there is no reference")
    (tmp_path / "gold.txt").unlink()
    (tmp_path / "gold.txt").mkdir()
    code, _, complaint = score(task, None, b"")
    assert code == 2 and complaint.startswith("gold.txt: this is a folder")


@pytest.mark.parametrize("task", ["parsing", "qa", "multilabel"])
def test_a_reference_that_is_missing_is_named_by_its_number(score, task):
    code, _, complaint = score(task, f"{GOLD[task]}\n\n", f"{GOLD[task]}\n" * 2)
    assert code == 2 and complaint.startswith("gold.txt: reference 2 is empty")


@pytest.mark.parametrize("task", BEST)
@pytest.mark.parametrize(("gold", "given"), [(2, 1), (4, 1), (1, 3)])
def test_blank_lines_at_the_end_of_a_file_are_no_entries(score, task, gold, given):
    lines = f"{GOLD[task]}\n" * 2
    code, out, complaint = score(task, lines + "\n" * (gold - 1), lines + "\n" * (given - 1), "--json")
    assert code == 0 and next(iter(json.loads(out)["figures"].values())) == pytest.approx(BEST[task])
    left_out = "gold.txt: 1 blank line left out" if gold == 2 else f"{max(gold, given) - 1} blank lines left out"
    assert left_out in complaint


def test_blank_lines_inside_count_in_outputs_and_never_shift_what_follows(score):
    tree = GOLD["parsing"]
    code, out, _ = score("parsing", f"{tree}\n\n{tree}\n", f"{tree}\n{tree}\n", "--json")
    assert code == 0 and json.loads(out)["figures"]["f1"] == 100
    code, out, _ = score("parsing", f"{tree}\n{tree}\n{tree}\n", f"{tree}\n\n{tree}\n", "--json")
    assert code == 0 and json.loads(out)["figures"]["f1"] == pytest.approx(80) and '"invalid_rate": 33.3' in out
    code, _, complaint = score("parsing", f"{tree}\n{tree}\n", f"{tree}\n\n{tree}\n")
    assert code == 2 and "3 predictions for 2 references in gold.txt; blank are 2" in complaint


def test_words_for_a_reference_without_any_are_insertions(score):
    jiwer = pytest.importorskip("jiwer")
    code, out, complaint = score("asr", "go on\n...\n\n", "go\nuh huh no\nyes\n", "--json")
    figures = json.loads(out)["figures"]
    expected = jiwer.process_words(["go on", "", ""], ["go", "uh huh no", "yes"])
    assert code == 0 and figures["wer"] == pytest.approx(100 * expected.wer) == 250
    assert figures["insertions"] == 200 and figures["deletions"] == 50
    assert "2 of 3 references have no word, so that every word there is an insertion: 2, 3" in complaint
    code, out, _ = score("asr", "...\n", "a b\n", "--json")
    assert json.loads(out)["figures"]["wer"] == pytest.approx(100 * jiwer.process_words([""], ["a b"]).wer)
    assert code == 0 and json.loads(out)["intervals"] == {}


@pytest.mark.parametrize("task", ["translation", "summarisation", "asr", "speech_translation", "qa"])
def test_the_best_of_several_references_counts(score, task, tmp_path):
    lines = [GOLD[task], "dogs bark all night"]
    (tmp_path / "other.txt").write_text("\n".join(["zzz yyy xxx www", lines[1]]))
    (tmp_path / "third.txt").write_text("\n".join(["zzz yyy xxx www"] * 2) + "\n\n")
    given = "\n".join(lines).replace("cats ||| the cats", "the cats")
    code, out, complaint = score(
        task, f"{lines[0]}\nzzz yyy xxx www\n", given, "--json", "--reference", "other.txt", "--reference", "third.txt"
    )
    found = json.loads(out)
    assert code == 0 and next(iter(found["figures"].values())) == pytest.approx(BEST[task])
    assert "third.txt: 1 blank line left out" in complaint
    assert all("nrefs:3" in found["signature"] for _ in [0] if task != "qa")


def test_several_references_are_of_free_text(score, tmp_path):
    (tmp_path / "other.txt").write_text("NNS VBP\n")
    code, _, complaint = score("tagging", "NNS VBP\n", "NNS VBP\n", "--reference", "other.txt")
    assert code == 2 and "outputs of task tagging have one each" in complaint and "leave out --reference" in complaint


def test_the_first_metric_has_its_bootstrap_interval(score):
    lines = ["cats sleep all day", "a dog barks at night", "two birds sing a song", "the man reads a book"]
    gold, given = "\n".join(lines), "\n".join([*lines[:2], "two birds sing", "the man has a book"])
    code, out, _ = score("translation", gold, given, "--json")
    found = json.loads(out)
    low, high = found["intervals"]["bleu"]
    score_there = score_translations(given.split("\n"), lines)
    assert code == 0 and [low, high] == interval_of(score_there) and low < found["figures"]["bleu"] < high <= 100
    assert f"{low:.2f} to {high:.2f}" in score("translation", gold, given)[1]


def test_answers_that_only_normalisation_makes_equal_are_named(score):
    code, out, complaint = score("qa", "A\n-5\nthe cat\n10,000\n3.14\n", ".\n5\nCat\n10000\n314\n", "--json")
    assert code == 0 and json.loads(out)["figures"]["exact_match"] == 100  # as SQuAD has it
    assert "3 answers count as right by SQuAD's normalisation alone" in complaint
    assert complaint.rstrip().endswith("1, 2, 5")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("3", "no objects"),
        ("[" * 100_000, "the JSON is nested too deep"),
        ("{", "invalid JSON"),
        ('{"boxes": []}', "0 boxes, labels None"),
        ('{"boxes": [[0, 0, 1, 1]], "labels": [1]}', "the label 1"),
        ('{"boxes": [[0, 0, 1, 1]], "labels": ["a", "b"]}', "1 boxes, labels ['a', 'b']"),
        ('{"boxes": [[0, 0, 1, 1]], "labels": ["a"], "scores": []}', "1 boxes, scores []"),
        ('{"boxes": [[0, 0, 1, 1]], "labels": ["a"], "scores": [NaN]}', "the scores [nan]"),
        ('{"boxes": [[0, 0, 1, NaN]], "labels": ["a"]}', "the box [0, 0, 1, nan]"),
        ('{"boxes": [[0, 0, 1, true]], "labels": ["a"]}', "the box [0, 0, 1, True]"),
        ('{"boxes": ["1234"], "labels": ["a"]}', "the box '1234'"),
        ('{"boxes": {"a": 1}, "labels": ["a"]}', "the boxes"),
        ('{"boxes": [[5, 0, 1, 1]], "labels": ["a"]}', "the box [5, 0, 1, 1]"),
        (f'{{"boxes": [[0, 0, 1, 1{"0" * 400}]], "labels": ["a"]}}', "the box [0, 0, 1, 10000"),
    ],
)
def test_lines_of_objects_are_read_strictly(score, line, message):
    code, _, complaint = score("detection", f"{GOLD['detection']}\n" * 2, f"{GOLD['detection']}\n{line}\n")
    assert code == 2 and complaint.startswith(f"given.txt:2: {message}")
    assert len(complaint) < 400


def test_a_class_that_no_reference_has_costs_no_precision(score):
    more = {"boxes": [[0, 0, 5, 5.5], [9, 9, 20, 20]], "labels": ["cat", "dog"], "scores": [0.9, 0.4]}
    code, out, _ = score("detection", GOLD["detection"], json.dumps(more), "--json")
    assert code == 0 and json.loads(out)["figures"]["ap50"] == pytest.approx(100)  # as pycocotools has it
    code, out, complaint = score("detection", '{"boxes": [], "labels": []}', json.dumps(more), "--json")
    assert code == 0 and json.loads(out)["figures"]["ap50"] == -1 and "no reference has an object" in complaint


def test_probabilities_of_texts_are_scored_and_nothing_else(score):
    code, out, _ = score("language_model", "ab c\n", "-2.772588722239781\n", "--json")
    assert code == 0 and json.loads(out)["figures"]["bits_per_character"] == pytest.approx(1.0)
    assert score("language_model", "3.50\n", "-1.0\n")[0] == 0
    for line in ("ab c", "nan", "0.5", "inf"):
        code, _, complaint = score("language_model", "ab c\nd\n", f"-1.0\n{line}\n")
        assert code == 2 and complaint.startswith(f"prediction 2 is '{line}'")
    assert "have no word" in score("language_model", "\n", "-1\n")[2]


def test_labels_of_any_length_are_read_and_broken_lines_named(score):
    many = ", ".join(f"label {number}" for number in range(20_000))
    assert score("multilabel", f"{many}\n", f"{many}\n")[0] == 0
    assert score("multilabel", "a\n", "x" * 200_000)[0] in (0, 2)  # csv's bound on a cell is one for the whole process
    code, _, complaint = score("multilabel", "a\na\n", "a\na\rb\n")
    assert code == 2 and complaint.startswith("given.txt:2: no labels")


def test_trees_beyond_the_bound_are_refused(score):
    deep = "(S " * 5_000 + "(NN cats)" + ")" * 5_000
    code, _, complaint = score("parsing", f"{GOLD['parsing']}\n", f"{deep}\n")
    assert code == 2 and complaint.startswith("given.txt:1: brackets nested deeper than 150")
    two = score("parsing", f"{GOLD['parsing']}\n(())\n", f"{GOLD['parsing']} {GOLD['parsing']}\n(())\n")[2]
    assert two.startswith("given.txt:1: 2 trees") or two.startswith("gold.txt: reference 2")


@pytest.mark.parametrize("task", ["translation", "parsing", "qa"])
def test_what_a_vocabulary_left_of_a_reference_is_named(score, task):
    gold = GOLD[task].replace("cats", "<unk>", 1)
    code, _, complaint = score(task, f"{GOLD[task]}\n{gold}\n{gold}\n", f"{GOLD[task]}\n" * 3)
    assert code == 0 and "'<unk>' is in reference 2 and the like in 1 others" in complaint
    _, _, complaint = score(task, f"{GOLD[task]}\n{gold}\n", f"{GOLD[task]}\n" * 2)
    assert "'<unk>' is in reference 2: references should be what people wrote" in complaint
