"""What a pretrained checkpoint is worth for labels, trees and CTC: imported and fine-tuned, beside from nothing.

    python -m benchmarks.pretrained --folder FOLDER --data DATA --minutes 12 --output pretrained.md

DATA has the folders multi30k-en-de, goemotions and genia-const, each with train, validation and test as .jsonl.gz. As
no checkpoint can be downloaded where this was written, two stand-ins are pretrained first (`benchmarks.stand_ins`): a
Marian on five sixths of Multi30k's pairs, and a T5 on those, GoEmotions' comments and GENIA's sentences, without their
labels and trees. Both are imported; the sixth of the pairs that none of them has seen, a twentieth of the comments and
a tenth of the trees are then learned with them and without, by the same updates. A left-to-right run goes back to
transformers, whose outputs are compared.

Each step is kept in FOLDER: called again, the program goes on where it ended. Times are of the CPU; those of runs that
were interrupted lack what went on before.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import stand_ins
from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.studies import table
from seq2seq_suite.config import config_file
from seq2seq_suite.runs.run_directory import CONFIG
from seq2seq_suite.studies import study
from seq2seq_suite.studies.study import Cell

PAIRS, COMMENTS, TREES = "multi30k-en-de", "goemotions", "genia-const"
NOTHING, IMPORTED, FRONT = "from nothing", "imported", "imported front-end"
HELD_BACK = 6  # a sixth of the pairs is not pretrained on
COMPARED = 100  # outputs of both programs
FACTOR, EXTRA = 2, 20  # an output has at most so many times the pieces of its source, and so many more
TRAINING = {  # the presets' own, shorter
    "optimizer": "muon",
    "learning_rate": 1.0e-3,
    "schedule": "power",
    "decay_power": 1.0,
    "warmup_updates": 50,
    "ema_decay": 0.99,
    "batch_tokens": 2048,
    "validate_examples": 500,
}
Settings = dict[str, Any]
Experiment = tuple[Settings, dict[str, Settings]]  # and what its variants change


def labels(arguments: argparse.Namespace) -> Experiment:
    """GoEmotions with a twentieth of its labels, read in pieces; from T5, and from its front-end alone."""
    run = arguments.folder / "imported" / "t5"
    options = {
        "encoding": "pieces",
        "pieces": stand_ins.PIECES["t5"],
        "max_words": 60,
        "head": "label_wise",
        "pointer": True,
        "head_mixture": 1.0,
        "decision": "marginals",
    }
    settings = {
        "task": "multilabel",
        "data": {"path": str(arguments.data / COMMENTS), "max_length": 320, "share": 0.05},
        "multilabel": options,
        "backbone": {**_backbone(run), "decoder_layers": 1, "dropout": 0.3},
        "strategy": {"kind": "autoregressive", "label_smoothing": 0.0},
        "search": {"beam_size": 3, "max_length_factor": 1.0},
        "training": {**TRAINING, "max_updates": 500, "validate_every": 100},
    }
    begun = {IMPORTED: ["frontend", "encoder"], FRONT: ["frontend"]}
    return settings, {
        NOTHING: {},
        **{name: {"init_from": str(run), "init_parts": parts} for name, parts in begun.items()},
    }


def trees(arguments: argparse.Namespace) -> Experiment:
    """A tenth of GENIA's trees, read in words: the front-end is new, of T5 there is the encoder."""
    run = arguments.folder / "imported" / "t5"
    settings = {
        "task": "parsing",
        "data": {"path": str(arguments.data / TREES), "share": 0.1},
        "backbone": {**_backbone(run), "decoder_layers": 2, "dropout": 0.1, "max_positions": 2048},
        "strategy": {"kind": "autoregressive", "label_smoothing": 0.0},
        "search": {"beam_size": 1},
        "training": {**TRAINING, "max_updates": 400, "validate_every": 100, "batch_tokens": 1536},
    }
    return settings, {NOTHING: {}, IMPORTED: {"init_from": str(run), "init_parts": ["encoder"]}}


def ctc(arguments: argparse.Namespace) -> Experiment:
    """The pairs that Marian has not seen, in parallel: its front-end and its encoder, a new decoder."""
    run = arguments.folder / "imported" / "marian"
    settings = {
        **_translation(arguments, run),
        "strategy": {"kind": "ctc", "factor": 2.5, "glancing": [0.5, 0.3]},
        "training": {**TRAINING, "max_updates": 500, "validate_every": 100},
    }
    return settings, {NOTHING: {}, IMPORTED: _from_marian(run, ["frontend", "encoder"])}


def back(arguments: argparse.Namespace) -> Experiment:
    """The same pairs from left to right: Marian with low-rank changes, to be exported."""
    run = arguments.folder / "imported" / "marian"
    settings = {
        **_translation(arguments, run),
        "strategy": {"kind": "autoregressive"},
        "training": {**TRAINING, "optimizer": "adamw", "max_updates": 200, "validate_every": 100},
    }
    return settings, {f"{IMPORTED}, LoRA": {**_from_marian(run, ["all"]), "backbone.lora.rank": 8}}


def _from_marian(run: Path, parts: list[str]) -> Settings:
    pieces = {"translation.source_subwords": "imported", "translation.target_subwords": "imported"}
    return {"init_from": str(run), "init_parts": parts, **pieces}


def _backbone(run: Path) -> Settings:
    return config_file.parse(run / CONFIG, of_run=True)["backbone"]


def _translation(arguments: argparse.Namespace, run: Path) -> Settings:
    """The experiment of the pairs that were held back; from nothing it learns pieces of the same kind and number."""
    options = config_file.parse(run / CONFIG, of_run=True)["translation"]
    learned = {"source_subwords": "unigram", "target_subwords": "unigram"}
    return {
        "task": "translation",
        "data": {"path": str(arguments.folder / "captions"), "max_length": 128},
        "translation": {**options, **learned},
        "backbone": _backbone(run),
        "search": {"beam_size": 1, "max_length_factor": float(FACTOR), "max_length_extra": EXTRA},
    }


def prepare(arguments: argparse.Namespace) -> None:
    """The held-back pairs as a folder, both stand-ins, and their imports."""
    rows = {split: _read(arguments.data / PAIRS, split) for split in ("train", "validation", "test")}
    seen = len(rows["train"]) - len(rows["train"]) // HELD_BACK
    pairs, rows["train"] = rows["train"][:seen], rows["train"][seen:]
    captions = arguments.folder / "captions"
    captions.mkdir(parents=True, exist_ok=True)
    for split, some in rows.items():
        lines = [json.dumps({"en": row["src"], "de": row["tgt"]}, ensure_ascii=False) + "\n" for row in some]
        (captions / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    half = {"minutes": arguments.minutes / 2, "seed": 1, "tokens": arguments.tokens}
    both = [(row["src"], row["tgt"]) for row in pairs]
    texts = [text for pair in both for text in pair]
    texts += [row["text"] for row in _read(arguments.data / COMMENTS, "train")]
    texts += [_words(row["tree"]) for row in _read(arguments.data / TREES, "train")]
    _once(arguments.folder / "hub" / "marian", lambda folder: stand_ins.marian(folder, both, **half))
    _once(arguments.folder / "hub" / "t5", lambda folder: stand_ins.t5(folder, texts, **half))
    for name in ("marian", "t5"):
        run = arguments.folder / "imported" / name
        if not (run / "summary.json").is_file():
            _suite("import", str(arguments.folder / "hub" / name), "--output", str(run), "--overwrite")


def _read(folder: Path, split: str) -> list[dict[str, Any]]:
    with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _words(tree: str) -> str:
    """The words of a bracketed tree.

    >>> _words("(S (NP (NN Sleep)) (VP (VBZ helps)))")
    'Sleep helps'
    """
    return " ".join(part.rstrip(")") for part in tree.split() if not part.startswith("("))


def _once(folder: Path, make: Callable[[Path], Mapping[str, Any]]) -> None:
    """Make a folder, and in it `cost.json`, unless it is there; one that was interrupted is made again."""
    if folder.is_dir():
        return
    begun = folder.with_name(f"{folder.name}-begun")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir(parents=True)
    cost = make(begun)
    (begun / "cost.json").write_text(json.dumps(cost), encoding="utf-8")
    begun.rename(folder)


def _suite(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "seq2seq_suite", *words], check=True)


def studied(arguments: argparse.Namespace, name: str, experiment: Experiment) -> list[Cell]:
    """The runs of an experiment, missing ones trained; adds the CPU time to `FOLDER/seconds.json`."""
    settings, variants = experiment
    place = arguments.folder / f"{name}.yaml"
    place.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    asked = {
        "question": "What is a checkpoint worth?",
        "yamls": [str(place.resolve())],
        "seeds": arguments.seeds if name != "back" else arguments.seeds[:1],
        "report_test": True,
        "settings": {"training.threads": arguments.threads, "device": "cpu"},
        "variants": variants,
    }
    file = arguments.folder / f"study-{name}.yaml"
    file.write_text(yaml.safe_dump(asked, sort_keys=False), encoding="utf-8")
    before = _seconds()
    found = study.run(file, arguments.folder / "runs", overrides=arguments.override)
    ledger = arguments.folder / "seconds.json"
    spent = json.loads(ledger.read_text()) if ledger.is_file() else {}
    spent[name] = spent.get(name, 0.0) + _seconds() - before
    ledger.write_text(json.dumps(spent), encoding="utf-8")
    return found


def _seconds() -> float:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def exported(arguments: argparse.Namespace, run: Path) -> tuple[int, int]:
    """Of how many sentences, and of how many of them both programs write the same; greedy, `COMPARED` of test."""
    folder = arguments.folder / "exported"
    if not folder.is_dir():
        _suite("export", str(run), "--to", "transformers", str(folder))
    rows = (arguments.folder / "captions" / "test.jsonl").read_text(encoding="utf-8").splitlines()[:COMPARED]
    texts = [json.loads(row)["en"] for row in rows]
    ours = subprocess.run(
        [sys.executable, "-m", "seq2seq_suite", "predict", str(run), "search.beam_size=1", "device=cpu"],
        input="".join(f"{text}\n" for text in texts),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    theirs = stand_ins.generated(folder, texts, lambda size: FACTOR * size + EXTRA)
    return len(texts), sum(one == two for one, two in zip(ours, theirs, strict=True))


def costs(arguments: argparse.Namespace) -> list[str]:
    """A line for each step."""
    rows = []
    for name in ("marian", "t5"):
        cost = json.loads((arguments.folder / "hub" / name / "cost.json").read_text(encoding="utf-8"))
        said = f"{cost['parameters']:,} parameters, {cost['updates']:,} updates, {cost['epochs']} epochs"
        rows.append([f"pretraining {name}", said, f"{cost['seconds'] / 60:.1f}"])
    for name, seconds in json.loads((arguments.folder / "seconds.json").read_text(encoding="utf-8")).items():
        rows.append([name, "all runs, evaluated on validation and test", f"{seconds / 60:.1f}"])
    return markdown_table(["step", "what", "CPU minutes"], rows)


def main(given: Sequence[str] | None = None) -> None:
    """Make what is missing, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("override", nargs="*", help="key=value for every run")
    parser.add_argument("--folder", type=Path, required=True, help="for all that is made, in no repository")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--minutes", type=float, default=12.0, help="CPU time of pretraining, half for each stand-in")
    parser.add_argument("--tokens", type=int, default=4096, help="padded pieces in a batch of pretraining")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_intermixed_args(given)
    arguments.folder, arguments.data = arguments.folder.resolve(), arguments.data.resolve()
    stand_ins.use(arguments.threads)
    prepare(arguments)
    cells = [cell for name, make in EXPERIMENTS.items() for cell in studied(arguments, name, make(arguments))]
    run = next(Path(cell.runs[0]["directory"]) for cell in cells if cell.experiment == "back")
    sentences, equal = exported(arguments, run)
    said = f"Exported to transformers, `back` writes {equal} of {sentences} test sentences as the suite does."
    report = ["## Imported and from nothing", "", *table(cells), "", said, "", *costs(arguments), ""]
    publish([*report, *provenance(", ".join(map(str, arguments.seeds)), arguments.threads)], arguments)


EXPERIMENTS = {"labels": labels, "trees": trees, "ctc": ctc, "back": back}

if __name__ == "__main__":
    main()
