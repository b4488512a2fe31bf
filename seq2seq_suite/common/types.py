"""The types that every part of the suite shares.

Letters in shapes: B batch, S source length, T target length, D width, V vocabulary, K focus positions,
M context symbols. Masks are bool and True means real or visible, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:  # torch and numpy stay out of the command line's import time
    import torch
    from torch import Tensor

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
BLANK = PAD  # of CTC: padding is never predicted, so its id is free
UNLIKELY = -1e4  # logit of symbols that are avoided, unless an automaton allows nothing else
SPECIALS = ("<pad>", "<begin>", "<end>", "<unknown>")
NEVER = float("-inf")  # log-probability of what is impossible
# What a symbol, at last END, adds to the score of the output that it extends.
SymbolGain = Callable[[tuple[int, ...], int], float]
State = TypeVar("State", bound="PerRow")  # of a constraint


@dataclass(frozen=True)
class Batch:
    """Padded examples of one task.

    Args:
        source: (B,S) ids, (B,S,P) pieces of each word, (B,S,F) features, or (B,H,W,3) pictures; not read by a language
            model.
        source_mask: (B,S) bool.
        target: (B,T) ids, each row ends in END; strategies add BEGIN or MASK.
        target_mask: (B,T) bool.
        given: (B,T) bool, True = given, not predicted.
        task: the task's name.
        indices: the examples' places in their split.
        auxiliary: other labels. `focus` (B,T,K) int64, source positions that each target symbol is
            tied to, -1 for none, and `context` (B,T,M) int64, symbols that describe the state before it, 0 for none,
            for a guide; `ctc` (B,U) int64, the source's transcript, padded with 0; `begin` (B,L) int64, what an
            output that is searched for must begin with, padded with 0; `draft` (B,L), an output to check, padded
            likewise; `spans` (B,K,2) int64, first and last source position of each bracket, -1 for none; labels of the
            source positions (B,S) int64, -1 for none, under their kind.
    """

    source: Tensor
    source_mask: Tensor
    target: Tensor
    target_mask: Tensor
    given: Tensor
    task: str
    indices: tuple[int, ...] = ()
    auxiliary: Mapping[str, Tensor] = field(default_factory=dict)

    @cached_property
    def loss_positions(self) -> Tensor:
        """(P,) int64, the `places` in the target of the symbols to predict."""
        return places(self.target_mask & ~self.given)

    @cached_property
    def source_positions(self) -> Tensor:
        """(P,) int64, the `places` in the source without its first column, of real symbols."""
        return places(self.source_mask[:, 1:])

    def to(self, device: torch.device) -> Batch:
        """Move to a device; index lists are computed before, to avoid a device synchronisation."""
        moved = self._map(lambda tensor: to_device(tensor, device))
        found = {
            "loss_positions": self.loss_positions,
            **({"source_positions": self.source_positions} if "source_positions" in vars(self) else {}),
        }
        vars(moved).update({name: to_device(tensor, device) for name, tensor in found.items()})
        return moved

    def select(self, rows: Sequence[int]) -> Batch:
        """The given rows, padded as they were."""
        return replace(self._map(lambda part: part[list(rows)]), indices=tuple(self.indices[row] for row in rows))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        names = ("source", "source_mask", "target", "target_mask", "given")
        return replace(
            self,
            **{name: change(getattr(self, name)) for name in names},
            auxiliary={name: change(tensor) for name, tensor in self.auxiliary.items()},
        )


def places(mask: Tensor) -> Tensor:
    """(P,) int64, where a flattened mask is True; on a GPU this synchronises."""
    return mask.flatten().nonzero().squeeze(1)


def source_symbols(source: Tensor) -> Tensor:
    """(B,S) the symbols of a source (B,S) or (B,S,P), of which P - 1 columns say more about each."""
    return source if source.dim() == 2 else source[..., 0]


def to_float64(tensor: Tensor) -> Tensor:
    """The tensor in float64, or in float32 where its device has no such type."""
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`; from pinned memory for a GPU, so that the copy is asynchronous."""
    pins = device.type not in ("cpu", "mps") and tensor.device.type == "cpu"
    return (tensor.pin_memory() if pins else tensor).to(device, non_blocking=True)


def sync_interval(device: torch.device) -> int:
    """Steps of a search between two checks of which outputs have ended; each check synchronises a GPU."""
    return 1 if device.type == "cpu" else 8


class PerRow:
    """A dataclass of tensors (N,...), others of its kind and tuples of them; other fields are common to all rows."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def select(self, rows: Tensor) -> Self:
        """The given rows, (N',) int64, in that order; rows may repeat."""
        return type(self)(*(_rows_of(getattr(self, one.name), rows) for one in fields(self)))

    def empty_index(self) -> Tensor:
        """(N,0) int64; for a class whose first field is a tensor."""
        first = getattr(self, fields(self)[0].name)
        return first.new_zeros(len(first), 0).long()


def _rows_of(value: Any, rows: Tensor) -> Any:
    if isinstance(value, tuple):
        return tuple(_rows_of(one, rows) for one in value)
    if hasattr(value, "index_select"):
        return value.index_select(0, rows)
    return value.select(rows) if hasattr(value, "select") else value


@dataclass(frozen=True)
class States(PerRow):
    """What every front-end and every encoder returns: values (B,S',D) and mask (B,S').

    `symbols` (B,S') are those that outputs may copy; `copied` (B,P,D) is what hidden symbols' slots read by place.
    """

    values: Tensor
    mask: Tensor
    symbols: Tensor | None = None
    copied: Tensor | None = None


@dataclass(frozen=True)
class Distributions:
    """What a loss judges: a distribution over V symbols in each of some slots.

    Args:
        loss: its name in `Loss.sums`.
        logits: gives (...,V) unnormalised log-probabilities.
        counted: (...) bool, the slots that are judged.
    """

    loss: str
    logits: Callable[[], Tensor]
    counted: Tensor


@dataclass(frozen=True)
class Loss:
    """Named sums with the counts they are means over.

    Sums, not means, so that accumulation, batches of any size and several ranks give exactly the loss of one
    large batch. The scalar to minimise is the sum over names of weight * sum / count.

    Args:
        sums: name -> scalar tensor, a sum over `counts[name]` items.
        counts: name -> number of items summed; a tensor's is read, which synchronises a GPU, only when logged.
        weights: name -> weight in the total; names absent here are reported, not trained on.
        judged: the distributions that sums were computed from.
    """

    sums: dict[str, Tensor]
    counts: dict[str, int | Tensor]
    weights: dict[str, float]
    judged: tuple[Distributions, ...] = ()


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search.

    Args:
        symbols: target ids without BEGIN and END.
        score: what it was ranked by, higher is better.
        complete: False if the length limit forced its END.
        details: other predictions by name: labels of the source positions under their kind; `marginals`, the
            probability of each target symbol to be in the set; `certainties`, that of each object's class; `log_probs`
            of the symbols of a text that was judged.
    """

    symbols: tuple[int, ...]
    score: float
    complete: bool = True
    details: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


class Constraint(Protocol[State]):
    """An automaton over target symbols, run for all rows together.

    It says which symbols may come next, and it can describe its state to the decoder: `focus` are the source positions
    that the next symbol is tied to, `context` the symbols that surround it; by default neither is described.
    """

    num_focus: int = 0
    num_context: int = 0

    def start(self, batch: Batch, limit: Tensor) -> State:
        """States before the first symbol; `limit` (B,) int64 is the longest output allowed, END included."""
        raise NotImplementedError

    def allowed(self, state: State) -> Tensor:
        """(N,V) bool: True where a symbol may come next. Every row allows at least one symbol."""
        raise NotImplementedError

    def advance(self, state: State, symbols: Tensor) -> State:
        """The states after `symbols`, (N,) int64."""
        raise NotImplementedError

    def gains(self, state: State) -> Tensor | None:
        """(N,V) bonus added to the next symbol's log-probabilities, or None."""
        return None

    def focus(self, state: State) -> Tensor:
        """(N,K) int64 source positions, -1 for none."""
        return state.empty_index()

    def context(self, state: State) -> Tensor:
        """(N,M) int64 target symbols, 0 for none."""
        return state.empty_index()


@runtime_checkable
class ExactConstraint(Protocol):
    """A constraint that knows how long an output is, and finds the best one over independent positions."""

    def lengths(self, batch: Batch) -> Tensor:
        """(B,) int64, symbols of each output, END not included."""
        raise NotImplementedError

    def best(self, scores: Tensor, batch: Batch) -> Tensor:
        """(B,C) int64, the well-formed symbols of highest summed score (B,C,V), END behind them."""
        raise NotImplementedError
