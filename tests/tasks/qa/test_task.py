"""The question-answering task: columns as users have them, passages, segments and the way back to answers."""

import json
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import task_tools
import torch
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from making import strategy_of
from task_tools import write_rows

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import SentenceShape
from seq2seq_suite.common.types import BEGIN, END, UNKNOWN, Hypothesis
from seq2seq_suite.config.config_file import load
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.data.formats import Row
from seq2seq_suite.experiments import verbs
from seq2seq_suite.metrics.answers import Gold
from seq2seq_suite.miniworld import rows as embedded
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.tasks.qa.passages import JOINER, Passage, words_of
from seq2seq_suite.tasks.qa.task import _holds

ROOT = Path(__file__).parents[3]
STORY = "Mary went to the park. Tom took the ball. Mary went home."
ROW = {"question": "Where is Mary?", "context": STORY, "answer": "home", "task": 2}
SQUAD = {
    "id": "5733",
    "title": "Notre_Dame",
    "context": "The school has a Main Building. Atop it is a gold dome.",
    "question": "What is atop the Main Building?",
    "answers": {"text": ["a gold dome", "gold dome", "a gold dome"], "answer_start": [45, 47, 45]},
}

make_task = partial(task_tools.make_task, "qa")


def read_one(folder, row, **keys) -> Example:
    return make_task(data__path=write_rows(folder, [row]), **keys).read("train")[0]


def test_our_columns_and_those_of_babi_on_the_hub_give_the_same_question(tmp_path):
    (tmp_path / "hub").mkdir()
    ours = read_one(tmp_path, ROW)
    hub = {"passage": STORY.replace(". ", ".\n") + "\n", "question": "Where is Mary?", "answer": "home", "task": 2}
    theirs = read_one(tmp_path / "hub", hub)
    assert (ours.source, ours.reference) == (theirs.source, theirs.reference)
    assert ours.reference == Gold(("home",), "2") and len(ours.source.sentences) == 3


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_squad_is_read_as_the_hub_serves_it(tmp_path, format):
    if format == "jsonl":
        write_rows(tmp_path, [SQUAD, SQUAD])
    else:
        import datasets

        datasets.Dataset.from_list([SQUAD, SQUAD]).to_parquet(str(tmp_path / "train-00000-of-00001.parquet"))
    task = make_task(data__path=str(tmp_path), qa__category_columns=["title"])
    one, two = task.read("train")
    assert one.reference == Gold(("a gold dome", "gold dome"), "Notre_Dame") == two.reference
    assert one.source.question == ("What", "is", "atop", "the", "Main", "Building", "?")
    task.fit([one])
    assert task.target.vocabulary.decode(task.encode([one])[0].target[:-1].tolist()) == ["a", "gold", "dome"]


def test_a_list_of_answers_and_another_category_column_are_accepted(tmp_path):
    row = {**ROW, "answer": ["at home", "home"], "type": "where"}
    assert read_one(tmp_path, row).reference == Gold(("at home", "home"), "2")
    assert read_one(tmp_path, row, qa__category_columns=["type"]).reference.category == "where"
    del row["task"]
    assert read_one(tmp_path, row).reference.category == "where"
    assert read_one(tmp_path, row, qa__category_columns=[]).reference.category == ""


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"answer": ""}, "no answer"),
        ({"answer": []}, "no answer"),
        ({"answer": 3}, "the answer is 3"),
        ({"answer": {"text": None}}, "the answer is None"),
        ({"question": None}, "no text in column 'question'"),
        ({"context": " "}, "no text in column 'context'"),
        ({"context": "word " * 40}, "44 words, 4 of them in the question"),
    ],
)
def test_a_broken_row_is_refused_with_its_place_and_a_remedy(tmp_path, change, got):
    write_rows(tmp_path, [ROW, {**ROW, **change}])
    with pytest.raises(DataError) as caught:
        make_task(data__path=str(tmp_path), data__max_length=30).read("train")
    assert "train.jsonl:2" in str(caught.value) and got in str(caught.value) and "remedy" in str(caught.value)


def test_missing_columns_are_named_beside_those_that_are_there(tmp_path):
    with pytest.raises(DataError, match="columns are text, label"):
        read_one(tmp_path, {"text": "x", "label": "y"})


def test_broken_rows_within_the_limit_are_listed_and_categories_left_out_are_counted(tmp_path, capsys):
    rows = [ROW, {**ROW, "answer": ""}, {**ROW, "task": 3}, {**ROW, "task": 3}]
    task = make_task(data__path=write_rows(tmp_path, rows), data__max_bad_rows=1, qa__keep_categories=[2])
    assert len(task.read("train")) == 1
    printed = capsys.readouterr().out
    assert "train.jsonl:2" in printed and "2 questions of other categories" in printed


def test_an_epoch_has_the_training_questions_of_a_category_as_often_as_said(tmp_path, capsys):
    folder = write_rows(tmp_path, [ROW, {**ROW, "task": 3}, {**ROW, "task": 4}])
    (tmp_path / "test.jsonl").write_text((tmp_path / "train.jsonl").read_text())
    task = make_task(data__path=folder, qa__repeats={3: 3, "4": 2})
    assert [example.reference.category for example in task.read("train")] == ["2", "3", "3", "3", "4", "4"]
    assert [example.reference.category for example in task.read("test")] == ["2", "3", "4"]
    assert not capsys.readouterr().out
    write_rows(tmp_path, [ROW, {**ROW, "task": 3, "answer": ""}])  # a broken row is one, however often it would be read
    make_task(data__path=folder, data__max_bad_rows=1, qa__repeats={3: 3, 5: 2}).read("train")
    assert "no question of category 3, 5, which qa.repeats names" in capsys.readouterr().out


def test_a_category_repeated_no_times_is_refused_as_a_number():
    with pytest.raises(ConfigError) as caught:
        load(ROOT / "tasks" / "qa.yaml", ["qa.repeats={2: 0}"])
    assert "got 0" in str(caught.value) and "a whole number" in caught.value.expected


@pytest.mark.parametrize(("keep", "kept"), [("first", [0]), ("last", [1, 2]), ("overlap", [0])])
def test_a_long_context_is_cropped_only_where_the_key_says_so_and_counted(tmp_path, capsys, keep, kept):
    row = {**ROW, "question": "Who went to the park?"}
    with pytest.raises(DataError, match=r"qa\.crop"):
        read_one(tmp_path, row, data__max_length=16)
    whole, cropped = read_one(tmp_path, row), read_one(tmp_path, row, data__max_length=16, qa__crop=keep)
    assert cropped.source.sentences == tuple(whole.source.sentences[place] for place in kept)
    printed = capsys.readouterr().out
    assert f"1 of 1 contexts cropped to data.max_length=16 words (qa.crop={keep}); " in printed
    assert f"{int(keep != 'last')} of these do not hold a right answer" in printed
    with pytest.raises(DataError, match="6 of them in the question"):
        read_one(tmp_path, row, data__max_length=6, qa__crop=keep)


PIECES = st.text(st.characters(codec="utf-8", exclude_characters=JOINER), max_size=12)


def test_a_context_that_just_fits_is_not_cropped(tmp_path):
    whole = read_one(tmp_path, ROW)
    assert len(whole.source) == 19 and read_one(tmp_path, ROW, data__max_length=19).source == whole.source
    with pytest.raises(DataError, match="19 words"):
        read_one(tmp_path, ROW, data__max_length=18)


@pytest.mark.parametrize(
    ("answer", "held"),
    [("Tom", False), ("Tommy", True), ("the park .", True), ("PARK", True), ("to the", True), ("went park", False)],
)
def test_an_answer_stands_in_a_context_as_whole_words(answer, held):
    assert _holds(Passage.of("Who?", "Tommy went to the park."), Gold(("no such word", answer))) == held


def test_a_category_may_be_nought():
    task = make_task(qa__category_columns=["task", "type"])
    fields = {"question": "Who?", "context": "Tom sat.", "answer": "Tom", "type": "x"}
    assert [
        task.example(Row({**fields, "task": number}, "rows.jsonl", 1)).reference.category for number in (0, None)
    ] == ["0", "x"]


def test_pieces_of_the_context_come_before_those_of_the_question():
    task = make_task(qa__encoding="pieces", qa__pieces=60)
    example = task.from_text("Where is Mary? ||| Mary went home. Tom left.")
    task.fit([Example(example.source, Gold(("home",)))])
    source = task.encode([example])[0].source.tolist()
    middle = source.index(END)
    assert source[0] == BEGIN and source.count(END) == 1
    assert task.source.pieces.decode(source[:middle]) == "Mary went home. Tom left."
    assert task.source.pieces.decode(source[middle:]) == "Where is Mary?"


def test_predictions_from_a_file_are_their_first_answers():
    figures = make_task().score([Gold(("x", "a")), Gold(("a", "x")), Gold(("a", "b"))], [Gold(("a",))] * 3).figures
    assert figures["exact_match"] == pytest.approx(200 / 3)


@cache
def unfitted():
    return make_task()


@settings(max_examples=200)
@given(text=PIECES)
def test_parsing_what_was_linearised_gives_the_answer(text):
    answer = " ".join(text.split())
    task = unfitted()
    symbols = task.target.symbols(Gold((answer,)))
    assert (task.target.parse(symbols, Example(None)) or "") == answer
    assert [symbol.removeprefix(JOINER) for symbol in symbols] == list(words_of(answer))


def test_tokens_carry_their_sentences_distance_counted_back_from_the_question(tmp_path):
    example = read_one(tmp_path, ROW)
    task = make_task()
    task.fit([example])
    source = task.encode([example])[0].source
    assert " ".join(task.source.words.decode(source[:, 0].tolist())) == (
        "Where is Mary ? Mary went to the park . Tom took the ball . Mary went home ."
    )
    assert source[:, 1].tolist() == [0] * 4 + [3] * 6 + [2] * 5 + [1] * 4


def test_sentences_stand_in_the_order_of_their_distance(tmp_path):
    example = read_one(tmp_path, ROW)
    task = make_task(qa__encoding="sentences")
    task.fit([example])
    item = task.encode([example])[0]
    assert item.source.shape == (4, 6) and isinstance(task.shape().source, SentenceShape)
    rows = [task.source.words.decode([number for number in row if number]) for row in item.source.tolist()]
    assert [" ".join(row) for row in rows] == [
        "Where is Mary ?",
        "Mary went home .",
        "Tom took the ball .",
        "Mary went to the park .",
    ]
    assert task.target.vocabulary.decode(item.target[:-1].tolist()) == ["home"] and item.target[-1] == END


def test_with_a_pointer_source_and_answers_share_one_vocabulary():
    task = make_task(qa__pointer=True)
    example = task.from_text("Where is Mary? ||| Mary went home.")
    example = Example(example.source, Gold(("home, sweet",)))
    task.fit([example])
    item = task.encode([example])[0]
    assert task.source.words.symbols == task.target.vocabulary.symbols and task.shape().source.copied
    assert item.target[0] == item.source[6, 0] and set(task.target.vocabulary.symbols) > {"home", "sweet", JOINER + ","}
    with pytest.raises(ValueError, match="use tokens"):
        make_task(qa__pointer=True, qa__encoding="sentences")


def test_lower_case_and_rare_words():
    task = make_task(qa__lowercase=True, qa__min_count=2)
    example = task.from_text("Where is MARY? ||| Mary went home.")
    assert example.source.question == ("where", "is", "mary", "?")
    task.fit([Example(example.source, Gold(("home",))), Example(example.source, Gold(("home",)))])
    other = task.encode([task.from_text("Where is Tom? ||| Mary went home.")])[0].source
    assert other[2, 0] == UNKNOWN and (other[:, 0] == UNKNOWN).sum() == 1


def test_a_typed_question_without_context_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"input\.txt:3.*empty"):
        make_task().from_text("Where is Mary?", origin="input.txt:3")


def test_vocabularies_survive_saving_and_predictions_survive_writing(tmp_path):
    task = make_task()
    examples = task.read("validation")[:50]
    task.fit(examples)
    task.save(tmp_path / "vocabulary")
    other = make_task()
    other.load(tmp_path / "vocabulary")
    assert other.shape() == task.shape()
    for example, one, two in zip(examples, task.encode(examples), other.encode(examples), strict=True):
        assert np.array_equal(one.source, two.source)
        symbols = tuple(one.target[:-1].tolist())
        assert other.read_hypothesis(Hypothesis(symbols, 0.0), example) == example.reference.answers[0]
    path = tmp_path / "answers.txt"
    path.write_text("".join(task.to_text(answer) + "\n" for answer in (Gold(("a b", "b")), None, "c")))
    assert task.read_references(path) == [Gold(("a b", "b")), None, Gold(("c",))]
    assert task.score([Gold(("b",)), None, "c"], [Gold(("a b", "b")), Gold(("x",)), Gold(("c",))]).figures[
        "exact_match"
    ] == pytest.approx(200 / 3)


def test_an_answer_that_no_model_has_places_for_is_a_bad_row(tmp_path):
    write_rows(tmp_path, [{"question": "Who?", "context": "A cat.", "answer": "a " * 9}])
    with pytest.raises(DataError, match="an answer of 9 words"):
        make_task(data__path=str(tmp_path), data__max_length=8).read("train")


@pytest.mark.parametrize("encoding", ["tokens", "sentences"])
def test_a_question_alone_is_encoded_and_scored_as_in_a_padded_batch(make_model, encoding):
    task = make_task(qa__encoding=encoding)
    examples = task.read("longer")[:40]
    examples[0] = Example(Passage(examples[0].source.question, examples[0].source.sentences[:2]), Gold(("yes",)))
    examples[1] = Example(examples[1].source, Gold(("in the garden",)))
    task.fit(examples)
    encoded = task.encode(examples)
    model, strategy = make_model(task.shape(), encoder_steps=2), strategy_of(Autoregressive)
    alone, padded = collate(encoded[:1], "qa"), collate(encoded[:2], "qa")
    size = alone.source.size(1)
    assert padded.source.size(1) > size and padded.target.size(1) > alone.target.size(1)
    torch.testing.assert_close(model.encode(padded).values[:1, :size], model.encode(alone).values, rtol=1e-4, atol=1e-4)
    parts = [strategy.loss(model, collate(encoded[row : row + 1], "qa")).sums["cross_entropy"] for row in (0, 1)]
    torch.testing.assert_close(strategy.loss(model, padded).sums["cross_entropy"], sum(parts), rtol=1e-4, atol=1e-4)


YAMLS = sorted((ROOT / "tasks").glob("qa*.yaml"))


def test_an_unknown_miniworld_split_lists_the_choices():
    with pytest.raises(DataError, match="longer"):
        make_task().read("holdout")


@pytest.mark.parametrize(
    "path", daily(YAMLS, ROOT / "tasks" / "qa-nat.yaml", ROOT / "tasks" / "qa-squad.yaml"), ids=lambda path: path.stem
)
def test_every_yaml_of_question_answering_trains_on_a_local_folder(path, tmp_path):
    row = {name: value for name, value in SQUAD.items() if name != "answers"}
    rows = [
        {**row, "answers": {"text": [answer], "answer_start": [0]}, "task": 1, "element": "x"}
        for answer in ("a gold dome", "the school", "it", "a dome") * 6
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "validation", "test", "longer"):
        write_rows(folder, rows, split=split)
    config = load(
        path,
        [
            f"data.path={folder}",
            "backbone.width=32",
            "backbone.feed_forward_width=32",
            "backbone.num_heads=4",
            "backbone.decoder_layers=1",
            "training.max_updates=2",
            "training.validate_every=2",
            "training.log_every=1",
            "training.threads=1",
            "device=cpu",
        ],
    )
    summary = verbs.run(config, tmp_path / "run", resume=False, overwrite=False, command=["test"])
    assert summary["updates"] == 2 and summary["primary_metric"] == "exact_match"
    assert set(config.data.test_splits) <= set(summary["splits"])
    details = json.loads((tmp_path / "run" / "predictions" / f"{config.data.test_splits[0]}.details.json").read_text())
    assert sum(entry["questions"] for entry in details["categories"].values()) == 24
    assert "By category" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("encoding", "pointer"),
    [
        ("tokens", True),
        pytest.param("tokens", False, marks=pytest.mark.slow),
        pytest.param("sentences", False, marks=pytest.mark.slow),
    ],
)
def test_eight_questions_are_learned_by_heart(encoding, pointer, tmp_path):
    config = Config.model_validate(
        {
            "task": "qa",
            "device": "cpu",
            "qa": {"encoding": encoding, "pointer": pointer},
            "backbone": {
                "width": 32,
                "feed_forward_width": 32,
                "num_heads": 4,
                "encoder_layers": 1,
                "encoder_steps": 2,
                "decoder_layers": 1,
                "dropout": 0.0,
            },
            "strategy": {"label_smoothing": 0.0},
            "data": {"path": str(tmp_path / "data"), "test_splits": ["train"]},
            "training": {
                "max_updates": 120,
                "learning_rate": 5e-3,
                "warmup_updates": 10,
                "validate_every": 120,
                "precision": "float32",
                "threads": 1,
            },
        }
    )
    (tmp_path / "data").mkdir()
    rows = list(embedded("questions", "train", size=8))
    for split in ("train", "validation"):
        write_rows(tmp_path / "data", rows, split=split)
    summary = verbs.run(config, tmp_path / "run", resume=False, overwrite=False, command=["test"])
    assert summary["splits"]["train"]["exact_match"] == 100.0


def test_a_question_without_an_answer_can_be_given_one():
    task = make_task()
    row = task.row(task.from_text("Where is Mary? ||| Mary went home."), "home")
    assert row == {"question": "Where is Mary ?", "context": "Mary went home .", "answers": ["home"]}


def test_no_answer_is_shown_as_such_and_written_as_an_empty_line():
    task = make_task()
    assert list(map(task.presentation.for_terminal, ("red dog", None))) == ["red dog", "(no answer)"]
    assert (task.to_text("red dog"), task.to_text(None)) == ("red dog", "")


def test_a_page_gets_question_context_answers_and_charts():
    from seq2seq_suite.common.examples import Example
    from seq2seq_suite.config.schema import Config
    from seq2seq_suite.metrics.answers import Gold
    from seq2seq_suite.prediction.open_task import open_task
    from seq2seq_suite.tasks.qa.passages import Passage

    config = Config(task="qa")
    task = open_task("qa", config)
    examples = [
        Example(
            Passage.of("Where is Tom?", "Tom left. Tom is in the garden. Mary sat."),
            Gold(("garden", "the garden"), "where"),
        ),
        Example(Passage.of("Who sat?", "Tom left. Mary sat."), Gold(("Mary sat",), "who")),
    ]
    assert task.presentation.source_data(examples[0]) == {
        "text": "Where is Tom ? ||| Tom left . Tom is in the garden . Mary sat .",
        "question": "Where is Tom ?",
        "sentences": ["Tom left .", "Tom is in the garden .", "Mary sat ."],
    }
    assert task.presentation.output_data(examples[0], examples[0].reference)["answers"] == ["garden", "the garden"]
    assert task.presentation.output_data(examples[0], "in the garden.")["answers"] == ["in the garden ."]
    assert task.presentation.facts(examples[1]) == {"kind": "who"}
    charts = task.presentation.charts(examples, ["a garden", "Tom"])
    assert {one["title"]: one["series"][0]["points"] for one in charts} == {
        "By kind of question": [["where", 100.0, None, None, 1], ["who", 0.0, None, None, 1]],
        "By distance of the answer": [["1", 0.0, None, None, 1], ["2", 100.0, None, None, 1]],
        "By length of the answer": [["1", 100.0, None, None, 1], ["2", 0.0, None, None, 1]],
    }
    named = [
        Example(one.source, Gold(one.reference.answers, name)) for one, name in zip(examples, ("10", "9"), strict=True)
    ]
    assert [point[0] for point in task.presentation.charts(named, ["", ""])[0]["series"][0]["points"]] == ["9", "10"]
    assert task.presentation.length(examples[1]) == 9.0
