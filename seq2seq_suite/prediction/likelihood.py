"""How likely a model finds the right outputs: nats for each symbol, exact or bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.data.batching import in_sorted_batches
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction.predictor import Predictor, in_mode
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.autoregressive import shift_right
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.sets import Sets


def likelihood(predictor: Predictor, encoded: Sequence[Encoded]) -> dict[str, Any] | None:
    """-log p of all targets divided by their symbols, END included, without constraint.

    It is exact from left to right, by teacher forcing. Of blocks that are written in another way it is the bound on the
    likelihood of blocks of that length (`Blocks.bound`), by random draws that are the same each time.

    Returns:
        `nats_per_symbol` and, of a bound, `interval`, its 95 % interval by the variance of the draws. None without
        targets, of several models, and of a strategy that has no likelihood.
    """
    model, strategy, options = predictor.model, predictor.learner.strategy, predictor.options
    if not isinstance(model, Seq2Seq) or not isinstance(strategy, Assisted) or isinstance(strategy, Sets):
        return None
    total = variance = count = 0.0
    bounded = isinstance(strategy, Blocks) and not strategy.is_exact(options)
    devices = [predictor.device] if predictor.device.type == "cuda" else []
    with in_mode(predictor.learner, training=False), torch.no_grad(), torch.random.fork_rng(devices):
        torch.manual_seed(0)
        for batch in in_sorted_batches(encoded, predictor.task.name, options.batch_sentences):
            batch = batch.to(predictor.device)
            if isinstance(strategy, Blocks) and bounded:
                draws = strategy.bound(model, batch, options).sum(2)  # (draws,B)
                total += float(draws.mean(0).sum())
                variance += float(draws.var(0).sum()) / len(draws)
            else:
                memory = strategy.encode_source(model, batch)
                hidden = strategy._hidden(model, batch, memory, shift_right(batch.target))
                total += float(model.cross_entropy(hidden, memory, batch.target, batch.loss_positions))
            count += batch.loss_positions.numel()
    if not count:
        return None
    mean, spread = total / count, 1.96 * math.sqrt(variance) / count
    return {"nats_per_symbol": mean, **({"interval": [mean - spread, mean + spread]} if bounded else {})}
