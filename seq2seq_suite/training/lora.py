"""Low-rank changes to the matrices of a finished model, whose own weights stay: `backbone.lora`.

A layer is changed from outside, in its place; searches and kernels that read its `weight` get W0 + s B A. Runs are
opened without these layers: `runs.weights` adds the changes to the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.layers import FeedForward
from seq2seq_suite.model.variants.conformer import Convolution
from seq2seq_suite.runs.tensors import CHANGES, with_change
from seq2seq_suite.training.freezing import part_of

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Lora
    from seq2seq_suite.strategies.learner import Trained

# `backbone.lora.parts`: the class of the module, and its linear layers.
_PARTS: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    **{name: (MultiHeadAttention, (name,)) for name in ("query", "key", "value", "output")},
    "feed_forward": (FeedForward, ("inner", "outer")),
    "convolution": (Convolution, ("inner", "outer")),
}


class LowRankLinear(nn.Linear):
    """h = W0 x + s B A x + b with s = alpha / r, which begins as the layer that it was: B (V,r) is zero.

    Source: Hu et al. 2021 (LoRA), eq. 3 and section 4.1, A (r,D) drawn from a normal distribution.
    """

    lora_a: nn.Parameter
    lora_b: nn.Parameter
    lora_scale: Tensor

    @classmethod
    def put(cls, linear: nn.Linear, rank: int, alpha: float) -> None:
        """Change a layer in its place."""
        own, width = linear.weight, linear.in_features
        linear.__class__ = cls
        changed = cast("LowRankLinear", linear)
        changed.lora_a = nn.Parameter(torch.randn(rank, width).to(own) / math.sqrt(width))
        changed.lora_b = nn.Parameter(own.new_zeros(linear.out_features, rank))
        changed.register_buffer("lora_scale", torch.tensor(alpha / rank, device=own.device))

    @property
    def weight(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """W0 + s B A (V,D), in the precision of W0."""
        own = self._parameters["weight"]
        assert own is not None
        with torch.autocast(own.device.type, enabled=False):
            return with_change(own, self.lora_a, self.lora_b, self.lora_scale)

    def forward(self, x: Tensor) -> Tensor:
        """(...,D) -> (...,V); in training without W0 + s B A, whose gradient would be as large as it."""
        product: Any = getattr(self, "product", functional.linear)  # a kernel's, where one was put before
        if not (self.training and torch.is_grad_enabled()):
            return product(x, self.weight, self.bias)
        change = functional.linear(functional.linear(x, self.lora_a), self.lora_b)
        return product(x, self._parameters["weight"], self.bias) + self.lora_scale * change


def adapt(learner: Trained, options: Lora, parts: Collection[str]) -> None:
    """Give the matrices that some options name low-rank changes; without a rank nothing is changed.

    Args:
        learner: changed in place. The numbers that are drawn next are those that would be without changes.
        options: of `backbone`.
        parts: of the learner, those whose weights stay; see `freezing.part_of`.

    Raises:
        ConfigError: a part is not there.
    """
    with torch.random.fork_rng(devices=[]):
        for name in options.parts if options.rank else ():
            layers = list(_layers(learner, name, parts))
            if not layers:
                raise ConfigError(
                    f"backbone.lora.parts: {', '.join(parts)}, which init_from gives, have no Transformer layer with "
                    f"{name}",
                    expected=f"some of {', '.join(_PARTS)}, in an encoder or a decoder that init_parts names",
                    remedy="leave it out, or choose other init_parts",
                )
            for layer in layers:
                LowRankLinear.put(layer, options.rank, options.alpha)


def _layers(learner: nn.Module, name: str, parts: Collection[str]) -> Iterator[nn.Linear]:
    kind, names = _PARTS[name]
    for path, module in learner.named_modules():
        if isinstance(module, kind) and part_of(path) in parts:
            yield from (getattr(module, name) for name in names)


def base_of(learner: nn.Module, parts: Collection[str]) -> list[str]:
    """The parameters of some parts but for low-rank changes; see `freezing.part_of`."""
    names = [name for name, _ in learner.named_parameters(remove_duplicate=False)]
    return [name for name in names if part_of(name) in parts and not name.endswith(CHANGES)]
