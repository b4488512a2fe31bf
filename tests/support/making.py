"""Strategies made in a line, and the size of a model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from seq2seq_suite import kernels
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.trees import Tree
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.strategies import KINDS, classes_of
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.auxiliary import Auxiliaries, Auxiliary
from seq2seq_suite.strategies.auxiliary_losses import Labels, Language, Transcript
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.strategies.ctc_head import CtcHead
from seq2seq_suite.strategies.spans import SpanHead, Spans

SHAPE = Shape(TokenShape(11), TargetShape(7))  # of a search with CTC
# Positions for the small targets of tests, where the defaults of a kind have too few.
ROOM = {"cut_at_end": {"factor": 1.5, "extra": 4}, "ctc": {"factor": 3.0}, "dag": {"factor": 3.0}}


def strategy_of(
    kind: type[Strategy],
    *,
    target: TargetShape | None = None,
    width: int = 16,
    auxiliaries: Auxiliaries | None = None,
    seed: int = 1,
    noise: float = 0.2,
    kernel: str = "fast",
    **options: Any,
) -> Any:
    """A strategy of that class, with its options and noise on its weights; labels are smoothed only where asked for."""
    if "label_smoothing" in kind.Options.model_fields:
        options = {"label_smoothing": 0.0, **options}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = kind(
            kind.Options(**options), target or TargetShape(9), width, copy.deepcopy(auxiliaries) or Auxiliaries()
        )
        with torch.no_grad():
            for parameter in reversed(list(made.parameters())):  # its own come last
                parameter.add_(torch.randn_like(parameter) * noise)
    kernels.accelerate(made, kernel)
    return made


def parallel_kinds() -> dict[str, Callable[..., Any]]:
    """Each kind of the table that writes text in parallel, and what makes one; options that it has not are left out."""

    def make(kind: str, found: type[Strategy], **given: Any) -> Any:
        known = {*found.Options.model_fields, *strategy_of.__kwdefaults__}
        return strategy_of(found, **ROOM.get(kind, {}), **{key: one for key, one in given.items() if key in known})

    return {
        kind: partial(make, kind, one)
        for kind in KINDS
        for one in classes_of(kind)
        if one.in_parallel and "text" in one.writes
    }


def auxiliaries_of(
    shape: Shape, *, ctc: float = 0.0, language: float = 0.0, transcript: int = 0, width: int = 16
) -> Auxiliaries:
    """Labels and spans of the source where there are any; with a weight, its transcript and itself."""
    parts: list[Auxiliary] = [
        Labels(kind, nn.Linear(width, classes), weight) for kind, classes, weight in shape.target.source_labels
    ]
    if shape.target.span_weight:
        parts.append(Spans("spans", SpanHead(width), shape.target.span_weight))
    if ctc:
        parts.append(Transcript("ctc", CtcHead(width, transcript or shape.source.transcript), ctc))
    if language:
        parts.append(Language("language", OutputLayer(width, shape.source.symbols), language))
    return Auxiliaries(parts)


def num_parameters(model: nn.Module) -> int:
    """Trained numbers, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def relabel_words(tree: Tree, words: list[str], tags: list[str]) -> Tree:
    """The same brackets over the given words and tags."""
    leaves = iter([Tree(tag, (word,)) for word, tag in zip(words, tags, strict=True)])

    def replaced(node: Tree) -> Tree:
        if node.is_preterminal():
            return next(leaves)
        return Tree(
            node.label, tuple(next(leaves) if isinstance(child, str) else replaced(child) for child in node.children)
        )

    return replaced(tree)


def with_ctc(kernel: str = "fast") -> Any:
    """Left to right, with a CTC head."""
    torch.manual_seed(5)
    return strategy_of(Assisted, auxiliaries=auxiliaries_of(SHAPE, ctc=0.5, transcript=7), noise=0.4, kernel=kernel)
