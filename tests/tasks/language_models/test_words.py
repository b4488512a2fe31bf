"""The model of words: its probabilities, the scores of whole outputs, and what a search makes of them."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from daily import daily
from making import auxiliaries_of, strategy_of
from task_tools import make_task

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.model.layers import causal
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.tasks.language_models.words import WordModel, WordPairs

TEXTS = ("a b", "ab", "ab a ba", "ba ab ab", "bab b", "a b")
LETTERS = Vocabulary.build(Counter("".join(TEXTS)))
SYMBOLS = len(LETTERS)
SHAPE = Shape(TokenShape(11), TargetShape(SYMBOLS))
WORDS = sorted({word for text in TEXTS for word in text.split()})


def model_of(*, weight: float = 0.7, new_word: float = -3.0) -> WordModel:
    pairs = WordPairs(str.split)
    pairs.fit(TEXTS)
    return WordModel(pairs.counts(), LETTERS.encode, SYMBOLS, weight=weight, new_word=new_word)


def probability(word: str, before: str) -> float:
    """By the formula, over lists of words; the end of a text is the word '.', its beginning too."""
    texts = [[".", *text.split(), "."] for text in TEXTS]
    pairs = [pair for text in texts for pair in itertools.pairwise(text)]
    share = sum(one == word for _, one in pairs) / len(pairs)
    behind = [one for other, one in pairs if other == before]
    if not behind:
        return share
    return max(behind.count(word) - 0.7, 0) / len(behind) + 0.7 * len(set(behind)) / len(behind) * share


def score(text: str, model: WordModel) -> float:
    """Of a whole output, word by word."""
    total, before = 0.0, "."
    words = text.split(" ")
    for word in words[:-1] if words[-1] == "" else words:  # nothing stands behind a last space
        known = word in WORDS
        total += model.weight * math.log(probability(word, before)) if known else new(word, before, model)
        before = word if known else "?"
    return total + model.weight * math.log(probability(".", before))


def new(word: str, before: str, model: WordModel) -> float:
    """What a new word costs, at least as much as the longest beginning that it shares with a known word."""
    known = [[one for one in WORDS if f"{one} ".startswith(word[:length])] for length in range(1, len(word) + 1)]
    begun = [sum(probability(one, before) for one in words) for words in known if words]
    return min(model.new_word, model.weight * math.log(begun[-1]) if begun else 0.0)


def gained(model: WordModel, symbols: list[int]) -> float:
    """What the symbols and END add up to."""
    state, total = model.start(None, torch.tensor([9])), 0.0
    for symbol in [*symbols, END]:
        total += float(model.gains(state)[0, symbol])
        state = model.advance(state, torch.tensor([symbol]))
    return total


@pytest.mark.parametrize("before", [*WORDS, ".", "?"])
def test_the_words_behind_a_word_share_one(before):
    assert sum(probability(word, before) for word in [*WORDS, "."]) == pytest.approx(1.0)


def test_an_output_scores_the_sum_over_its_words():
    rng, model = random.Random(1), model_of()
    texts = ["".join(rng.choices("ab ", k=rng.randint(0, 9))) for _ in range(60)]
    assert any(set(text.split()) - set(WORDS) for text in texts) and any("  " in text for text in texts)
    for text in ["", *TEXTS, *texts]:
        assert gained(model, LETTERS.encode(text)) == pytest.approx(score(text, model), abs=1e-5), text


@pytest.mark.parametrize(("weight", "new_word"), [(0.7, -3.0), (6.0, -3.0), (1.0, 0.0)])
def test_no_symbol_raises_a_score(weight, new_word):
    rng, model = random.Random(2), model_of(weight=weight, new_word=new_word)
    for _ in range(40):
        text = "".join(rng.choices("ab ", k=rng.randint(0, 9)))
        state = model.start(None, torch.tensor([9]))
        for symbol in LETTERS.encode(text):
            state = model.advance(state, torch.tensor([symbol]))
        assert model.gains(state).max() <= 1e-6, text
        assert gained(model, LETTERS.encode(text)) == pytest.approx(score(text, model), abs=1e-4), text


def test_letters_of_known_words_share_one_everywhere():
    model, places = model_of(weight=1.0, new_word=-1000.0), set()
    for text in ("", "a", "a ", "b", "ba", "bab", "ab a b", "ba a"):
        state = model.start(None, torch.tensor([9]))
        for symbol in LETTERS.encode(text):
            state = model.advance(state, torch.tensor([symbol]))
        gains = model.gains(state)[0, [END, *LETTERS.encode("ab ")]]
        # A space is the word, END the word and the end: together the word.
        ends = gains[3] if state.place else gains[0]
        assert float(torch.stack((gains[1], gains[2], ends)).exp().sum()) == pytest.approx(1.0, abs=1e-5)
        places.add(int(state.place))
    assert len(places) > 4


def test_rows_are_independent():
    model = model_of()
    texts = [LETTERS.encode(text) for text in ("ab a", "b ab", "aaa ")]
    state = model.start(None, torch.tensor([9, 9, 9]))
    for symbols in zip(*texts, strict=True):
        state = model.advance(state, torch.tensor(symbols))
    kept = state.select(torch.tensor([2, 0]))
    for row, text in zip((1, 0), (texts[0], texts[2]), strict=True):
        alone = model.start(None, torch.tensor([9]))
        for symbol in text:
            alone = model.advance(alone, torch.tensor([symbol]))
        assert torch.equal(model.gains(kept)[row], model.gains(alone)[0])


def written(hypothesis) -> list[str]:
    return "".join(LETTERS.decode(hypothesis.symbols)).split()


# -- in a search ------------------------------------------------------------------------------------------------

SEARCHES = [
    {},
    {"beam_size": 4},
    {"sampling": True},
    {"ctc_weight": 0.4},
    {"ctc_weight": 0.4, "beam_size": 4},
    {"ctc_weight": 1.0},
    {"ctc_weight": 1.0, "beam_size": 4},
]


@pytest.fixture
def case(make_model, make_batch):
    """A rough model with outputs of some length, and three sources."""
    model = make_model(SHAPE, seed=7, noise=0.4)
    with torch.no_grad():
        model.output.bias[LETTERS.encode(" ")] += 1.0
    return model, make_batch([16, 9, 12], [2, 2, 2], target_symbols=SYMBOLS)


@pytest.fixture
def search(case):
    """Decodes the three, or some of them."""
    model, batch = case
    auxiliaries = auxiliaries_of(SHAPE, ctc=0.3, transcript=SYMBOLS)

    def decode(words, rows=(0, 1, 2), *, kernel="fast", **options):
        strategy = strategy_of(Assisted, target=SHAPE.target, auxiliaries=auxiliaries, noise=0.4, kernel=kernel)
        one = replace(batch, indices=(0, 1, 2)).select(rows)
        longest = int(one.source_mask.sum(1).max())
        one = replace(one, source=one.source[:, :longest], source_mask=one.source_mask[:, :longest])
        return strategy.generate(
            model,
            one,
            options=SearchOptions().changed(length_penalty=0.0, **options),
            limit=torch.full((len(rows),), 25),
            constraint=words,
        )

    return decode


@pytest.mark.parametrize("options", [one for one in SEARCHES if one != {"ctc_weight": 1.0}])  # the best path of CTC
def test_a_model_without_weight_changes_nothing(search, options):
    torch.manual_seed(1)
    free = search(None, **options)
    torch.manual_seed(1)
    assert search(model_of(weight=0.0, new_word=0.0), **options) == free


@pytest.mark.parametrize("kernel", daily(["fast", "plain"], "fast"))
@pytest.mark.parametrize("options", SEARCHES)
def test_where_new_words_are_too_dear_outputs_have_only_known_ones(search, kernel, options):
    free, known = (
        search(words, kernel=kernel, min_length=5, **options) for words in (None, model_of(new_word=-1000.0))
    )
    assert any(set(written(one)) - set(WORDS) for one, *_ in free)
    whole = [word for one, *_ in known for word in (written(one) if one.complete else written(one)[:-1])]
    assert whole and set(whole) <= set(WORDS)


@pytest.mark.parametrize("options", [one for one in SEARCHES if "sampling" not in one])
def test_a_batch_of_one_equals_the_same_sound_in_a_batch(search, options):
    together = search(model_of(), **options)
    for row, (found, *_) in enumerate(together):
        ((alone, *_),) = search(model_of(), (row,), **options)
        assert alone.symbols == found.symbols and alone.score == pytest.approx(found.score, abs=1e-3)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_hypothesis_scores_what_the_model_says_of_its_letters_and_of_its_words(case, search, beam_size):
    model, batch = case
    for row, (found, *_) in enumerate(search(model_of(), beam_size=beam_size)):
        memory = model.prepare(model.encode(batch)).select(torch.tensor([row]))
        previous = torch.tensor([[BEGIN, *found.symbols]])
        hidden, _ = model.decode(model.embed(previous, memory), causal(previous.size(1)), memory)
        logits = model.output(hidden)[0].index_fill(1, torch.tensor([PAD, BEGIN, UNKNOWN]), float("-inf"))
        letters = logits.log_softmax(-1).gather(1, torch.tensor([*found.symbols, END]).unsqueeze(1)).sum().detach()
        words = score("".join(LETTERS.decode(found.symbols)), model_of())
        assert found.score == pytest.approx(float(letters) + words, abs=1e-3)


# -- in a task --------------------------------------------------------------------------------------------------


@pytest.fixture
def make_fitted(tmp_path):
    """A task whose transcripts were counted, as a run saves and loads it."""

    def make(**keys):
        task, saved = make_task("asr", **keys), make_task("asr")
        for one in (saved.target, saved.words):
            one.fit([text.upper() + "." for text in TEXTS])
            one.save(tmp_path)
        for one in (task.target, task.words):
            one.load(tmp_path)
        return task

    return make


def test_a_task_counts_the_words_as_they_are_learned(make_fitted):
    model = make_fitted(asr__word_weight=0.7, asr__new_word=-3.0).constraint()
    letters = make_fitted().target.encode("ab a bba", {})
    assert gained(model, letters) == pytest.approx(score("ab a bba", model_of()), abs=1e-5)


def test_without_weight_there_is_no_model(make_fitted):
    assert make_fitted().constraint() is None


def test_a_run_without_counts_says_so(make_fitted, tmp_path):
    task = make_fitted(asr__word_weight=0.3)
    (tmp_path / "word_pairs.json").unlink()
    task.words.load(tmp_path)
    with pytest.raises(ConfigError, match="has no counts of words"):
        task.constraint()


def test_pieces_have_no_counts():
    assert [type(field).__name__ for field in make_task("asr", asr__subwords="bpe").target_fields] == ["Spoken"]
