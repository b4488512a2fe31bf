"""What each part of a task's recipe is worth: variants of one YAML, with all else equal.

    python -m benchmarks.worth tasks/parsing-genia-quick.yaml data.path=path/to/genia training.max_updates=700
    python -m benchmarks.worth tasks/multilabel-goemotions.yaml data.path=path/to/goemotions --seeds 1 2 3

Each variant and seed is a run of its own (`runs/worth/YAML/VARIANT-SEED`); finished ones are kept, so that an
interrupted study resumes. Variants that change nothing of the YAML, or that it cannot have, are left out.
Metrics are on the validation split: nothing is chosen on the test split.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.tasks import find_task

WHOLE = "as in the YAML"
_PLAIN_PARSER = ("parsing.guide=false", "parsing.characters=false", "parsing.tag_loss=0.0", "parsing.move_loss=0.0")
_NO_POINTER = ("multilabel.pointer=false",)
_BARE = (*_NO_POINTER, "multilabel.head=none", "multilabel.head_mixture=0.0", "multilabel.decision=best")
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "parsing": {
        "plain seq2seq, brackets": ("parsing.linearisation=brackets", *_PLAIN_PARSER),
        "plain seq2seq, in-order": _PLAIN_PARSER,
        "brackets": ("parsing.linearisation=brackets",),
        "without the guide": ("parsing.guide=false",),
        "without letters": ("parsing.characters=false",),
        "without the tag loss": ("parsing.tag_loss=0.0",),
        "without the move loss": ("parsing.move_loss=0.0",),
        "a loss of spans": ("parsing.span_loss=0.5",),
        "no word becomes unknown": ("parsing.unknown_rate=0.0",),
        "AdamW alone": ("training.optimizer=adamw",),
        "smoothed labels": ("strategy.label_smoothing=0.1",),
    },
    "multilabel": {
        "plain seq2seq": _BARE,
        "plain seq2seq, random order": (*_BARE, "multilabel.order=random"),
        "plain seq2seq, set loss": (*_BARE, "multilabel.order=free"),
        "one pooled head": (*_NO_POINTER, "multilabel.head=pooled"),
        "without the pointer": _NO_POINTER,
        "without the head's share in decoding": ("multilabel.head_mixture=0.0",),
        "the best sequence": ("multilabel.decision=best",),
        "no word becomes unknown": ("multilabel.word_dropout=0.0",),
        "log-prior adjustment": ("multilabel.prior_adjustment=0.4",),
        "without the convolution": ("backbone.encoder_kernel=0",),
        "one encoder layer": ("backbone.encoder_layers=1",),
        "AdamW alone": ("training.optimizer=adamw",),
    },
    "translation": {
        "unigram pieces": ("translation.source_subwords=unigram", "translation.target_subwords=unigram"),
        "post-norm": ("backbone.norm_placement=post",),
        "dropout 0.1": ("backbone.dropout=0.1",),
        "dropout of attention weights": ("backbone.attention_dropout=0.1",),
        "inputs from its own output": ("strategy.scheduled_sampling=0.3",),
        "greedy": ("search.beam_size=1",),
        "AdamW alone": ("training.optimizer=adamw",),
    },
    "tagging": {"without letters": ("tagging.characters=false",), "AdamW alone": ("training.optimizer=adamw",)},
    "qa": {
        "tokens, not sentences": ("qa.encoding=tokens",),
        "one pass of the encoder's layer": ("backbone.encoder_steps=1",),
        "without jitter of distances": ("qa.segment_jitter=0.0",),
        "without the pointer": ("qa.pointer=false",),
        "the last sentences of long contexts": ("qa.crop=last",),
        "AdamW alone": ("training.optimizer=adamw",),
    },
    "detection": {
        "no mirror images": ("detection.flip=false",),
        "one scale": ("detection.scales=[1.0,1.0]",),
        "colours as they are": ("detection.colour=0.0",),
        "AdamW alone": ("training.optimizer=adamw",),
    },
}
_COLUMNS = {
    "parsing": ("f1", "precision", "recall", "exact_match"),
    "multilabel": ("micro_f1", "macro_f1", "samples_f1", "subset_accuracy"),
    "translation": ("bleu", "chrf", "exact_match"),
    "qa": ("exact_match", "f1"),
    "detection": ("ap50", "ap"),
}
_ANY_TASK = {"AdamW alone": ("training.optimizer=adamw",)}


def columns(task: str) -> Sequence[str]:
    """The figures of a task's table."""
    return _COLUMNS.get(task) or (find_task(task).primary_metric,)


def changed(path: Path, overrides: Sequence[str]) -> Config | None:
    """The configuration with overrides; none if they contradict it, as a beam's options do a parallel decoder."""
    try:
        return config_file.load(path, overrides)
    except ConfigError:
        return None


def train(
    arguments: argparse.Namespace, name: str, overrides: Sequence[str], seed: int, *, split: str = "validation"
) -> dict:
    """The summary of one variant's run, evaluated on a split; trained if it is not there yet."""
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    directory = Path(arguments.runs) / Path(arguments.yaml).stem / f"{'-'.join(words)}-{seed}"
    summary = directory / "summary.json"
    if not summary.is_file():
        if not (directory / "checkpoints").is_dir():
            shutil.rmtree(directory, ignore_errors=True)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "seq2seq_suite",
                "run",
                arguments.yaml,
                f"data.test_splits=[{split}]",
                f"training.threads={arguments.threads}",
                f"seed={seed}",
                *arguments.override,
                *overrides,
                "--output",
                str(directory),
                *(["--resume"] if directory.exists() else []),
            ],
            check=True,
        )
    return json.loads(summary.read_text(encoding="utf-8"))


def row(name: str, runs: Sequence[dict], columns: Sequence[str]) -> list[str]:
    """A variant's line: figures are means over seeds, the first with its standard deviation.

    >>> run = {"parameters": 9.5e5, "updates": 9, "seconds": 90, "splits": {"validation": {"f1": 50.0, "recall": 4.0}}}
    >>> other = {**run, "splits": {"validation": {"f1": 52.0, "recall": 5.0}}}
    >>> row("plain", [run, other], ["f1", "recall"])
    ['plain', '0.9M', '9', '1.5', '**51.00** ± 1.41', '4.50']
    """
    figures = [[run["splits"]["validation"][column] for run in runs] for column in columns]
    means = [f"{statistics.mean(values):.2f}" for values in figures]
    spread = f" ± {statistics.stdev(figures[0]):.2f}" if len(runs) > 1 else ""
    return [
        name,
        f"{runs[0]['parameters'] / 1e6:.1f}M",
        f"{statistics.mean(run['updates'] for run in runs):.0f}",
        f"{statistics.mean(run['seconds'] for run in runs) / 60:.1f}",
        f"**{means[0]}**{spread}",
        *means[1:],
    ]


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yaml")
    parser.add_argument("override", nargs="*", help="key=value for every variant")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="only these; others are left out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", default="runs/worth")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_intermixed_args(given)
    path = Path(arguments.yaml)
    whole = config_file.load(path, arguments.override)
    task = whole.task
    variants = {
        WHOLE: (),
        **{
            name: changes
            for name, changes in VARIANTS.get(task, _ANY_TASK).items()
            if changed(path, [*arguments.override, *changes]) not in (None, whole)
        },
    }
    unknown = set(arguments.variants or ()) - set(variants)
    if unknown:
        parser.error(
            f"unknown variants, or none of this YAML: {', '.join(sorted(unknown))}; choose from {', '.join(variants)}"
        )
    chosen = [name for name in variants if name in (arguments.variants or variants)]
    rows = [
        row(name, [train(arguments, name, variants[name], seed) for seed in arguments.seeds], columns(task))
        for name in chosen
    ]
    header = ["variant", "parameters", "updates", "minutes", *columns(task)]
    publish(
        [
            f"## What each part is worth: `{path.name}`, validation",
            "",
            *markdown_table(header, rows),
            "",
            *provenance(", ".join(map(str, arguments.seeds)), arguments.threads),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
