"""The gain of a language model's weights for a classifier: a grid of shares of the labels, with and without them.

    python -m seq2seq_suite run tasks/language_model-reuters.yaml data.path=path/to/reuters
    python -m benchmarks.finetuning tasks/multilabel-reuters-gpt.yaml data.path=path/to/reuters \\
        --pretrained runs/language_model-reuters --output gpt.md --plot gpt.png

Each cell is a run (`runs/finetuning/ARM-SHARE-SEED`); finished ones are kept, so that an interrupted study resumes. The
seed draws the share of the training split, which is the same in all arms of one seed. The baseline without a network is
a linear classifier, an SVM for each category on TF-IDF of the same words.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from sklearn.preprocessing import MultiLabelBinarizer

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.multilabel_baselines import choose, decision_values, features, read
from benchmarks.picture import picture
from benchmarks.worth import train
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments.prepare import portion
from seq2seq_suite.metrics.labels import score_labels

LINEAR = "linear SVM"
SCRATCH, ALONE, BOTH = "from scratch", "pre-trained, lambda 0", "pre-trained, lambda 0.5"
Figures = Mapping[tuple[str, float], Sequence[dict]]  # arm and share -> the figures of each seed


def arms(pretrained: Path) -> dict[str, tuple[str, ...]]:
    """Name -> what the command line adds."""
    taken = f"init_from={pretrained}"
    plain = "init_parts=[frontend,decoder]"  # without lambda nothing predicts the source
    return {
        SCRATCH: ("strategy.language_weight=0.0", plain),
        ALONE: ("strategy.language_weight=0.0", plain, taken),
        BOTH: ("strategy.language_weight=0.5", taken),
    }


def linear(config: Config, share: float, seed: int) -> dict[str, float]:
    """Figures on test of an SVM for each category, from the share of the training split that `data.share` draws.

    C 4 and the likeliest category where none is above 0, as in the baselines of the whole training split.
    """
    from sklearn.svm import LinearSVC

    def cut(text: str) -> str:
        return " ".join(text.split()[: config.multilabel.max_words or None])

    train_rows, test = read(config.data.path, "train"), read(config.data.path, "test")
    names = sorted({label for rows in (train_rows, test) for _, labels in rows for label in labels})
    kept = [train_rows[place] for place in portion(len(train_rows), share, seed)]
    seen, unseen = features(
        [cut(text) for text, _ in kept], [cut(text) for text, _ in test], ngrams=1, title=False, min_df=1
    )
    wanted = MultiLabelBinarizer(classes=names).fit_transform([labels for _, labels in kept])
    values = decision_values(seen, wanted, unseen, lambda: LinearSVC(C=4.0, random_state=seed))
    found = choose(values, names, 0.0, top=True)
    return dict(score_labels([labels for _, labels in test], found, labels=names).figures)


def table(figures: Figures, names: Sequence[str], shares: Sequence[float], metrics: Sequence[str]) -> list[str]:
    """A line for each share and arm: means over seeds and standard deviations."""
    rows = []
    for share in shares:
        for name in names:
            found = figures[name, share]
            values = [[figure[metric] for figure in found] for metric in metrics]
            rows.append([f"{100 * share:g} %", name, str(len(found)), *map(_spread, values)])
    return markdown_table(["labels", "beginning", "seeds", *metrics], rows)


def _spread(values: Sequence[float]) -> str:
    """Mean and standard deviation.

    >>> _spread([50.0, 52.0]), _spread([50.0])
    ('51.00 ± 1.41', '50.00')
    """
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def plot(figures: Figures, names: Sequence[str], shares: Sequence[float], metric: str, path: Path) -> None:
    """The metric against the share of labels, a line for each arm."""
    with picture(path, (7, 4.5)) as (_, (axes,)):
        for name, shape in zip(names, "xso^", strict=False):
            values = [[one[metric] for one in figures[name, share]] for share in shares]
            spread = [statistics.stdev(one) if len(one) > 1 else 0.0 for one in values]
            axes.errorbar(
                [100 * share for share in shares],
                [statistics.mean(one) for one in values],
                yerr=spread,
                fmt=f"{shape}-",
                capsize=3,
                label=name,
            )
        axes.set(xscale="log", xlabel="labelled stories, percent", ylabel=f"{metric.replace('_', ' ')} on test")
        axes.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, draw the curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yaml")
    parser.add_argument("override", nargs="*", help="key=value for every run")
    parser.add_argument("--pretrained", type=Path, required=True, help="run of a language model")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.01, 0.05, 0.2, 1.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--metrics", nargs="+", default=["micro_f1", "macro_f1"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", default="runs/finetuning")
    parser.add_argument("--plot", type=Path, help="PNG")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_args(given)
    chosen = arms(arguments.pretrained.resolve())
    # Wrong keys are reported before the first run.
    config = config_file.load(Path(arguments.yaml), [*arguments.override, *chosen[BOTH]])
    names = [LINEAR, *chosen]
    figures = {(name, share): [] for name in names for share in arguments.shares}
    for seed in arguments.seeds:
        for share in arguments.shares:
            figures[LINEAR, share].append(linear(config, share, seed))
            for name, overrides in chosen.items():
                summary = train(
                    arguments, f"{name} {100 * share:g}", [*overrides, f"data.share={share}"], seed, split="test"
                )
                figures[name, share].append(summary["splits"]["test"])
    if arguments.plot:
        plot(figures, names, arguments.shares, arguments.metrics[0], arguments.plot)
    publish(
        [
            f"## Labels and a language model: `{Path(arguments.yaml).name}`, test",
            "",
            *table(figures, names, arguments.shares, arguments.metrics),
            "",
            *provenance(", ".join(map(str, arguments.seeds)), arguments.threads),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
