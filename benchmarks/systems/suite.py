"""The suite itself: its core, its batching, its optimiser and its search."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import torch

import seq2seq_suite
from benchmarks.corpus import Corpus
from benchmarks.systems import (
    BATCH_TOKENS,
    LABEL_SMOOTHING,
    TRAINING_OPTIONS,
    DecodingSystem,
    Pair,
    Shape,
    TrainingSystem,
)
from seq2seq_suite import kernels
from seq2seq_suite.common import shapes
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.types import Batch
from seq2seq_suite.data.batching import Bucketed, collate
from seq2seq_suite.kernels import memory
from seq2seq_suite.model.build import build_model
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import AutoregressiveOptions
from seq2seq_suite.options.training import Training
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.training.optimizer import build_optimizer, learning_rate, set_rate


def build(shape: Shape) -> Seq2Seq:
    """The suite's model with one embedding for source, target and output, and post-norm layers as the others have."""
    backbone = Backbone(
        width=shape.width,
        feed_forward_width=shape.feed_forward,
        num_heads=shape.heads,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        dropout=shape.dropout,
        norm_placement="post",
        max_positions=512,
    )
    symbols = shape.vocabulary
    model = build_model(backbone, shapes.Shape(shapes.TokenShape(symbols), shapes.TargetShape(symbols)))
    model.frontend.embedding = model.embedding
    return model


def learner(shape: Shape, label_smoothing: float = 0.0) -> Learner:
    """The model and its strategy with their fast kernels, as a run has them."""
    options = AutoregressiveOptions(label_smoothing=label_smoothing)
    made = Learner(build(shape), Autoregressive(options, shapes.TargetShape(0), 0, Auxiliaries()))
    kernels.accelerate(made)
    return made


def training(
    shape: Shape, precision: str, corpus: Corpus, seed: int, *, device: str = "cpu", batch_tokens: int = BATCH_TOKENS
) -> TrainingSystem:
    """As `training.trainer` trains, without its logs and checkpoints."""
    memory.keep_freed()
    learns, options = learner(shape, LABEL_SMOOTHING).to(device), Training(**TRAINING_OPTIONS)
    model, optimizer = learns.model, build_optimizer(learns.model, options)
    lower, updates = precision == "bfloat16", itertools.count()

    def update(pairs: list[Pair]) -> torch.Tensor:
        batch = collate(corpus.encoded(pairs), "translation", round_lengths=lower).to(torch.device(device))
        learns.train()
        count = learns.counts(batch)["cross_entropy"]
        with torch.autocast(device, torch.bfloat16, enabled=lower):
            total = learns(batch).sums["cross_entropy"]
        (total / count).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        set_rate(optimizer, learning_rate(options, next(updates), 0.0))
        if device == "cpu" and not torch.isfinite(norm):  # on a GPU this would synchronise, which the trainer avoids
            raise RuntimeError("the gradient is not finite")
        optimizer.step()
        optimizer.zero_grad()
        return total.detach() / count

    batches = buckets(corpus, seed, round_lengths=lower, batch_tokens=batch_tokens)
    return TrainingSystem(seq2seq_suite.__version__, model, batches, update)


def buckets(corpus: Corpus, seed: int, *, round_lengths: bool, batch_tokens: int = BATCH_TOKENS) -> list[list[Pair]]:
    """An epoch in batches of like length."""
    bucketed = Bucketed(
        corpus.encoded(corpus.train), "translation", batch_tokens=batch_tokens, seed=seed, round_lengths=round_lengths
    )
    return [[corpus.train[index] for index in batch] for batch in bucketed.epoch(0)]


def train_briefly(shape: Shape, corpus: Corpus, seed: int, seconds: float, file: Path, *, threads: int) -> None:
    """Weights that write sentences of natural length, so that decoding them is worth timing."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    system = training(shape, "float32", corpus, seed)
    end, losses = time.monotonic() + seconds, []
    for pairs in itertools.cycle(system.batches):
        losses.append(system.update(pairs))
        if time.monotonic() >= end:
            break
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"weights": system.model.state_dict(), "updates": len(losses), "loss": float(losses[-1])}, file)


def decoding(
    shape: Shape,
    corpus: Corpus,
    weights: Path,
    *,
    threads: int,
    compile: bool = False,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> DecodingSystem:
    """The suite's search."""
    torch.set_num_threads(threads)
    searches = learner(shape)
    searches.model.load_state_dict(torch.load(weights)["weights"])
    searches.eval().to(device, dtype)

    def decode(sources: list[list[int]], beam_size: int, longest: int, size: int) -> list[list[int]]:
        written, options = [], SearchOptions(beam_size=beam_size, compile=compile)
        for first in range(0, len(sources), size):
            chunk = sources[first : first + size]
            found = searches.strategy.generate(
                searches.model,
                _batch(corpus, chunk).to(torch.device(device)),
                options=options,
                limit=torch.full((len(chunk),), longest + 1, device=device),
            )  # it counts END
            written += [list(hypotheses[0].symbols) for hypotheses in found]
        return written

    return DecodingSystem(seq2seq_suite.__version__, decode)


def _batch(corpus: Corpus, sources: list[list[int]]) -> Batch:
    items: list[Encoded] = corpus.encoded([(source, []) for source in sources])
    return collate(items, "translation")
