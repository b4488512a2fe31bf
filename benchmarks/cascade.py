"""A cascade as the baseline of direct speech translation: a recogniser, then a translator.

    python -m benchmarks.cascade texts tasks/speech_translation.yaml --output texts
    python -m seq2seq_suite run tasks/translation-zh.yaml data.path=texts data.test_splits=[test] --output runs/written
    python -m benchmarks.cascade translate runs/asr runs/written --like runs/speech_translation --output runs/cascade
    python -m seq2seq_suite compare runs/speech_translation runs/cascade

`texts` writes the transcript and translation of each recording as a row {src, tgt}, to train the translator.
`translate` decodes the test splits of the run given by `--like` and leaves a directory that `compare` reads.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError, UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.config import config_file
from seq2seq_suite.prediction.evaluate import failures, outcome, record
from seq2seq_suite.prediction.load_run import LoadedRun, open_run
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.run_directory import RunDirectory, provenance
from seq2seq_suite.tasks.speech_translation import SpeechTranslationTask


def write_texts(yaml: Path, overrides: Sequence[str], folder: Path) -> None:
    """The sentences of a speech-translation configuration as parallel text."""
    config = config_file.load(yaml, list(overrides))
    task = _speech_translation(open_task(config.task, config), yaml)
    folder.mkdir(parents=True, exist_ok=True)
    for split in dict.fromkeys(("train", "validation", *config.data.test_splits)):
        rows = [
            {"src": task.transcript.normalised(example.reference), "tgt": task.target.normalised(example.reference)}
            for example in task.read(split)
        ]
        atomic_write_text(folder / f"{split}.jsonl", "".join(to_json(row) + "\n" for row in rows))
        print(f"{folder / split}.jsonl: {len(rows):,} sentences")


def translate(hearing: LoadedRun, writing: LoadedRun, direct: LoadedRun, directory: RunDirectory) -> dict[str, Any]:
    """Decode the direct run's test splits by the cascade; returns the summary that is written."""
    task, scores, failed, begun = direct.task, {}, {}, time.monotonic()
    for split in direct.config.data.test_splits:
        examples = task.read(split)
        sounds = [replace(example, reference=None) for example in examples]
        transcripts = [best[0][0] if best else "" for best in hearing.predict(sounds)]
        # An empty transcript is not translated.
        texts = [
            writing.task.from_text(text or ".", origin=example.origin)
            for text, example in zip(transcripts, examples, strict=True)
        ]
        hypotheses = writing.predictor.hypotheses(writing.task.encode(texts))
        predictions = writing.predictor.predictions(texts, hypotheses)
        scores[split] = record(directory, task, split, examples, predictions)
        failed[split] = failures(hypotheses, predictions, _targets(writing, texts, examples))
    parts = [run.predictor.learner for run in (hearing, writing)]
    return {
        **outcome(task, scores, failed),
        "seconds": round(time.monotonic() - begun, 2),
        "updates": 0,
        "best_update": 0,
        "tokens": 0,
        "parameters": sum(part.num_parameters() for part in parts),
        "core_parameters": sum(part.num_core_parameters() for part in parts),
        "tokens_per_second": 0.0,
    }


def _targets(writing: LoadedRun, texts: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """The translator's own symbols of the references, to tell its repetitions from theirs."""
    return writing.task.encode(
        [replace(text, reference=example.reference.text) for text, example in zip(texts, examples, strict=True)]
    )


def _speech_translation(task: Any, place: Path) -> SpeechTranslationTask:
    if not isinstance(task, SpeechTranslationTask):
        raise DataError(
            f"its task is {task.name}",
            file=str(place),
            expected="speech_translation",
            remedy="name a configuration or run of tasks/speech_translation.yaml",
        )
    return task


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    texts = verbs.add_parser("texts", help="write the parallel text of a speech-translation YAML")
    texts.add_argument("yaml", type=Path)
    texts.add_argument("override", nargs="*", help="key=value")
    texts.add_argument("--output", type=Path, required=True, help="folder")
    both = verbs.add_parser("translate", help="decode with a recogniser and a translator")
    both.add_argument("asr", type=Path)
    both.add_argument("translation", type=Path)
    both.add_argument("--like", type=Path, required=True, help="the direct run, for its data and its metric")
    both.add_argument("--output", type=Path, required=True, help="directory")
    both.add_argument("--overwrite", action="store_true")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Run the command line."""
    arguments = parse(given)
    try:
        if arguments.verb == "texts":
            write_texts(arguments.yaml, arguments.override, arguments.output)
            return
        runs = [open_run(path, []) for path in (arguments.asr, arguments.translation, arguments.like)]
        _speech_translation(runs[2].task, arguments.like)
        with RunDirectory.claim(arguments.output, resume=False, overwrite=arguments.overwrite) as directory:
            directory.write_config(config_file.dump(runs[2].config))
            directory.write_provenance(provenance(sys.argv, runs[2].config.seed, {}))
            summary = translate(*runs, directory)
            directory.write_summary(summary)
    except UserError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    for split, figures in summary["splits"].items():
        print(f"{split}: " + "  ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    print(summary["signature"])


if __name__ == "__main__":
    main()
