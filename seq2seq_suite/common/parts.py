"""What the core can be made of: for each kind of part one table, from its name in `backbone` to a row.

A new part is a class in `model/` and a row here: `options/backbone.py` takes the names and the rules from these tables,
`model/build.py` the classes. In the place of a name a configuration may also have FILE.py:NAME, a class of the user's
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from seq2seq_suite.common.user_code import is_code


@dataclass(frozen=True)
class Refusal:
    """What a part cannot go with.

    Args:
        key, values: of `backbone`.
        why: the reason, as a property of the part.
        remedy: a setting that is possible, as `key=value`.
    """

    key: str
    values: tuple[str, ...]
    why: str
    remedy: str


@dataclass(frozen=True)
class Part:
    """A part of the core.

    Args:
        code: the class, as `module.Name`, or FILE.py:NAME.
        compiled: `search.compile` knows it.
        refuses: what it cannot go with.
    """

    code: str
    compiled: bool = False
    refuses: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Positions(Part):
    """Positions of symbols.

    Args:
        inside: they act inside self-attention; otherwise they are added to the input.
        bounded: they need `backbone.max_positions`.
        even_heads: they need an even width of each head.
        directed: those of a decoder are made with `causal`.
    """

    inside: bool = False
    bounded: bool = True
    even_heads: bool = False
    directed: bool = False


@dataclass(frozen=True)
class Activation(Part):
    """The activation of a feed-forward network; one that is `gated` multiplies one half of the inner layer by it."""

    gated: bool = False


_MODEL, _TORCH = "seq2seq_suite.model", "torch.nn.functional"
_NO_ROW_OF_ITS_OWN = Refusal(
    "encoder",
    ("none",),
    "counts positions from the beginning of a batch's rows: the target directly follows each "
    "source, and the sources of a batch differ in length",
    "backbone.positions=sinusoidal",
)

NORMS = {
    "layer": Part(f"{_MODEL}.norms.LayerNorm", compiled=True),
    "rms": Part(f"{_MODEL}.norms.RMSNorm", compiled=True),
    "power": Part(f"{_MODEL}.variants.power_norm.PowerNorm"),
}
RESIDUALS = {
    "pre": Part(f"{_MODEL}.layers.TransformerLayer", compiled=True),
    "post": Part(f"{_MODEL}.layers.PostNormLayer", compiled=True),
}
POSITIONS = {
    "sinusoidal": Positions(f"{_MODEL}.positions.SinusoidalPositions", compiled=True),
    "learned": Positions(f"{_MODEL}.positions.LearnedPositions", compiled=True),
    "rotary": Positions(
        f"{_MODEL}.positions.RotaryPositions",
        compiled=True,
        inside=True,
        even_heads=True,
        refuses=(
            _NO_ROW_OF_ITS_OWN,
            Refusal(
                "attention_score",
                ("additive",),
                "encodes distances in the product of queries "
                "and keys, but backbone.attention_score additive has no product",
                "backbone.positions=sinusoidal",
            ),
        ),
    ),
    "alibi": Positions(
        f"{_MODEL}.variants.alibi.AlibiPositions", inside=True, bounded=False, refuses=(_NO_ROW_OF_ITS_OWN,)
    ),
    "t5": Positions(
        f"{_MODEL}.variants.bucket_positions.BucketPositions",
        inside=True,
        bounded=False,
        directed=True,
        refuses=(_NO_ROW_OF_ITS_OWN,),
    ),
    "none": Positions(f"{_MODEL}.positions.NoPositions", compiled=True, bounded=False),
}
ACTIVATIONS = {
    "relu": Activation(f"{_TORCH}.relu", compiled=True),
    "gelu": Activation(f"{_TORCH}.gelu", compiled=True),
    "swish": Activation(f"{_TORCH}.silu", compiled=True),  # x / (1 + exp(-x)), Ramachandran et al. 2017, eq. 1
    "swiglu": Activation(f"{_TORCH}.silu", compiled=True, gated=True),
    "geglu": Activation(f"{_MODEL}.variants.swiglu.gelu_tanh", gated=True),
}
FEED_FORWARDS = {"dense": Part(f"{_MODEL}.layers.FeedForward", compiled=True)}
ATTENTIONS = {
    "dot": Part(f"{_MODEL}.attention.MultiHeadAttention", compiled=True),
    "additive": Part(f"{_MODEL}.variants.additive.AdditiveMultiHeadAttention"),
}
# The keys of `backbone` that choose a part.
TABLES: Mapping[str, Mapping[str, Part]] = {
    "norm": NORMS,
    "norm_placement": RESIDUALS,
    "positions": POSITIONS,
    "activation": ACTIVATIONS,
    "feed_forward": FEED_FORWARDS,
    "attention_score": ATTENTIONS,
}

_Row = TypeVar("_Row", bound=Part)


def row_of(table: Mapping[str, _Row], name: str) -> _Row:
    """A name's row; that of a class of the user's own has the defaults.

    >>> row_of(POSITIONS, "rotary").inside, row_of(NORMS, "my.py:GainedNorm").code
    (True, 'my.py:GainedNorm')
    """
    return type(next(iter(table.values())))(name) if is_code(name) else table[name]


def compiled(key: str) -> tuple[str, ...]:
    """The names of a key that `search.compile` knows."""
    return tuple(name for name, row in TABLES[key].items() if row.compiled)
