"""Names of metrics on pages, with unit and direction; numbers of items in notes."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {  # key -> name and unit, then what is better
    "f1": "F1 ↑",
    "precision": "precision ↑",
    "recall": "recall ↑",
    "exact_match": "exact match, % ↑",
    "average_crossing": "crossing brackets a sentence ↓",
    "no_crossing": "no crossing, % ↑",
    "two_or_less_crossing": "at most two crossings, % ↑",
    "tagging_accuracy": "tags right, % ↑",
    "invalid_rate": "invalid, % ↓",
    "empty_rate": "empty, % ↓",
    "bleu": "BLEU ↑",
    "chrf": "chrF ↑",
    "length_ratio": "length ratio → 1",
    "wer": "word error rate, % ↓",
    "cer": "character error rate, % ↓",
    "sentence_error_rate": "sentences with an error, % ↓",
    "substitutions": "substitutions, % ↓",
    "deletions": "deletions, % ↓",
    "insertions": "insertions, % ↓",
    "accuracy": "accuracy, % ↑",
    "sentence_accuracy": "sentences right, % ↑",
    "span_f1": "F1 of spans ↑",
    "span_precision": "precision of spans ↑",
    "span_recall": "recall of spans ↑",
    "micro_f1": "micro F1 ↑",
    "macro_f1": "macro F1 ↑",
    "hamming_loss": "Hamming loss ↓",
    "bits_per_character": "bits per character ↓",
    "word_perplexity": "perplexity of a word ↓",
    "rouge1": "ROUGE-1 ↑",
    "rouge2": "ROUGE-2 ↑",
    "rouge_l": "ROUGE-L ↑",
    "ap": "AP ↑",
    "ap50": "AP50 ↑",
    "ap75": "AP75 ↑",
    "valid": "one of the right texts, % ↑",
    "nearest": "BLEU, nearest right text ↑",
    "attachment": "doubtful phrases right, % ↑",
    "true_micro_f1": "micro F1, true labels ↑",
    "ambiguous_accuracy": "words with several tags, % ↑",
    "unknown_accuracy": "unknown words, % ↑",
}


def reached(figure: float, baseline: float | None, ceiling: float | None) -> float | None:
    """The share (%) of the way from a baseline to the best possible figure; None where one is not known.

    >>> reached(60.0, 20.0, 100.0), reached(60.0, None, 100.0)
    (50.0, None)
    """
    if baseline is None or ceiling is None or baseline == ceiling:
        return None
    return 100.0 * (figure - baseline) / (ceiling - baseline)


def metric_name(key: str) -> str:
    """A metric as a reader knows it; `task/metric` of a joint run keeps its task, an unknown key its words.

    >>> metric_name("exact_match"), metric_name("parsing/f1"), metric_name("my_own")
    ('exact match, % ↑', 'parsing: F1 ↑', 'my own')
    """
    task, slash, metric = key.rpartition("/")
    known = _NAMES.get(metric, metric.replace("_", " "))
    return f"{task}: {known}" if slash else known


def numbered(places: Sequence[int], *, most: int = 5) -> str:
    """The first few numbers, counted from 1, to end a message.

    >>> numbered([0, 4]), numbered(range(7))
    ('1, 5', '1, 2, 3, 4, 5 and 2 more')
    """
    more = f" and {len(places) - most:,} more" if len(places) > most else ""
    return ", ".join(str(place + 1) for place in places[:most]) + more
