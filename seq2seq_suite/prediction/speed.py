"""What decoding takes: passes through the decoder for each symbol, and milliseconds for each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_suite.common.types import Hypothesis
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.strategies.base import Strategy


def speed(predictor: Predictor, hypotheses: Sequence[list[Hypothesis]], seconds: float) -> dict[str, Any] | None:
    """What the search of a split's outputs took.

    Args:
        predictor: that decoded them.
        hypotheses: of each sentence, best first.
        seconds: in all.

    Returns:
        `passes_per_symbol`, those of all sentences divided by their symbols, END included; `milliseconds_per_sentence`,
        which depend on the machine, decoded in batches of `sentences_at_a_time`. None where nothing was searched for:
        a text that a language model judges.
    """
    strategy, best = predictor.learner.strategy, [found[0] if found else Hypothesis((), 0.0) for found in hypotheses]
    if not best or "log_probs" in best[0].details:
        return None
    symbols = sum(len(one.symbols) + ("objects" not in strategy.writes) for one in best)
    return {
        "passes_per_symbol": sum(passes(strategy, predictor.options.iterations, one) for one in best) / max(1, symbols),
        "milliseconds_per_sentence": 1000.0 * seconds / len(best),
        "sentences_at_a_time": predictor.options.batch_sentences,
    }


def passes(strategy: Strategy, iterations: int, found: Hypothesis) -> int:
    """Passes through the decoder for one output, as if its sentence were decoded alone.

    Not counted are the pass that reads a prompt, those of another run that drafts or rescores, those of the other
    candidates of `search.risk`, and the steps that a beam search takes beyond the END of its best output.
    """
    if "passes" in found.details:  # of several symbols each
        return max(found.details["passes"], default=0)
    if strategy.in_parallel:
        return iterations if "iterations" in strategy.uses else 1
    return len(found.symbols) + ("objects" not in strategy.writes)
