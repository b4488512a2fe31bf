"""Metrics of tags: accuracy by word, and precision, recall and F1 of the spans that they mark."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score
from seq2seq_suite.metrics.names import numbered
from seq2seq_suite.metrics.span_schemes import as_bioes, scheme_of


def score_tags(
    references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str] | None], *, spans: bool = False
) -> Score:
    """Accuracy over words and sentences, in percent; a word without a predicted tag is wrong.

    An output of another number of tags than words is invalid: it has no spans, and of too many tags none is right, for
    nothing says which word each belongs to.

    Args:
        references: the tags of each sentence.
        predictions: None where the output was malformed.
        spans: the tags mark spans, in references and predictions in any of the schemes of `span_schemes`; a span is
            right if its kind and both ends are.

    Raises:
        DataError: tags mark no spans, or mix schemes.

    Source: seqeval (Nakayama 2018), which agrees with conlleval.

    >>> score = score_tags([["DT", "NN"], ["VB"]], [["DT", "VB"], None])
    >>> [round(score.figures[name], 2) for name in ("accuracy", "sentence_accuracy", "invalid_rate")]
    [33.33, 0.0, 50.0]
    >>> score_tags([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]], spans=True).figures["span_f1"]
    0.0
    """
    pairs = list(zip(predictions, references, strict=True))
    invalid = [given is None or len(given) != len(true) for given, true in pairs]
    found = [tuple(given or ()) if len(given or ()) <= len(true) else () for given, true in pairs]
    right = [sum(map(str.__eq__, given, true)) for given, true in zip(found, references, strict=True)]
    words = [len(true) for true in references]
    figures = {
        "accuracy": 100.0 * sum(right) / sum(words),
        "sentence_accuracy": 100.0 * sum(map(int.__eq__, right, words)) / len(words),
        "invalid_rate": 100.0 * sum(invalid) / len(words),
    }
    other = [place for place, (given, true) in enumerate(pairs) if given is not None and len(given) != len(true)]
    notes = (
        (
            f"{len(other):,} outputs have another number of tags than their sentence has words, and count as invalid: "
            f"{numbered(other)}",
        )
        if other
        else ()
    )
    if not spans:
        return Score(
            figures,
            f"tags|version:{__version__}",
            formula="mean",
            notes=notes,
            counts=tuple(zip(map(float, right), map(float, words), strict=True)),
        )
    from seqeval.metrics.sequence_labeling import get_entities

    gold_scheme, scheme = (scheme_of((tags, {}) for tags in side) for side in (references, found))
    spans_of = [
        (
            set(get_entities(as_bioes(true, gold_scheme))),
            set() if failed else set(get_entities(as_bioes(given, scheme))),
        )
        for true, given, failed in zip(references, found, invalid, strict=True)
    ]
    counts = [(float(len(true & given)), float(len(true)), float(len(given))) for true, given in spans_of]
    matched, gold, guess = map(sum, zip(*counts, strict=True))
    figures |= {
        "span_precision": 100.0 * matched / max(1.0, guess),
        "span_recall": 100.0 * matched / max(1.0, gold),
        "span_f1": 100.0 * 2.0 * matched / max(1.0, gold + guess),
    }
    return Score(
        figures,
        f"spans|seqeval:{version('seqeval')}|version:{__version__}",
        formula="f1",
        counts=tuple(counts),
        notes=notes,
    )
