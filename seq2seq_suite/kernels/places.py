"""Where each slot's implementation goes in a model and its strategy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from seq2seq_suite.common.types import States
from seq2seq_suite.kernels import plain
from seq2seq_suite.kernels.decoder import with_parts
from seq2seq_suite.kernels.projections import Projected
from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.decoder import TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import FeedForward
from seq2seq_suite.model.output import OutputLayer
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.model.variants.conformer import Convolution
from seq2seq_suite.search.ensemble import Ensemble
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.blocks import Blocks
from seq2seq_suite.strategies.boxes import Boxes

# Attributes that hold a slot's plain function.
_FUNCTIONS = (
    (MultiHeadAttention, "attention", "attention"),
    (Convolution, "convolve", "depthwise"),
    (OutputLayer, "sum_cross_entropy", "cross_entropy"),
    (OutputLayer, "pick_log_probs", "gather_log_probs"),
    (Autoregressive, "greedy", "greedy"),
    (Autoregressive, "beam", "beam"),
)
_SEARCHES = (
    (Autoregressive, "greedy"),
    (Autoregressive, "beam"),
    (Assisted, "drafted"),
    (Boxes, "write"),
    (Blocks, "write"),
    (Blocks, "verify"),
)
_PRODUCTS = (MultiHeadAttention, FeedForward, Convolution)  # their linear layers take most of the time


class Product(nn.Linear):
    """`nn.Linear` by the function of a slot."""

    product: Callable[..., Tensor]

    def forward(self, x: Tensor) -> Tensor:
        """(...,D) -> (...,V)."""
        return self.product(x, self.weight, self.bias)


class Dropout(nn.Dropout):
    """`nn.Dropout` by the function of a slot."""

    dropout: Callable[..., Tensor]

    def forward(self, x: Tensor) -> Tensor:
        """x with some elements zeroed in training."""
        return self.dropout(x, self.p) if self.training else x


def put(learner: nn.Module, chosen: Mapping[str, Any]) -> None:
    """Put the implementation of every slot in its places, also where another one was put before."""
    module: Any
    for module in learner.modules():
        for kind, attribute, slot in _FUNCTIONS:
            if isinstance(module, kind):
                setattr(module, attribute, chosen[slot])
        for kind, attribute in _SEARCHES:
            if isinstance(module, kind):
                search = getattr(module, attribute)
                search = search.args[0] if isinstance(search, partial) else search
                setattr(module, attribute, partial(_searched, search, chosen["decoder"], chosen["linear"]))
        if type(module) in (MultiHeadAttention, Projected):
            one_by_one = chosen["projections"] is plain.projections
            _become(module, MultiHeadAttention if one_by_one else Projected, "projections", chosen["projections"])
        if isinstance(module, _PRODUCTS):
            child: Any
            for child in module.children():
                if type(child) in (nn.Linear, Product):
                    _become(child, Product, "product", chosen["product"])
        if type(module) in (nn.Dropout, Dropout):
            _become(module, Dropout, "dropout", chosen["dropout"])
        if isinstance(module, TransformerDecoder):
            module.empty_cache = chosen["cache"].empty
        if isinstance(module, TransformerEncoder):
            module.forward = partial(_read, module, chosen["encoder"])


def _become(module: Any, kind: type[nn.Module], attribute: str, function: Callable[..., Tensor]) -> None:
    module.__class__ = kind
    setattr(module, attribute, function)


def _read(encoder: TransformerEncoder, prepare: Callable[..., Any], states: States) -> States:
    usual = copy.copy(encoder)
    del vars(usual)["forward"]
    ready = prepare(usual)
    return usual.forward(states) if ready is usual else ready(states)


def _searched(
    search: Callable[..., Any],
    prepare: Callable[..., Any],
    linear: Callable[..., Any],
    model: Any,
    *given: Any,
    **named: Any,
) -> Any:
    return search(for_search(model, prepare, linear), *given, **named)


def for_search(model: Any, prepare: Callable[..., Any], linear: Callable[..., Any]) -> Any:
    """A model with decoder and output layer prepared for the many steps of one search; one that stands for another
    stays as it is.

    Args:
        model: a `Seq2Seq`, or what is called as one.
        prepare: the slot `decoder`.
        linear: the slot `linear`.
    """
    if isinstance(model, Ensemble):
        return with_parts(model, models=[for_search(one, prepare, linear) for one in model.models])
    if not isinstance(model, Seq2Seq):
        return model
    output = copy.copy(model.output)
    multiply = linear(output.weight, output.bias)
    vars(output)["forward"] = lambda hidden: multiply(output.narrow(hidden))
    return with_parts(model, decoder=prepare(model.decoder), output=output)
