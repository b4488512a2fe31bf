"""What readers see as equal is equal: composed and decomposed texts are read, learned and scored alike."""

import json
from functools import partial
from unicodedata import normalize

import pytest
from task_tools import columns_of, installed, make_task, others, write_rows

from seq2seq_suite.cli import app as cli
from seq2seq_suite.data.formats import Row
from seq2seq_suite.tasks import find_task

SCRIPTS = (
    "\u00fcber fa\u00e7ade na\u00efve \u00c5ngstr\u00f6m",
    "\u03c4\u03b7 \u03b3\u03ac\u03c4\u03b1 \u1fb3",
    "\u0439\u043e\u0433\u0443\u0440\u0442 \u0457\u0445",
    "\u0915\u093c\u0932\u092e \u0921\u093c\u0930",
    "\uac1c\uac00 \uace0\uc591\uc774\ub97c",
    "con ch\u00f3 nh\u00ecn th\u1ea5y",
    "\u0643\u0622\u0628 \u0623\u062d",
    "\u304c\u3050 \u30d1\u30ea",
)  # Hindi's NFC is decomposed
ROWS = {
    "translation": lambda text: {"src": text, "tgt": f"{text}."},
    "summarisation": lambda text: {"text": text, "summary": text},
    "language_model": lambda text: {"text": text},
    "qa": lambda text: {"question": text, "context": f"{text}. {text}.", "answers": {"text": [text]}},
    "multilabel": lambda text: {"text": text, "labels": text.split()},
    "tagging": lambda text: {"words": text.split(), "tags": text},
    "parsing": lambda text: {"tree": f"(S {' '.join(f'({word} {word})' for word in text.split())})"},
}
ROWS |= {name: partial(dict.fromkeys, columns_of(name)) for name in others(*ROWS)}
LINES = {"parsing": lambda text: ROWS["parsing"](text)["tree"], "multilabel": lambda text: ", ".join(text.split())}
PERFECT = {
    "translation": {"bleu": 100, "chrf": 100, "exact_match": 100},
    "summarisation": {"rouge1": 100},
    "qa": {"exact_match": 100, "f1": 100},
    "multilabel": {"micro_f1": 100},
    "tagging": {"accuracy": 100},
    "parsing": {"f1": 100},
    "asr": {"wer": 0, "cer": 0},
    "speech_translation": {"bleu": 100},
}
PERFECT |= {
    name: {find_task(name).primary_metric: 100.0 * find_task(name).higher_is_better}
    for name in others(*PERFECT, "language_model")
}


@pytest.mark.parametrize("task", ROWS)
def test_rows_of_both_forms_give_the_same_examples_and_are_counted(task, tmp_path, capsys):
    found = {}
    for form in ("NFC", "NFD"):
        rows = [ROWS[task](normalize(form, text)) for text in SCRIPTS]
        made = make_task(task, data__path=write_rows(tmp_path, rows))
        examples = found[form] = made.read("train")
        made.fit(examples)
        found[f"{form} ids"] = [(item.source.tolist(), item.target.tolist()) for item in made.encode(examples)]
    assert found["NFC"] == found["NFD"] and found["NFC ids"] == found["NFD ids"]
    (said,) = [line for line in capsys.readouterr().out.splitlines() if "data.unicode" in line]
    assert said.startswith("train: 7 of 8 rows are changed")
    kept = make_task(task, data__path=str(tmp_path), data__unicode="none").read("train")
    assert kept != found["NFC"] and len(kept) == len(found["NFC"])


@pytest.mark.parametrize("task", PERFECT)
def test_scores_are_of_what_is_seen(task, tmp_path, monkeypatch, capsys):
    installed(task)
    monkeypatch.chdir(tmp_path)
    text = SCRIPTS[0]
    for name, form in (("gold", "NFC"), ("given", "NFD")):
        line = normalize(form, LINES.get(task, str)(text))
        (tmp_path / name).write_text(f"{line}\n" * 2, encoding="utf-8")
    for files in (("gold", "given"), ("given", "gold")):
        assert cli.main(["score", task, *files, "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)["figures"]
        assert {name: pytest.approx(value) for name, value in PERFECT[task].items()}.items() <= figures.items()


def test_names_of_labels_and_columns_are_read_in_one_form(tmp_path):
    name = "\u00fcber"
    (tmp_path / "labels.txt").write_text(f"x\n{normalize('NFD', name)}\n", encoding="utf-8")
    path = write_rows(tmp_path, [{"text": "a", "labels": [1]}, {"text": "b", "labels": [name]}])
    assert [one.reference for one in make_task("multilabel", data__path=path).read("train")] == [(name,), (name,)]
    path = write_rows(tmp_path, [{normalize("NFD", name): name, "tgt": "b"}])
    task = make_task("language_model", data__path=path, language_model__text_column=name)
    assert [one.reference for one in task.read("train")] == [name]


def test_names_of_files_stay_as_they_are(tmp_path):
    name = normalize("NFD", "\u00fc.png")
    task = make_task(
        "detection",
        data__path=write_rows(
            tmp_path, [{"file_name": name, "objects": {"bbox": [[0, 0, 5, 5]], "categories": ["x"]}}]
        ),
    )
    (row,) = task.open("train", None)
    assert row.fields["file_name"] == name and task.source.read(row).name.endswith(name)


def test_outputs_are_composed():
    from seq2seq_suite.common.examples import Example
    from seq2seq_suite.common.types import Hypothesis

    task = make_task("translation", translation__joint=False, translation__target_subwords="characters")
    pair = task.example(Row({"src": "a", "tgt": "u\u0308x"}, "a.jsonl", 1))
    task.target.fit([pair.reference])
    ids = task.target.pieces.encode("u\u0308")
    found = task.read_hypothesis(Hypothesis(tuple(ids), 0.0), Example("a", None))
    assert found == "\u00fc"
