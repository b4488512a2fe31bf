"""The translation task: rows as users have them, subwords there and back, and eight pairs learned by heart."""

import gzip
import json
import math

import numpy as np
import pytest
import torch
from making import strategy_of

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.tasks.translation import TranslationTask

PAIRS = [
    ("A dog barks.", "Ein Hund bellt."),
    ("The dog sees a man.", "Der Hund sieht einen Mann."),
    ("A man reads the book.", "Ein Mann liest das Buch."),
    ("The woman sleeps.", "Die Frau schläft."),
    ("A woman sees the dog.", "Eine Frau sieht den Hund."),
    ("The man gives her a book.", "Der Mann gibt ihr ein Buch."),
    ("Does the dog sleep?", "Schläft der Hund?"),
    ("She sleeps, he reads.", "Sie schläft, er liest."),
]
EXAMPLES = [Example(source, target, f"pairs.tsv:{line}") for line, (source, target) in enumerate(PAIRS, 2)]


def make_task(
    *, seed: int = 1, data: dict | None = None, strategy: dict | None = None, search: dict | None = None, **options
) -> TranslationTask:
    config = Config.model_validate(
        {
            "task": "translation",
            "seed": seed,
            "data": data or {},
            "strategy": strategy or {"kind": "autoregressive"},
            "search": search or {},
            "translation": {"vocabulary_size": 90, **options},
        }
    )
    return open_task("translation", config)


def fitted(**options) -> TranslationTask:
    task = make_task(**options)
    task.fit(EXAMPLES)
    return task


def pairs_of(task: TranslationTask, split: str = "train") -> list[tuple[str, str]]:
    return [(example.source, example.reference) for example in task.read(split)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


VARIANTS = [
    {},
    {"joint": False},
    {"source_subwords": "unigram", "target_subwords": "unigram"},
    {"source_subwords": "characters", "joint": False},
]


# -- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("src", "tgt"), ("source", "target"), ("en", "de"), None])
def test_columns_are_found_by_name(tmp_path, names):
    write_jsonl(
        tmp_path / "train.jsonl",
        [
            {"translation": {"de": target, "en": source}}
            if names is None
            else {names[1]: target, "id": 1, names[0]: source}
            for source, target in PAIRS
        ],
    )
    assert pairs_of(make_task(data={"path": str(tmp_path)})) == PAIRS


def test_columns_named_by_the_languages_come_before_others_and_choose_the_direction(tmp_path):
    write_jsonl(
        tmp_path / "train.jsonl",
        [{"en": source, "de": target, "src": "x", "tgt": "y", "fr": "z"} for source, target in PAIRS],
    )
    back = make_task(data={"path": str(tmp_path)}, source_language="de", target_language="en")
    assert pairs_of(back) == [(target, source) for source, target in PAIRS]


@pytest.mark.parametrize("name, separator", [("dev.tsv", "\t"), ("valid.csv", ",")])
def test_tables_are_read(tmp_path, name, separator):
    lines = [separator.join(row) for row in [("tgt", "src"), ("„Hund“", "a dog")]]
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert pairs_of(make_task(data={"path": str(tmp_path)}), "validation") == [("a dog", "„Hund“")]


def test_plain_parallel_files_are_read_packed_or_not(tmp_path):
    (tmp_path / "train.en").write_text("a dog\n\n  a   cat \n", encoding="utf-8")
    with gzip.open(tmp_path / "train.de.gz", "wt", encoding="utf-8") as file:
        file.write("ein Hund\n\neine Katze\n")
    examples = make_task(data={"path": str(tmp_path)}).read("train")
    assert [(example.source, example.reference) for example in examples] == [
        ("a dog", "ein Hund"),
        ("a cat", "eine Katze"),
    ]
    assert examples[1].origin == f"{tmp_path / 'train.en'}:3"
    assert len(make_task(data={"path": str(tmp_path / "train")}).read("train")) == 2


def test_parallel_files_are_found_by_the_names_the_splits_give_them(tmp_path):
    for stem in ("newstest.2016", "dev"):
        (tmp_path / f"{stem}.en").write_text("a dog\n")
        (tmp_path / f"{stem}.de").write_text(f"{stem}\n")
    task = make_task(data={"path": str(tmp_path), "splits": {"test": "newstest.2016"}})
    assert pairs_of(task, "test") == [("a dog", "newstest.2016")] and pairs_of(task, "validation") == [("a dog", "dev")]


def test_parallel_files_that_do_not_match_are_refused(tmp_path):
    (tmp_path / "train.en").write_text("a\nb\nc\n")
    with pytest.raises(DataError, match=r"train\.en exists, train\.de does not"):
        make_task(data={"path": str(tmp_path)}).read("train")
    (tmp_path / "train.de").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"train\.en:3: train\.de ends after 2 lines, train\.en is longer"):
        make_task(data={"path": str(tmp_path)}).read("train")
    (tmp_path / "train.de").write_bytes(b"a\n\xff\nc\n")
    with pytest.raises(DataError, match=r"train\.de:2: the text is not UTF-8"):
        make_task(data={"path": str(tmp_path)}).read("train")


@pytest.mark.parametrize(
    "row, got",
    [
        ({"src": "a", "tgt": " "}, "the de side is empty"),
        ({"text": "a"}, "the columns are text"),
        ({"translation": {"en": "a", "fr": "b"}}, "the languages under 'translation' are en, fr"),
        ({"src": "a", "tgt": None}, "'tgt' is null"),
        ({"src": "a " * 9, "tgt": "b"}, "a sentence of 9 words"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(tmp_path, row, got):
    write_jsonl(tmp_path / "train.jsonl", [{"src": "a dog", "tgt": "ein Hund"}, row])
    with pytest.raises(DataError) as caught:
        make_task(data={"path": str(tmp_path), "max_length": 8}).read("train")
    assert "train.jsonl:2" in str(caught.value) and got in str(caught.value) and "max_bad_rows" in str(caught.value)


def test_broken_rows_within_the_limit_are_listed_and_the_others_read(tmp_path, capsys):
    write_jsonl(tmp_path / "train.jsonl", [{"src": "a", "tgt": ""}, {"src": "a dog", "tgt": "ein Hund"}])
    assert pairs_of(make_task(data={"path": str(tmp_path), "max_bad_rows": 1})) == [("a dog", "ein Hund")]
    assert "train.jsonl:1: the de side is empty" in capsys.readouterr().out


def test_a_sentence_of_too_many_pieces_names_its_place():
    task = fitted(data={"max_length": 8})
    with pytest.raises(DataError, match=r"input\.txt:7: a sentence of \d+ pieces"):
        task.encode([task.from_text("incomprehensibilities", origin="input.txt:7")])
    with pytest.raises(DataError, match=r"input\.txt:8: an empty sentence"):
        task.from_text(" \t", origin="input.txt:8")


@pytest.mark.parametrize("target", ["de", "zh"])
def test_the_miniworld_is_read_in_two_languages(target):
    tokenizer = "zh" if target == "zh" else "13a"
    task = make_task(target_language=target, metric_tokenizer=tokenizer)
    found = {split: pairs_of(task, split) for split in ("validation", "test")}
    assert not {source for source, _ in found["validation"]} & {source for source, _ in found["test"]}
    assert all(source.isascii() and "  " not in f"{source}{pair}" for source, pair in found["test"])
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in text) == (target == "zh") for _, text in found["test"])
    with pytest.raises(DataError, match="compositional"):
        task.read("holdout")


def test_a_language_that_the_miniworld_has_not_is_refused():
    with pytest.raises(DataError, match="no column fr; the columns are en, de, zh"):
        make_task(target_language="fr").read("train")


# -- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS)
def test_every_target_survives_the_way_to_symbols_and_back(options):
    task = fitted(**options)
    for example, item in zip(EXAMPLES, task.encode(EXAMPLES), strict=True):
        assert task.target.parse(task.target.symbols(example.reference), example) == example.reference
        assert item.source[-1] == END and item.target[-1] == END
        assert task.read_hypothesis(Hypothesis(tuple(item.target[:-1].tolist()), 0.0), example) == example.reference
        assert task.source.pieces.decode(item.source[:-1].tolist()) == example.source


@pytest.mark.parametrize("options", VARIANTS)
def test_vocabularies_survive_saving(tmp_path, options):
    task, other = fitted(**options), make_task(**options)
    task.save(tmp_path / "vocabulary")
    other.load(tmp_path / "vocabulary")
    assert other.shape() == task.shape() and other.shape().source.shared == options.get("joint", True)
    for one, two in zip(task.encode(EXAMPLES), other.encode(EXAMPLES), strict=True):
        assert np.array_equal(one.source, two.source) and np.array_equal(one.target, two.target)


def test_an_initialised_front_end_brings_its_subwords_along(tmp_path):
    fitted().save(tmp_path / "vocabulary")
    others = [Example(f"{source} Now!", f"{target} Jetzt!") for source, target in PAIRS[:4]]

    def numbers(**keys) -> list[int]:
        config = Config.model_validate(
            {"task": "translation", "translation": {"vocabulary_size": 70}, "init_from": str(tmp_path), **keys}
        )
        task = open_task("translation", config)
        task.fit(others)
        return task.encode(EXAMPLES[:1])[0].source.tolist()

    assert numbers() == fitted().encode(EXAMPLES[:1])[0].source.tolist() != numbers(init_parts=["encoder"])
    with pytest.raises(DataError, match="no such subwords"):
        numbers(translation={"joint": False})


def test_the_language_of_a_beam_search_is_weighted_and_every_piece_but_the_end_has_a_bonus():
    task = fitted(strategy={"kind": "ctc"}, search={"beam_size": 2}, ngrams=2, ngram_weight=0.5, piece_bonus=3.0)
    task.count(EXAMPLES)
    piece, *_ = task.encode(EXAMPLES[:1])[0].target.tolist()
    probability, language = task.ngrams.probability, task.language()
    assert language((), piece) == pytest.approx(0.5 * math.log(probability((), piece)) + 3.0)
    assert language((piece,), END) == pytest.approx(0.5 * math.log(probability((piece,), END)))
    assert fitted().language() is None


def test_without_counts_there_is_no_language(tmp_path):
    fitted().save(tmp_path / "vocabulary")
    task = make_task(strategy={"kind": "ctc"}, ngrams=2)
    task.load(tmp_path / "vocabulary")
    with pytest.raises(ConfigError, match="has counted none"):
        task.language()


def test_a_run_that_begins_from_another_counts_its_own_targets_and_searches_with_them(tmp_path):
    def run(name, pairs, **others):
        for split in ("train", "validation", "test"):
            folder = tmp_path / f"{name} data"
            folder.mkdir(exist_ok=True)
            write_jsonl(folder / f"{split}.jsonl", [{"src": source, "tgt": target} for source, target in pairs])
        return s2s.train(
            {
                "task": "translation",
                "device": "cpu",
                "data": {"path": str(folder)},
                "strategy": {"kind": "ctc"},
                "backbone": {
                    "width": 16,
                    "feed_forward_width": 16,
                    "num_heads": 2,
                    "encoder_layers": 1,
                    "decoder_layers": 1,
                },
                "translation": {"vocabulary_size": 90, "ngrams": 2},
                "search": {"beam_size": 2},
                "training": {"max_updates": 1, "warmup_updates": 1, "threads": 1, "precision": "float32"},
                **others,
            },
            output=tmp_path / name,
        )

    first = run("first", PAIRS)
    second = run("second", PAIRS[:2], init_from=str(first.path), init_parts=["all"])
    counted = {one.path.name: one.task.ngrams.counts.sum() for one in (first, second)}
    ids = [len(item.target) for item in first.task.encode(EXAMPLES)]
    assert counted == {"first": sum(ids), "second": sum(ids[:2])}
    plain = s2s.load(second.path, settings=["translation.ngrams=0"]).predictions(["A dog barks."])
    rewarded = s2s.load(second.path, settings=["translation.piece_bonus=50"]).predictions(["A dog barks."])
    (few,), (many,) = next(iter(plain)), next(iter(rewarded))
    assert len(many.value) > len(few.value)


def test_an_example_without_reference_has_no_target():
    task = fitted()
    assert len(task.encode([task.from_text("A dog sleeps.")])[0].target) == 0


@pytest.mark.parametrize(
    "lowercase, seen",
    [("none", ("A dog", "Ein Hund")), ("source", ("a dog", "Ein Hund")), ("both", ("a dog", "ein hund"))],
)
def test_lower_case_is_a_choice_for_the_source_or_both(lowercase, seen):
    task = fitted(lowercase=lowercase)
    item = task.encode([Example("A dog", "Ein Hund")])[0]
    assert (task.source.pieces.decode(item.source), task.target.pieces.decode(item.target)) == seen
    perfect = task.score(["ein hund bellt laut"], ["Ein Hund bellt laut"]).figures["bleu"] == pytest.approx(100.0)
    assert perfect == (lowercase == "both")


def test_a_sentence_may_be_as_long_as_the_key_says_and_no_longer():
    task = make_task(data={"max_length": 3})
    assert task.from_text("a b c").source == "a b c"
    with pytest.raises(DataError, match="a sentence of 4 words"):
        task.from_text("a b c d")
    letters = make_task(data={"max_length": 3}, source_subwords="characters", target_subwords="characters")
    with pytest.raises(DataError, match="a sentence of 5 characters"):
        letters.from_text("a b c")


# -- judging and showing --------------------------------------------------------------------------------------------


def test_predictions_survive_writing_and_reading(tmp_path):
    task, path = make_task(), tmp_path / "predicted.txt"
    predictions = ["Ein Hund bellt.", "", "Ja\u2028nein"]
    path.write_text("".join(task.to_text(text) + "\n" for text in predictions), encoding="utf-8")
    assert task.read_references(path) == ["Ein Hund bellt.", "", "Ja nein"]
    assert task.presentation.for_terminal("Ja.") == "Ja." and task.to_text(None) == ""


def test_unreadable_references_are_named(tmp_path):
    with pytest.raises(DataError, match=r"gold\.txt: there is no such file"):
        make_task().read_references(tmp_path / "gold.txt")
    (tmp_path / "gold.txt").write_bytes(b"ja\n\xff\n")
    with pytest.raises(DataError, match=r"gold\.txt:2: byte 3 is not UTF-8"):
        make_task().read_references(tmp_path / "gold.txt")


def test_a_file_is_scored_with_the_options_given(tmp_path, capsys):
    for name, text in (("gold.txt", "他们看见一只大狗。\n"), ("predicted.txt", "他们看见一条大狗。\n")):
        (tmp_path / name).write_text(text * 2, encoding="utf-8")
    command = ["score", "translation", str(tmp_path / "gold.txt"), str(tmp_path / "predicted.txt")]
    assert cli.main(command) == 0 and "|tok:zh|" in capsys.readouterr().out
    assert cli.main([*command, "translation.metric_tokenizer=13a"]) == 0
    out, complaint = capsys.readouterr()
    assert "|tok:13a|" in out and "choose zh" in complaint
    assert cli.main([*command, "translation.metric_tokenizer=ja"]) == 2
    assert "expected: one of auto, 13a, intl, zh, ja-mecab" in capsys.readouterr().err


def test_figures_asked_for_are_there():
    figures = make_task(tokenised_lowercase_bleu=True).score(["ein Hund bellt ."], ["Ein Hund bellt."]).figures
    assert figures["tokenised_lowercase_bleu"] == pytest.approx(100.0) and figures["bleu"] < 100
    assert "tokenised_lowercase_bleu" not in make_task().score(["ja"], ["ja"]).figures


def test_tokenised_and_untranslated_text_is_pointed_out():
    task = make_task()
    assert task.inspect("train", EXAMPLES * 2) == []
    tokenised = [Example("A dog .", "Ein Hund .")] * 10
    assert "references look tokenised" in task.inspect("test", tokenised)[0]
    assert "sources look tokenised" in task.inspect("test", [Example("A dog .", "Ein Hund bellt.")] * 10)[0]
    some = [Example(text, text if place < 3 else "x") for place, text in enumerate("abcdefghij")]
    assert "3 of 10 targets are their sources" in task.inspect("test", some)[-1]
    assert "BLEU" in task.inspect("test", [*some[1:], Example("k", "x")])[-1]  # a fifth may be names and numbers
    assert task.row(some[9], "y") == {"src": "j", "tgt": "y"}
    assert "10 of 10 targets are their sources" in task.inspect("test", [Example("Hi", "Hi")] * 10)[-1]


# -- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"source_subwords": "characters", "joint": False}])
def test_eight_pairs_are_learned_to_exact_match(make_model, overfit, options):
    task = fitted(**options)
    items = task.encode(EXAMPLES)
    batch = collate(items, task.name)
    model = make_model(task.shape(), noise=0.0, width=48, feed_forward_width=96, encoder_layers=1, decoder_layers=1)
    assert (model.frontend.embedding is model.embedding) == task.shape().source.shared
    strategy = strategy_of(Autoregressive, label_smoothing=0.1)
    overfit(model, strategy, batch, updates=150)
    for beam_size in (1, 4):
        found = strategy.generate(
            model,
            batch,
            options=SearchOptions(beam_size=beam_size),
            limit=torch.full((len(items),), 60),
            constraint=task.constraint(),
        )
        texts = [task.read_hypothesis(best[0], example) for best, example in zip(found, EXAMPLES, strict=True)]
        assert texts == [example.reference for example in EXAMPLES]
        assert task.score(texts, texts).figures["exact_match"] == 100.0
