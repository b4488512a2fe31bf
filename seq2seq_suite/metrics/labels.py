"""Metrics of predicted sets of labels: three averages of F1, Hamming loss and subset accuracy, by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from seq2seq_suite import __version__
from seq2seq_suite.common.examples import Score


def score_labels(
    references: Sequence[Iterable[str]], predictions: Sequence[Iterable[str] | None], *, labels: Sequence[str]
) -> Score:
    """The usual metrics of multi-label classification.

    A label that is never predicted, or an example without any label on both sides, has an F1 of 0 (scikit-learn's
    `zero_division=0`), so the macro average falls with every label that is never found.

    Args:
        references: the true labels of each example.
        predictions: the predicted ones; None for an output that is no set of labels, which counts as empty.
        labels: all labels that the macro average and the Hamming loss are taken over; any that appear in references
            or predictions alone are added, for leaving them out would hide what the model cannot know.

    Returns:
        A score with `figures` micro_f1, macro_f1, samples_f1, micro_precision, micro_recall, subset_accuracy and
        invalid_rate in percent, hamming_loss (the share of wrong decisions, 0 to 1) and labels_per_example.
        `details` has `labels`: label -> (true, predicted, matched), and `per_label`: rows of label, precision, recall,
        f1 in percent with `support`.

    Raises:
        ValueError: the two sequences differ in length or are empty.

    Source: scikit-learn's f1_score, precision_recall_fscore_support, hamming_loss and accuracy_score.

    >>> score = score_labels([{"a"}, {"a", "b"}, {"c"}], [["a"], ["a"], None], labels=["a", "b", "c"])
    >>> [round(score.figures[name], 2) for name in ("micro_f1", "macro_f1", "subset_accuracy", "invalid_rate")]
    [66.67, 33.33, 33.33, 33.33]
    >>> score.details["labels"]
    {'a': (2, 2, 2), 'b': (1, 0, 0), 'c': (1, 0, 0)}
    """
    import sklearn
    from sklearn.metrics import accuracy_score, hamming_loss, precision_recall_fscore_support
    from sklearn.preprocessing import MultiLabelBinarizer

    if len(references) != len(predictions):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    if not len(references):
        raise ValueError("nothing to score")
    true, found = [set(one) for one in references], [set(one or ()) for one in predictions]
    names = [*dict.fromkeys(labels), *sorted(set().union(*true, *found) - set(labels))]
    # scikit-learn takes a single column for two classes; one of no label changes none of its averages.
    encode: Callable[..., Any] = MultiLabelBinarizer(classes=names).fit_transform  # never sparse, as its stub has it
    gold, guess = (np.pad(encode(sets), ((0, 0), (0, max(0, 2 - len(names))))) for sets in (true, found))
    judge: Callable[..., Any] = precision_recall_fscore_support  # its stub allows no number for zero_division
    figures = {}
    for average in ("micro", "samples"):
        precision, recall, f1, _ = judge(gold, guess, average=average, zero_division=0)
        figures[f"{average}_f1"] = 100.0 * float(f1)
        if average == "micro":
            figures |= {"micro_precision": 100.0 * float(precision), "micro_recall": 100.0 * float(recall)}
    figures["subset_accuracy"] = 100.0 * float(accuracy_score(gold, guess))
    figures["hamming_loss"] = float(hamming_loss(gold[:, : len(names)], guess[:, : len(names)])) if names else 0.0
    each = judge(gold, guess, average=None, zero_division=0)
    figures["macro_f1"] = 100.0 * float(each[2][: len(names)].mean()) if names else 0.0
    figures["labels_per_example"] = float(guess.sum() / len(guess))
    figures["invalid_rate"] = 100.0 * sum(one is None for one in predictions) / len(predictions)
    counts = zip(*(sums.sum(0)[: len(names)].tolist() for sums in (gold, guess, gold * guess)), strict=True)
    table = [
        {
            "label": name,
            **{
                key: round(100.0 * float(column[place]), 2)
                for key, column in zip(("precision", "recall", "f1"), each[:3], strict=True)
            },
            "support": int(each[3][place]),
        }
        for place, name in enumerate(names)
    ]
    signature = f"labels:{len(names)}|empty:0|sklearn:{sklearn.__version__}|version:{__version__}"
    details = {"labels": dict(zip(names, counts, strict=True)), "per_label": table}
    each_example = zip((gold * guess).sum(1).tolist(), gold.sum(1).tolist(), guess.sum(1).tolist(), strict=True)
    return Score(figures, signature, details, formula="f1", counts=tuple(each_example))
