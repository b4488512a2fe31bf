"""Tagging: rows of every kind give the same examples, outputs have a tag for each word, spans are seqeval's."""

import pytest
import torch
from task_tools import make_task, parser_batch, write_rows

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.types import END, SPECIALS, Hypothesis
from seq2seq_suite.tasks.tagging.automaton import OnePerWord

CONLLU = """# text = The dog's asleep
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_
2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_

1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""
TREE = "(S (NP-SBJ (DT The) (NN dog)) (VP (-NONE- *)))"
V = len(SPECIALS)


def read(folder, name, text, **keys):
    (folder / name).write_text(text)
    task = make_task("tagging", data={"path": str(folder / name)}, **keys)
    return [(example.source, example.reference, example.origin.rpartition(":")[2]) for example in task.read("train")]


def test_words_and_tags_come_from_files_of_every_kind(tmp_path):
    assert read(tmp_path, "a.conllu", CONLLU, tagging__tags_column="upos") == [
        (("The", "dog"), ("DET", "NOUN"), "2"),
        (("Go",), ("VERB",), "6"),
    ]
    first = [(("The", "dog"), ("DT", "NN"), "1")]
    assert read(tmp_path, "a.conll", "The DT\ndog NN\n\n\n") == first
    assert read(tmp_path, "b.conll", "The\tx\tDT\ndog\ty\tNN") == first
    assert read(tmp_path, "a.jsonl", '{"words": "The dog", "tags": ["DT", "NN"]}\n') == first
    assert read(tmp_path, "a.mrg", TREE) == first


def test_rows_whose_words_and_tags_do_not_match_are_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.jsonl:1: words and tags need one tag for each word"):
        read(tmp_path, "a.jsonl", '{"words": "The dog", "tags": "DT"}\n')
    with pytest.raises(DataError, match=r"a\.conll:2: 1 column"):
        read(tmp_path, "a.conll", "The DT\ndog\n")
    with pytest.raises(DataError, match="an empty sentence"):
        make_task("tagging").from_text(" ")


def fitted(tmp_path):
    folder = write_rows(tmp_path, [{"words": ["a", "dog"], "tags": ["DT", "NN"]}, {"words": ["go"], "tags": ["VB"]}])
    task = make_task("tagging", data={"path": folder}, tagging__min_count=1)
    examples = task.read("train")
    task.fit(examples)
    return task, examples


def test_encoding_and_reading_back_gives_the_tags(tmp_path):
    task, examples = fitted(tmp_path)
    task.save(tmp_path / "kept")
    other = make_task("tagging", tagging__min_count=1)
    other.load(tmp_path / "kept")
    assert other.shape() == task.shape()
    for example, item in zip(examples, other.encode(examples), strict=True):
        assert item.target[-1] == END and len(item.source) == len(example.source) + 2
        assert item.auxiliary["focus"].ravel().tolist() == list(range(1, len(example.source) + 2))
        assert task.read_hypothesis(Hypothesis(tuple(item.target[:-1].tolist()), 0.0), example) == example.reference
    short = Hypothesis((V,), 0.0)
    assert task.read_hypothesis(short, examples[0]) is None and task.to_text(None) == ""
    (tmp_path / "lines.txt").write_text("DT NN\n\n")
    assert task.read_references(tmp_path / "lines.txt") == [("DT", "NN"), None]


def test_every_output_that_the_automaton_allows_has_a_tag_for_each_word():
    automaton, batch = OnePerWord(V + 3), parser_batch([2, 1])
    state = automaton.start(batch, torch.tensor([9, 9]))
    for step, ended in enumerate(([False, False], [False, True], [True, True])):
        assert automaton.focus(state).tolist() == [[min(step, 2) + 1], [min(step, 1) + 1]]
        allowed = automaton.allowed(state)
        assert allowed[:, END].tolist() == ended and (allowed[:, V:].all(1) != allowed[:, END]).all()
        assert not allowed[:, [symbol for symbol in range(V) if symbol != END]].any()
        state = automaton.advance(state, torch.tensor([V, END]))


def test_the_best_output_takes_the_likeliest_tag_of_each_word():
    scores = torch.randn(2, 4, V + 3, generator=torch.Generator().manual_seed(1))
    best = OnePerWord(V + 3).best(scores, parser_batch([3, 1]))
    for row, words in enumerate((3, 1)):
        expected = [V + int(scores[row, place, V:].argmax()) for place in range(words)]
        assert best[row].tolist() == [*expected, *[END] * (4 - words)]


@pytest.mark.parametrize(
    ("tags", "line", "got"),
    [(["B-PER", "PER-B"], 2, "behind the kind"), (["B-PER", "NN"], 2, "marks no span"), (["U-PER", "S-PER"], 2, "mix")],
)
def test_tags_of_spans_are_of_one_known_scheme_in_data_and_in_scores(tmp_path, tags, line, got):
    folder = write_rows(tmp_path, [{"words": ["a"], "tags": [tag]} for tag in tags])
    task = make_task("tagging", data={"path": folder}, tagging__spans=True)
    with pytest.raises(DataError, match=got) as caught:
        task.read("train")
    assert f"train.jsonl:{line}" in str(caught.value)
    (tmp_path / "gold").write_text("\n".join(tags) + "\n")
    with pytest.raises(DataError, match=got) as caught:
        task.read_references(tmp_path / "gold")
    assert f"gold:{line}" in str(caught.value)
    assert len(make_task("tagging", data={"path": folder}).read("train")) == 2


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("null", "null"),
        ('["DT", ""]', "''"),
        ("3", "the number 3"),
        ('["DT", null]', "None"),
        ('{"a": 1}', "an object"),
    ],
)
def test_tags_that_are_none_are_named(tmp_path, tags, said):
    with pytest.raises(DataError, match="'tags' is ") as caught:
        read(tmp_path, "a.jsonl", f'{{"words": "The dog", "tags": {tags}}}\n')
    assert said in caught.value.got


def test_tags_that_are_not_filled_in_are_refused(tmp_path):
    with pytest.raises(DataError, match="tags are all '_'"):
        read(tmp_path, "a.conll", "The _\ndog _\n")
