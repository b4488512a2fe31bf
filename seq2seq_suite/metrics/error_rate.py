"""Word and character error rates, by jiwer."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from itertools import zip_longest

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.text import composed
from seq2seq_suite.metrics.names import numbered

# What is typed for an apostrophe: quotes, modifier letters, accents, primes; full-width, Armenian and Hebrew ones.
_APOSTROPHES = dict.fromkeys(map(ord, "‘’‛❛❜ʹʻʼʽˈꞋꞌ`´′‵＇｀՚׳"), "'")
_HIDDEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff"))  # hyphens, breaks and directions


def normalise(text: str, *, unified: bool = True) -> str:
    """Lower case in NFC, no punctuation but apostrophes inside words, one space between words.

    Args:
        text: a transcript.
        unified: whether all signs that are typed for an apostrophe are one, and invisible ones left out.

    >>> normalise("It's  TEN, isn't it? 'No'!")
    "it's ten isn't it no"
    >>> normalise("\\u201cDon\\u2019t\\u201d go"), normalise("Don\\u2019t", unified=False)
    ("don't go", 'don t')
    """
    text = composed(text.lower()).translate(_APOSTROPHES | _HIDDEN) if unified else text
    letters = [
        letter if letter == "'" or not unicodedata.category(letter).startswith(("P", "S")) else " "
        for letter in text.lower()
    ]
    return " ".join(word.strip("'") for word in "".join(letters).split() if word.strip("'"))


def error_rates(predictions: Sequence[str | None], references: Sequence[str], *others: Sequence[str]) -> Score:
    """Corpus metrics of transcripts; a missing prediction counts as an empty one.

    WER = 100 (S + D + I) / N over words, CER the same over characters, spaces among them, after `normalise`. Every word
    written for a reference without words is an insertion, as jiwer counts; where no reference has any, N is 1.

    Args:
        predictions: None for none.
        references: what was said.
        others: further references of each; the one with the least share of errors counts.

    Returns:
        Figures wer, cer, sentence_error_rate, substitutions, deletions, insertions (words, in percent of N) and
        empty_rate. Counts: (errors, words).

    Raises:
        ValueError: there is not one prediction for each reference.

    >>> score = error_rates(["go two", None], ["go to", "yes"])
    >>> score.figures["wer"], score.figures["cer"], score.figures["sentence_error_rate"]
    (66.66666666666666, 50.0, 100.0)
    """
    import jiwer

    if not references or any(len(some) != len(references) for some in (predictions, *others)):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    found = [normalise(text or "") for text in predictions]
    gold, *more = ([normalise(text) for text in some] for some in (references, *others))
    if more:
        gold = [
            min(texts, key=lambda text, output=output: jiwer.process_words([text], [output]).wer)
            for output, *texts in zip(found, gold, *more, strict=True)
        ]
    words, characters = jiwer.process_words(gold, found), jiwer.process_characters(gold, found)
    errors = [
        sum(
            max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)
            for chunk in chunks
            if chunk.type != "equal"
        )
        for chunks in words.alignments
    ]
    lengths = [len(text.split()) for text in gold]
    total = max(1, sum(lengths))
    figures = {
        "wer": 100.0 * words.wer,
        "cer": 100.0 * characters.cer,
        "sentence_error_rate": 100.0 * sum(count > 0 for count in errors) / len(errors),
        **{name: 100.0 * getattr(words, name) / total for name in ("substitutions", "deletions", "insertions")},
        "empty_rate": 100.0 * sum(not text for text in found) / len(found),
    }
    several = f"|nrefs:{1 + len(others)}" if others else ""
    signature = (
        f"wer|unit:word|cer:with_spaces|norm:nfc+lower+apostrophes+punctuation{several}"
        f"|jiwer:{version('jiwer')}|version:{__version__}"
    )
    empty = [place for place, length in enumerate(lengths) if not length]
    notes = (
        (
            f"{len(empty):,} of {len(gold):,} references have no word, so that every word there is an insertion: "
            f"{numbered(empty)}",
        )
        if empty
        else ()
    )
    return Score(
        figures,
        signature,
        formula="mean",
        notes=notes,
        counts=tuple(zip(map(float, errors), map(float, lengths), strict=True)) if any(lengths) else (),
    )


def word_errors(reference: str, prediction: str) -> list[tuple[str, str, str]]:
    """The errors of one transcript after `normalise`: (kind, word expected, word predicted), in order.

    >>> word_errors("Go to the town.", "go two the")
    [('substitution', 'to', 'two'), ('deletion', 'town', '')]
    """
    import jiwer

    gold, found = normalise(reference), normalise(prediction)
    if not gold:
        return [("insertion", "", word) for word in found.split()]
    errors = []
    for chunk in jiwer.process_words([gold], [found]).alignments[0]:
        expected = gold.split()[chunk.ref_start_idx : chunk.ref_end_idx]
        predicted = found.split()[chunk.hyp_start_idx : chunk.hyp_end_idx]
        kind = {"substitute": "substitution", "delete": "deletion", "insert": "insertion"}.get(chunk.type)
        if kind:
            errors += [(kind, *pair) for pair in zip_longest(expected, predicted, fillvalue="")]
    return errors
