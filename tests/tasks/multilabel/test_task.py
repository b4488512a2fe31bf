"""The multi-label task: rows as users have them, label order, and the way back to sets of labels."""

from functools import partial

import numpy as np
import pytest
import task_tools
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Sequence as ListOf
from task_tools import write_rows

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import SetShape
from seq2seq_suite.common.types import BEGIN, END, SPECIALS, UNKNOWN, Hypothesis
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.miniworld.topics import LABELS
from seq2seq_suite.tasks.multilabel.label_names import read_names
from seq2seq_suite.tasks.multilabel.task import MultilabelTask, above

ROWS = [
    {"text": "Oil prices rose .", "labels": ["crude"]},
    {"text": "Wheat and corn fell", "labels": ["wheat", "corn"]},
    {"text": "Wheat, again!", "labels": ["wheat"]},
]

make_task = partial(task_tools.make_task, "multilabel")


def fitted(**keys) -> MultilabelTask:
    task = make_task(multilabel__min_count=1, **keys)
    task.fit([Example(tuple(row["text"].lower().split()), tuple(row["labels"])) for row in ROWS])
    return task


def test_texts_become_words_and_labels_stay_as_given(tmp_path):
    write_rows(tmp_path, ROWS)
    examples = make_task(data__path=str(tmp_path)).read("train")
    assert examples[2].source == ("wheat", ",", "again", "!")
    assert examples[1].reference == ("wheat", "corn")
    assert examples[1].origin.endswith("train.jsonl:2")


def test_numbers_are_named_by_labels_txt_and_stand_for_themselves_without_it(tmp_path):
    write_rows(tmp_path, [{"text": "x", "labels": [2, 0]}])
    assert make_task(data__path=str(tmp_path)).read("train")[0].reference == ("2", "0")
    (tmp_path / "labels.txt").write_text("anger\nfear\njoy\n")
    assert make_task(data__path=str(tmp_path)).read("train")[0].reference == ("joy", "anger")


def test_names_in_the_folder_of_a_subset_come_before_those_beside_it(tmp_path):
    (tmp_path / "small").mkdir()
    write_rows(tmp_path / "small", [{"text": "x", "labels": [1]}])
    (tmp_path / "labels.txt").write_text("outer\nother\n")
    assert read_names(str(tmp_path), "small") == ("outer", "other")
    (tmp_path / "small" / "labels.txt").write_text("anger\n\n fear \n")
    assert read_names(str(tmp_path), "small") == ("anger", "fear") and read_names(str(tmp_path)) == ("outer", "other")
    assert make_task(data__path=str(tmp_path), data__subset="small").read("train")[0].reference == ("fear",)


def test_class_labels_of_a_hugging_face_data_set_come_by_name(tmp_path):
    features = Features({"text": Value("string"), "labels": ListOf(ClassLabel(names=["anger", "fear", "joy"]))})
    rows = Dataset.from_dict({"text": ["so happy", "oh no"], "labels": [[2], [1, 0]]}, features=features)
    rows.to_parquet(str(tmp_path / "train.parquet"))
    examples = make_task(data__path=str(tmp_path)).read("train")
    assert [example.reference for example in examples] == [("joy",), ("fear", "anger")]


def test_a_table_holds_labels_with_commas_between(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabels\nOil rose\tcrude, fuel\n")
    assert make_task(data__path=str(tmp_path)).read("train")[0].reference == ("crude", "fuel")


@pytest.mark.parametrize(
    "row, got",
    [
        ({"text": "x", "labels": []}, "no label"),
        ({"text": "x"}, "no column labels"),
        ({"text": "", "labels": ["a"]}, "no text in"),
        ({"text": 3, "labels": ["a"]}, "no text"),
        ({"text": "x", "labels": ["a", "a"]}, "twice"),
        ({"text": "x", "labels": [2]}, "unknown label 2"),
        ({"text": "x", "labels": [True]}, "unknown label True"),
        ({"text": "x", "labels": {"a": 1}}, "labels are"),
        ({"text": "x " * 9, "labels": ["a"]}, "9 words"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(tmp_path, row, got):
    (tmp_path / "labels.txt").write_text("a\nb\n")
    write_rows(tmp_path, [{"text": "x", "labels": ["a"]}, row])
    with pytest.raises(DataError) as caught:
        make_task(data__path=str(tmp_path), data__max_length=8).read("train")
    assert "train.jsonl:2" in str(caught.value)
    assert got in str(caught.value)


def test_a_misspelt_label_is_answered_with_the_nearest_name(tmp_path):
    (tmp_path / "labels.txt").write_text("crude\nwheat\n")
    write_rows(tmp_path, [{"text": "x", "labels": ["weat"]}])
    with pytest.raises(DataError, match="did you mean wheat"):
        make_task(data__path=str(tmp_path)).read("train")


def test_rows_without_a_label_are_examples_where_they_are_declared(tmp_path):
    write_rows(tmp_path, [{"text": "x", "labels": []}])
    task = make_task(data__path=str(tmp_path), multilabel__allow_empty=True)
    assert task.read("train")[0].reference == ()
    assert task.target.parse([], Example(("x",))) == ()
    assert make_task().target.parse([], Example(("x",))) is None


def test_long_texts_are_cut_where_it_is_declared_and_counted(tmp_path, capsys):
    write_rows(tmp_path, [{"text": "a b c d e", "labels": ["x"]}, {"text": "a", "labels": ["x"]}])
    task = make_task(data__path=str(tmp_path), data__max_length=3, multilabel__max_words=3, multilabel__min_count=1)
    examples = task.read("train")
    task.fit(examples)
    assert len(task.encode(examples)[0].source) == 3 + 2  # and the sentinels
    assert set(task.source.words.symbols) == {"a", "b", "c"}
    assert "1 of 2 texts are cut to their first 3 words (multilabel.max_words)" in capsys.readouterr().out


def test_labels_are_ordered_by_falling_frequency_or_as_given():
    assert fitted().target.symbols(("corn", "wheat")) == ["wheat", "corn"]
    assert fitted(multilabel__order="given").target.symbols(("corn", "wheat")) == ["corn", "wheat"]
    assert fitted().target.symbols(("never seen", "corn", "wheat")) == ["wheat", "corn", "never seen"]


def test_the_strategy_receives_how_sets_are_learned_and_decided():
    assert make_task().shape().target == SetShape(len(SPECIALS))
    assert make_task(multilabel__order="given", multilabel__head_weight=0.7).shape().target == SetShape(len(SPECIALS))
    chosen = make_task(
        multilabel__order="free",
        multilabel__head="pooled",
        multilabel__head_weight=0.7,
        multilabel__head_mixture=2.0,
        multilabel__decision="marginals",
    )
    assert chosen.shape().target == SetShape(
        len(SPECIALS), order="free", head="pooled", head_weight=0.7, head_mixture=2.0, marginals=True
    )
    assert make_task(multilabel__order="random").shape().target.order == "random"


def test_words_are_dropped_and_specials_are_not():
    source = fitted(multilabel__word_dropout=0.25).shape().source
    words = source.symbols - len(SPECIALS)
    assert words and source.dropped == (0.0,) * len(SPECIALS) + (0.25,) * words
    assert source.characters == 0


def test_encoding_and_reading_back_gives_the_labels():
    task = fitted()
    example = Example(("wheat", "rallies"), ("corn", "wheat"))
    item = task.encode([example])[0]
    assert item.source[:, 0].tolist() == [BEGIN, task.source.words.encode(["wheat"])[0], UNKNOWN, END]
    assert item.target[-1] == END
    prediction = task.read_hypothesis(Hypothesis(tuple(item.target[:-1].tolist()), 0.0), example)
    assert set(prediction) == {"corn", "wheat"}


@pytest.mark.parametrize("symbols", [["a", "a"], ["<unknown>"], ["a", "<pad>"], []])
def test_malformed_sequences_are_none(symbols):
    assert make_task().target.parse(symbols, Example(("x",))) is None


def test_the_automaton_allows_every_gold_sequence_of_the_miniworld():
    task = make_task()
    examples = task.read("validation")[:100]
    task.fit(examples)
    batch = collate(task.encode(examples), "multilabel")
    automaton = task.constraint()
    state = automaton.start(batch, batch.source_mask.sum(1))
    for column in range(batch.target.size(1)):
        chosen = automaton.allowed(state).gather(1, batch.target[:, column, None]).squeeze(1)
        assert chosen[batch.target_mask[:, column]].all()
        state = automaton.advance(state, batch.target[:, column])
    assert set(task.target.vocabulary.symbols) <= set(LABELS)


def test_vocabularies_survive_saving(tmp_path):
    task = fitted()
    task.save(tmp_path / "vocabulary")
    other = make_task()
    other.load(tmp_path / "vocabulary")
    assert other.shape() == task.shape()


def test_predictions_survive_writing_and_reading(tmp_path):
    task = make_task()
    predictions = [("class 9", "class 7"), None, ("a, b",)]
    path = tmp_path / "predicted.txt"
    path.write_text("".join(task.to_text(prediction) + "\n" for prediction in predictions))
    assert task.read_references(path) == predictions
    assert task.score(predictions, [("class 9",), ("x",), ("a, b",)]).figures["invalid_rate"] == pytest.approx(100 / 3)
    write_rows(tmp_path, [{"labels": ["class 9"]}], split="gold")
    assert task.read_references(tmp_path / "gold.jsonl") == [("class 9",)]


def test_an_unknown_miniworld_split_lists_the_choices():
    with pytest.raises(DataError, match="compositional"):
        make_task().read("holdout")


def marginals_of(task: MultilabelTask, **scores: float) -> Hypothesis:
    names = task.target.vocabulary.decode(range(len(task.target.vocabulary)))
    return Hypothesis((4,), 0.0, details={"marginals": tuple(scores.get(name, 0.0) for name in names)})


def test_labels_above_the_threshold_are_predicted_and_the_likeliest_if_none_is():
    task, example = fitted(multilabel__decision="marginals"), Example(("x",))
    task.threshold = 0.3
    assert task.read_hypothesis(marginals_of(task, wheat=0.4, corn=0.6, crude=0.2), example) == ("corn", "wheat")
    assert task.read_hypothesis(marginals_of(task, crude=0.2), example) == ("crude",)
    empty = fitted(multilabel__decision="marginals", multilabel__allow_empty=True)
    assert empty.read_hypothesis(marginals_of(empty, crude=0.2), example) == ()


def test_a_score_equal_to_the_threshold_is_not_above_it():
    names, scores = ["a", "b", "c"], np.array([0.5, 0.75, 0.625])
    assert above(names, scores, 0.625) == ("b",) and above(names, scores, 0.5) == ("b", "c")
    assert above(names, scores, 0.75) == ("b",) and above(names, scores, 0.75, allow_empty=True) == ()
    assert above(names, np.array([0.5, 0.25, 0.5]), 0.1) == ("a", "c", "b")  # of equal ones the first


def test_the_threshold_is_tuned_on_validation_and_kept(tmp_path):
    task = fitted(multilabel__decision="marginals")
    examples = [Example(("x",), ("wheat", "corn")), Example(("x",), ("wheat",)), Example(("x",), ("crude",))]
    found = [
        marginals_of(task, wheat=0.4, corn=0.35),
        marginals_of(task, wheat=0.4, corn=0.2),
        marginals_of(task, crude=0.9, wheat=0.25),
    ]
    log = task.tune(examples, lambda chosen: [[one] for one in found])
    assert 0.25 <= task.threshold < 0.35 and "100.00" in log
    task.save(tmp_path)
    other = make_task(multilabel__decision="marginals")
    other.load(tmp_path)
    assert other.threshold == task.threshold
    assert fitted().tune(examples, None) == ""


def test_rare_labels_gain_by_prior_adjustment_and_frequent_ones_lose():
    task = fitted(multilabel__decision="marginals", multilabel__prior_adjustment=1.0)
    rare, frequent = (
        task._adjusted(marginals_of(task, **{name: 0.5}))[task.target.vocabulary.symbols.index(name)]
        for name in ("corn", "wheat")
    )
    assert rare > 0.5 > frequent
    # Log-odds of zero less log 1 (or log 2) plus their mean over three labels, log(2) / 3.
    assert rare == pytest.approx(1 / (1 + 2 ** (-1 / 3)))


@pytest.mark.parametrize("keys", [{"pointer": True}, {"head_mixture": 1.0}, {"prior_adjustment": 1.0}])
def test_options_without_the_part_they_need_are_refused(keys):
    with pytest.raises(ValueError, match="needs multilabel"):
        Config.model_validate({"task": "multilabel", "multilabel": keys})


def test_a_page_gets_labels_and_charts_of_them():
    from task_tools import make_task

    from seq2seq_suite.common.examples import Example

    task = make_task("multilabel")
    examples = [Example("x", ("a", "b")), Example("y", ("a",)), Example("z", ("b", "c"))]
    assert task.presentation.output_data(examples[0], ("b",))["labels"] == ["b"]
    assert task.presentation.output_data(examples[0], None)["labels"] == []
    charts = {one["title"]: one for one in task.presentation.charts(examples, [("a", "b"), ("b",), ("b", "a")])}
    by_label = {
        one["name"]: {point[0]: point[1] for point in one["points"]}
        for one in charts["Precision and recall by label"]["series"]
    }
    assert by_label["precision"] == {"a": 50.0, "b": pytest.approx(200 / 3)}
    assert by_label["recall"] == {"a": 50.0, "b": 100.0, "c": 0.0}
    assert [point[:2] for point in charts["By number of labels"]["series"][0]["points"]] == [["1", 0.0], ["2", 50.0]]
    confused = charts["Labels given where others are missed"]
    assert (confused["rows"], sorted(confused["columns"])) == (["a", "c"], ["a", "b"])


def test_probabilities_of_labels_are_shown_and_held_against_how_often_they_are_right():
    task = fitted(multilabel__decision="marginals")
    examples = [Example(("x",), reference) for reference in (("wheat",), ("corn", "wheat"), ("crude",))]
    chances = ({"wheat": 0.94, "corn": 0.55}, {"wheat": 0.96, "corn": 0.57, "crude": 0.004}, {"wheat": 0.93})
    found = [
        task.read_hypothesis(marginals_of(task, **one), example) for one, example in zip(chances, examples, strict=True)
    ]
    assert found[1] == ("wheat", "corn")
    assert task.presentation.output_data(examples[1], found[1])["chances"] == [["wheat", 0.96], ["corn", 0.57]]
    (panel,) = (one for one in task.presentation.charts(examples, found) if one["title"] == "Calibration")
    right, given = (
        {
            point[0].replace("\N{EN DASH}", "-"): (pytest.approx(point[1], abs=0.01), point[4])
            for point in series["points"]
        }
        for series in panel["series"]
    )
    assert right == {"50-60": (50.0, 2), "90-100": (66.67, 3)} and given == {"50-60": (56.0, 2), "90-100": (94.33, 3)}
    assert "error 19.0 points" in panel["note"]  # (2 * 6 + 3 * 27.67) / 5
    assert not any(one["title"] == "Calibration" for one in task.presentation.charts(examples, [("wheat",), (), None]))


def test_thresholds_lie_evenly_in_log_odds():
    from seq2seq_suite.tasks.multilabel.task import _THRESHOLDS

    odds = np.log(np.array(_THRESHOLDS) / (1 - np.array(_THRESHOLDS)))
    assert np.allclose(odds, np.arange(-24, 13) / 4) and 0.5 in _THRESHOLDS
