"""Language models: windows, figures, judging and continuing against plain loops, eight texts by heart."""

import math
from functools import cache

import pytest
import task_tools
import torch
from hypothesis import given
from hypothesis import strategies as st
from making import strategy_of

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.data.batching import collate
from seq2seq_suite.data.subwords import clean_text
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.language_model import LanguageModel
from seq2seq_suite.tasks.language_model import LogProbability

TEXTS = (
    "the dog barks",
    "a cat sleeps",
    "the bird sings to a cat",
    "she runs",
    "he sees the dog",
    "cats and dogs",
    "birds sing",
    "a dog and a cat run",
)


def fitted(**keys):
    task = task_tools.make_task("language_model", language_model__subwords="characters", **keys)
    examples = [Example(text, text) for text in TEXTS]
    task.fit(examples)
    return task, examples


def beginnings(task, texts):
    return collate(task.encode([task.from_text(text) for text in texts]), "language_model")


@cache
def windowed(size):
    return task_tools.make_task("language_model", language_model__window=size)


@given(st.text(alphabet="ab ", max_size=60), st.integers(1, 12))
def test_windows_lose_nothing_but_spaces_between_them(text, size):
    task = windowed(size)
    text = clean_text(text)
    windows = task.windows(text)
    assert max(map(len, windows)) <= size and "".join(windows).replace(" ", "") == text.replace(" ", "")
    words = [word for window in windows for word in window.split()]
    if all(len(word) <= size for word in text.split()):
        assert words == text.split()


def test_rows_are_read_and_broken_ones_named(tmp_path):
    folder = task_tools.write_rows(tmp_path, [{"text": "a  b c"}, {"body": "x"}, {"text": " "}, {"text": 3}])
    with pytest.raises(DataError, match=r"train\.jsonl:2: no column text; the columns are body"):
        task_tools.make_task("language_model", data__path=folder).read("train")
    found = task_tools.make_task(
        "language_model", data__path=folder, data__max_bad_rows=3, language_model__window=3
    ).read("train")
    assert [example.reference for example in found] == ["a b", "c"]
    with pytest.raises(DataError, match="a prompt of 4 characters"):
        task_tools.make_task("language_model", language_model__window=3).from_text("abcd")


def test_texts_are_judged_by_the_product_of_all_steps(make_model):
    task, examples = fitted()
    model, strategy = make_model(task.shape()).requires_grad_(False), strategy_of(LanguageModel)
    batch = collate(task.encode(examples[:3]), "language_model")
    found = strategy.generate(model, batch, options=SearchOptions(), limit=torch.full((3,), 9))
    for example, (hypothesis,) in zip(examples, found, strict=False):
        total, cache, previous = 0.0, None, BEGIN
        alone = collate(task.encode([example]), "language_model")
        memory = model.prepare(model.encode(alone))
        cache = model.decoder.new_cache(memory.states.values)
        for step, symbol in enumerate([*task.target.pieces.encode(example.source), END]):
            x = model.embed(torch.tensor([[previous]]), memory, offset=step)
            hidden, cache = model.decode(x, None, memory, cache)
            total += float(model.logits(hidden, memory).log_softmax(-1)[0, 0, symbol])
            previous = symbol
        assert hypothesis.score == pytest.approx(total, abs=1e-3)
        found_one = task.read_hypothesis(hypothesis, example)
        names, each = zip(*found_one.pieces, strict=True)
        assert found_one == hypothesis.score and sum(each) == pytest.approx(total, abs=1e-3)
        assert list(names) == task.target.names([*task.target.pieces.encode(example.source), END])
        drawn = task.presentation.output_data(example, found_one)
        assert sum(bits for _, bits in drawn["pieces"]) == pytest.approx(drawn["bits"], abs=0.05)
        assert drawn["bits"] == pytest.approx(-total / math.log(2), abs=0.01)
    loss = strategy.loss(model, batch)
    assert -float(loss.sums["cross_entropy"]) == pytest.approx(sum(one.score for (one,) in found), rel=1e-4)


def test_surprise_is_charted_by_place_in_the_text():
    task, examples = fitted()
    found = [LogProbability(-3.0), LogProbability(-4.0)]
    found[0].pieces = tuple(("x", -math.log(2.0)) for _ in range(6))
    found[1].pieces = tuple(("x", -3 * math.log(2.0)) for _ in range(4))
    (panel,) = task.presentation.charts(examples[:2], found)
    (series,) = panel["series"]
    assert [(group, pytest.approx(bits), count) for group, bits, _, _, count in series["points"]] == [
        ("1\N{EN DASH}4", 2.0, 8),
        ("5\N{EN DASH}8", 1.0, 2),
    ]
    assert task.presentation.charts(examples[:1], [-3.0]) == []
    assert task.presentation.output_data(examples[0], "and then") == {"text": "and then"}


@pytest.mark.parametrize("beams", [1, 3])
def test_beginnings_of_any_length_are_continued_as_a_plain_loop_does(make_model, beams):
    task, _ = fitted()
    model, strategy, steps = make_model(task.shape()), strategy_of(LanguageModel), 6
    texts = ["the d", "", "she", "a c"]
    found = strategy.generate(
        model, beginnings(task, texts), options=SearchOptions(beam_size=beams), limit=torch.full((4,), steps)
    )
    alone = [
        strategy.generate(
            model, beginnings(task, [text]), options=SearchOptions(beam_size=beams), limit=torch.full((1,), steps)
        )[0]
        for text in texts
    ]
    assert [one[0].symbols for one in found] == [one[0].symbols for one in alone]
    if beams > 1:
        return
    for text, (hypothesis,) in zip(texts, found, strict=True):
        symbols = [BEGIN, *task.target.pieces.encode(text)]
        memory = model.prepare(model.encode(beginnings(task, [text])))
        for _ in range(steps - 1):
            visible = torch.ones(len(symbols), len(symbols)).tril().bool().unsqueeze(0)
            hidden, _ = model.decode(model.embed(torch.tensor([symbols]), memory), visible, memory)
            logits = model.logits(hidden, memory)[0, -1]
            logits[[PAD, BEGIN, UNKNOWN]] = -math.inf
            symbols.append(int(logits.argmax()))
            if symbols[-1] == END:
                break
        written = [symbol for symbol in symbols[1 + len(text) :] if symbol != END]
        assert list(hypothesis.symbols) == written


def test_eight_texts_are_learned_by_heart(make_model, overfit):
    task, examples = fitted()
    model, strategy = make_model(task.shape(), noise=0.0, width=32, feed_forward_width=64), strategy_of(LanguageModel)
    overfit(model, strategy, collate(task.encode(examples), "language_model"), updates=150)
    batch = collate(task.encode(examples), "language_model")
    judged = strategy.generate(model, batch, options=SearchOptions(), limit=torch.full((8,), 9))
    # The first letters are a choice among eight; all that follows is certain.
    assert task.score([one[0].score for one in judged], list(TEXTS)).figures["bits_per_character"] < 0.5
    texts = ["the d", "a c", "she", "birds"]
    found = strategy.generate(model, beginnings(task, texts), options=SearchOptions(), limit=torch.full((4,), 40))
    written = [task.read_hypothesis(one[0], task.from_text(text)) for one, text in zip(found, texts, strict=True)]
    assert written == ["the dog barks", "a cat sleeps", "she runs", "birds sing"]


def test_blanks_are_normalised_in_prompts_as_in_texts():
    task, _ = fitted()
    assert task.from_text("  the\u00a0 dog \n").source == "the dog"
