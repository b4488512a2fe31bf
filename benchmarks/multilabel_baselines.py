"""Linear baselines of the multi-label task: TF-IDF, a support vector machine or logistic regression for each label.

    python benchmarks/multilabel_baselines.py --data path/to/reuters --title --svm-c 4 --threshold -0.1
    python benchmarks/multilabel_baselines.py --data path/to/goemotions --ngrams 2 --svm-c 0.3 --logistic-c 5
    python benchmarks/multilabel_baselines.py --data miniworld --ngrams 1

Trained on train and validation together, scored on test. Without a fallback a text may get no label; `top-1` gives it
the label of the highest score, which is fair if every text has one. `--title` adds a TF-IDF of the title (what
stands before the first " . "), with half the weight. Thresholds are options, never chosen on test.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import regex

if __package__ in (None, ""):  # run as a file: the package is beside this folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from sklearn.preprocessing import MultiLabelBinarizer

from benchmarks.machine import markdown_table, provenance
from seq2seq_suite.common.text import LETTER, SIGN, composed
from seq2seq_suite.data.sources import read_rows
from seq2seq_suite.metrics.labels import score_labels
from seq2seq_suite.miniworld.topics import texts
from seq2seq_suite.tasks.multilabel.label_names import read_labels, read_names

Rows = list[tuple[str, tuple[str, ...]]]
TITLE_WEIGHT = 0.5
WORD = regex.compile(rf"{SIGN}|{LETTER}{{2,}}", regex.V1)  # as scikit-learn's own, whose \w has no marks
FIGURES = ("micro_f1", "macro_f1", "samples_f1", "hamming_loss", "subset_accuracy")


def read(data: str, split: str) -> Rows:
    """(text, labels) of a split of the embedded texts, a folder or a Hub data set."""
    if data == "miniworld":
        return texts(split)
    names = read_names(data)
    return [
        (composed(row.fields["text"]), read_labels(row, names, allow_empty=True))
        for row in read_rows(data, split, splits={})
    ]


def features(train: Sequence[str], test: Sequence[str], *, ngrams: int, title: bool, min_df: int = 2):
    """TF-IDF matrices of both, of words in `min_df` texts at least, with the title's beside the text's if wanted."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    def weigh(one: Sequence[str], other: Sequence[str]):
        vectorizer = TfidfVectorizer(
            sublinear_tf=True, min_df=min_df, ngram_range=(1, ngrams), tokenizer=WORD.findall, token_pattern=None
        )
        return vectorizer.fit_transform(one), vectorizer.transform(other)

    whole = weigh(train, test)
    if not title:
        return whole
    titles = weigh(*([text.partition(" . ")[0] for text in texts_of] for texts_of in (train, test)))
    return tuple(hstack([text, TITLE_WEIGHT * title_of]).tocsr() for text, title_of in zip(whole, titles, strict=True))


def decision_values(train, wanted: np.ndarray, test, build: Callable) -> np.ndarray:
    """(examples, labels) scores of one classifier for each label; a label without two classes scores its constant."""
    columns = []
    for column in wanted.T:
        if column.min() == column.max():
            columns.append(np.full(test.shape[0], 1.0 if column[0] else -1e9))
            continue
        model = build().fit(train, column)
        probable = hasattr(model, "predict_proba")
        columns.append(model.predict_proba(test)[:, 1] if probable else model.decision_function(test))
    return np.stack(columns, 1)


def choose(values: np.ndarray, names: Sequence[str], threshold: float, *, top: bool) -> list[tuple[str, ...]]:
    """Labels above the threshold; with `top` the best one where there is none.

    >>> choose(np.array([[0.5, -1.0], [-0.2, -0.4]]), ["a", "b"], 0.0, top=True)
    [('a',), ('a',)]
    """
    chosen = []
    for row in values:
        labels = tuple(names[place] for place in np.flatnonzero(row > threshold))
        chosen.append(labels or ((names[int(row.argmax())],) if top else ()))
    return chosen


def run(arguments: argparse.Namespace) -> list[list[str]]:
    """A row of figures for each system."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    train = [row for split in ("train", "validation") for row in read(arguments.data, split)]
    test = read(arguments.data, "test")
    true = [labels for _, labels in test]
    names = sorted({label for rows in (train, test) for _, labels in rows for label in labels})
    wanted = MultiLabelBinarizer(classes=names).fit_transform([labels for _, labels in train])
    rows = []

    def system(name: str, build: Callable, decisions: dict[str, tuple[float, bool]], *, title: bool) -> None:
        start = time.perf_counter()
        seen = features([text for text, _ in train], [text for text, _ in test], ngrams=arguments.ngrams, title=title)
        values = decision_values(seen[0], wanted, seen[1], build)
        seconds = time.perf_counter() - start
        for what, (threshold, top) in decisions.items():
            found = score_labels(true, choose(values, names, threshold, top=top), labels=names).figures
            rows.append(
                [
                    f"{name}, {what}",
                    *(f"{found[figure]:.{5 if 'loss' in figure else 2}f}" for figure in FIGURES),
                    f"{seconds:.0f}",
                ]
            )

    def machine() -> LinearSVC:
        return LinearSVC(C=arguments.svm_c, random_state=arguments.seed)

    grams = "1-gram" if arguments.ngrams == 1 else f"1-{arguments.ngrams}-gram"
    base = f"SVM C={arguments.svm_c:g}, {grams} TF-IDF"
    decisions = {"threshold 0": (0.0, False), "threshold 0, top-1": (0.0, True)}
    system(base, machine, decisions, title=False)
    if arguments.title:
        cut = arguments.threshold
        system(f"{base} + {TITLE_WEIGHT:g} title", machine, {f"threshold {cut:g}, top-1": (cut, True)}, title=True)
    if arguments.logistic_c:
        system(
            f"logistic C={arguments.logistic_c:g}, {grams} TF-IDF",
            lambda: LogisticRegression(C=arguments.logistic_c, solver="liblinear", random_state=arguments.seed),
            {f"threshold {cut:g}, top-1": (cut, True) for cut in arguments.logistic_threshold},
            title=False,
        )
    return rows


def main(given: list[str] | None = None) -> None:
    """Print the table and write it where `--output` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="miniworld, a folder or a Hub name")
    parser.add_argument("--ngrams", type=int, default=1, help="longest n-gram")
    parser.add_argument("--svm-c", type=float, default=1.0)
    parser.add_argument("--title", action="store_true", help="add a system that reads the title apart")
    parser.add_argument("--threshold", type=float, default=-0.1, help="of the system with the title")
    parser.add_argument("--logistic-c", type=float, default=0.0, help="add logistic regression")
    parser.add_argument("--logistic-threshold", type=float, nargs="+", default=[0.25])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file, added to")
    arguments = parser.parse_args(given)
    rows = run(arguments)
    header = ["system", "micro F1", "macro F1", "samples F1", "Hamming loss", "subset accuracy", "seconds"]
    lines = [
        f"Linear baselines on {Path(arguments.data).name}, test split:",
        "",
        *markdown_table(header, rows),
        "",
        *provenance(arguments.seed, 1),
    ]
    print("\n".join(lines))
    if arguments.output:
        with open(arguments.output, "a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
