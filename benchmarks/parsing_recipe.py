"""What each part of the parsing recipe is worth: variants of one YAML at the same number of updates.

    python benchmarks/parsing_recipe.py --data path/to/genia --output benchmarks/results/parsing_recipe.md

Each variant is a run of its own (`runs/recipe/NAME`); finished ones are kept, so that an interrupted study goes on.
Nothing is chosen on the test split: the table shows validation figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

PLAIN = ("parsing.guide=false", "parsing.characters=false", "parsing.tag_loss=0.0", "parsing.move_loss=0.0")
VARIANTS: dict[str, tuple[str, ...]] = {
    "brackets, plain seq2seq": ("parsing.linearisation=brackets", *PLAIN),
    "in-order, plain seq2seq": PLAIN,
    "brackets, whole recipe": ("parsing.linearisation=brackets",),
    "in-order, without the guide": ("parsing.guide=false",),
    "in-order, without letters": ("parsing.characters=false",),
    "in-order, without the tag loss": ("parsing.tag_loss=0.0",),
    "in-order, without the move loss": ("parsing.move_loss=0.0",),
    "in-order, AdamW alone": ("training.optimizer=adamw",),
    "in-order, smoothed labels": ("strategy.label_smoothing=0.1",),
    "in-order, whole recipe": (),
}


def train(name: str, overrides: tuple[str, ...], arguments: argparse.Namespace) -> dict:
    """The summary of one variant's run, trained if it is not there yet."""
    directory = Path(arguments.runs) / name.replace(", ", "-").replace(" ", "-")
    summary = directory / "summary.json"
    if not summary.is_file():
        command = [sys.executable, "-m", "seq2seq_suite", "run", arguments.yaml, f"data.path={arguments.data}",
                   "data.test_splits=[validation]", f"training.max_updates={arguments.updates}",
                   "training.max_minutes=.inf", f"training.threads={arguments.threads}", f"seed={arguments.seed}",
                   "--output", str(directory), *arguments.override, *overrides,
                   *(["--resume"] if directory.exists() else [])]
        subprocess.run(command, check=True)
    return {**json.loads(summary.read_text()), **json.loads((directory / "provenance.json").read_text())}


def table(rows: dict[str, dict]) -> str:
    """The variants as a Markdown table."""
    lines = ["| variant | parameters | updates | minutes | F1 | precision | recall | exact match | invalid |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, run in rows.items():
        figures = run["splits"]["validation"]
        lines.append(f"| {name} | {run['parameters'] / 1e6:.1f}M | {run['updates']} | {run['seconds'] / 60:.1f} | "
                     f"**{figures['f1']:.2f}** | {figures['precision']:.2f} | {figures['recall']:.2f} | "
                     f"{figures['exact_match']:.2f} | {figures['invalid_rate']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("override", nargs="*", help="key=value for every variant")
    parser.add_argument("--data", required=True, help="folder or Hub name of the treebank")
    parser.add_argument("--yaml", default="tasks/parsing-genia.yaml")
    parser.add_argument("--runs", default="runs/recipe")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows = {name: train(name, overrides, arguments) for name, overrides in VARIANTS.items()}
    text = table(rows)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
