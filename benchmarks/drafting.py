"""Greedy search with and without drafts of its outputs, in turns, on a run's test split; one sentence at a time.

python -m benchmarks.drafting runs/translation runs/translation-at-once --output drafting.md
python -m benchmarks.drafting runs/asr ctc search.ctc_weight=0
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from unittest.mock import patch

from benchmarks.command_line import measuring_options, publish
from benchmarks.machine import markdown_table, provenance
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.search import speculative as drafting


def decode(predictor: Predictor, encoded: list[Encoded]) -> tuple[list[tuple[int, ...]], float]:
    """The outputs, and the sentences a second."""
    start = time.perf_counter()
    found = [row[0].symbols for row in predictor.hypotheses(encoded)]
    return found, len(encoded) / (time.perf_counter() - start)


def main() -> None:
    """Measure and print the table."""
    parser = measuring_options(__doc__, seconds=0.0)
    parser.add_argument("run", type=Path)
    parser.add_argument("drafter", help="a parallel run, or ctc")
    parser.add_argument("settings", nargs="*", help="key=value")
    parser.add_argument("--sentences", type=int, default=100, help="that are timed; outputs of all are compared")
    parser.add_argument("--batch", type=int, default=1, help="sentences that are drafted together")
    arguments = parser.parse_args()
    settings = [
        "device=cpu",
        "search.beam_size=1",
        f"search.batch_sentences={arguments.batch}",
        f"training.threads={arguments.threads}",
        *arguments.settings,
    ]
    plain = open_run(arguments.run, settings)
    drafted = open_run(arguments.run, [*settings, f"search.drafter={arguments.drafter}"])
    encoded = plain.task.encode(plain.task.read("test"))
    expected, _ = decode(plain.predictor, encoded)
    with patch.object(drafting, "_look_ahead", side_effect=drafting._look_ahead) as passes:
        found, _ = decode(drafted.predictor, encoded)
    timed = encoded[: arguments.sentences]
    rounds = [[decode(one.predictor, timed)[1] for one in (plain, drafted)] for _ in range(arguments.rounds)]
    steps = sum(len(symbols) + 1 for symbols in expected)
    rows = [
        ["greedy", "", f"{steps / len(encoded):.1f}", f"{statistics.median(one for one, _ in rounds):.1f}", ""],
        [
            "drafted",
            f"{sum(map(tuple.__eq__, found, expected)):,} of {len(encoded):,}",
            f"{passes.call_count / len(encoded):.1f}",
            f"{statistics.median(one for _, one in rounds):.1f}",
            f"{statistics.median(two / one for one, two in rounds):.2f}x",
        ],
    ]
    publish(
        [
            f"# Drafts: {arguments.run.name}, drafted by {Path(arguments.drafter).name}",
            "",
            *provenance(plain.config.seed, arguments.threads),
            "",
            *markdown_table(["search", "outputs equal", "passes a sentence", "sentences/s", "ratio"], rows),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
