"""The steps of greedy and beam search as CUDA graphs: a step's launches then cost the host one call.

A graph repeats the same kernels on the same memory. So each tensor of a search has a fixed place and size: keys and
values have room for more positions, which a mask hides; rows that have ended stay; the step's number is a tensor. There
is a graph for each bucket of sizes: rows are rounded up to a power of two, source positions and the longest output to
multiples of 32, and the room for keys and values doubles as outputs grow. Not measured on a GPU yet: see
`benchmarks/results/gpu.md`.
"""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seq2seq_suite.common.types import END, sync_interval
from seq2seq_suite.kernels.cache import KeysValues, cache_of, layers_of
from seq2seq_suite.kernels.decoder import FastDecoder, with_parts
from seq2seq_suite.model.decoder import Cache, CrossKeysValues
from seq2seq_suite.model.guide import GuidedMemory
from seq2seq_suite.model.pointer import TermMemory
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.model.prefix import PrefixSeq2Seq
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.search.step import Rows, Stepper

_SIZES = 32  # source positions and output lengths are rounded up to a multiple of this
_MOST_GRAPHS = 16  # of a model; each keeps its memory
_WARM_UPS = 3  # steps before capture, in which libraries set themselves up


class Search(Protocol):
    """A search under way: a dataclass of tensors, whose steps change no shape."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def rows(self) -> Rows:
        """The partial outputs."""
        raise NotImplementedError

    @property
    def over(self) -> Tensor:
        """(N,) or (B,) bool, what has ended."""
        raise NotImplementedError

    def whole_step(self, stepper: Stepper, step: Tensor) -> Self:
        """The search one symbol later, `step` (1,) being the symbols before."""
        raise NotImplementedError


Going = TypeVar("Going", bound=Search)


def _captured_by_cuda(work: Callable[[], None]) -> Callable[[], None]:
    """`work`, which changes tensors in place, as a CUDA graph; a call replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph.replay


CAPTURES: dict[str, Callable[[Callable[[], None]], Callable[[], None]]] = {"cuda": _captured_by_cuda}  # by device
_graphs: WeakKeyDictionary[nn.Module, OrderedDict[Any, _Graph[Any]]] = WeakKeyDictionary()  # by decoder


def captures(stepper: Stepper, rows: Rows) -> bool:
    """Whether the steps of a search can be captured; if they were asked for, a warning says why not."""
    if not stepper.options.compile or rows.memory.states.mask.device.type not in CAPTURES:
        return False
    reason = _obstacle(stepper, rows)
    if reason:
        _say(reason)
    return not reason


def _obstacle(stepper: Stepper, rows: Rows) -> str:
    """Why the steps of a search cannot be captured; empty if they can."""
    if stepper.options.sampling:
        return "outputs are sampled"
    model = stepper.model
    if not isinstance(model, Seq2Seq) or isinstance(model, PrefixSeq2Seq) or not isinstance(model.decoder, FastDecoder):
        return "the model or its decoder has unusual parts"
    if rows.history is not None:
        return "scores depend on the symbols so far"
    if rows.prefixes is not None:
        return "CTC scores the prefixes"
    if isinstance(rows.memory, TermMemory):
        return "the strategy adds to the logits"
    if rows.cache.length:
        return "the beginning of the target is given"
    if rows.memory.cross is not None and not bool(rows.memory.cross.visible.any(-1).all()):
        return "a source is empty"
    if rows.automaton is not None:
        before = list(_tensors(rows.automaton))
        after = list(
            _tensors(stepper.advance(rows, before[0].new_full((before[0].size(0),), END, dtype=torch.int64)).automaton)
        )
        if [one.shape for one in before] != [one.shape for one in after]:
            return "the automaton's state grows"
    return ""


def _say(reason: str) -> None:
    warnings.warn(f"search.compile: these steps are not captured as a CUDA graph: {reason}", stacklevel=3)


def in_bucket(rows: Rows, previous: Tensor, limit: Tensor) -> tuple[Rows, Tensor, Tensor]:
    """Rows (N,...), symbols before them (N,) and limits (N,) with N and the source's length rounded up.

    The rows that are added are the first one's, and end at once.
    """
    count = limit.size(0)
    places = torch.arange(1 << (count - 1).bit_length(), device=limit.device)
    chosen = torch.where(places < count, places, 0)
    limit = torch.where(places < count, limit[chosen], 1)
    rows = rows.select(chosen, chosen)
    return replace(rows, memory=_padded(rows.memory, rounded(rows.memory.states.mask.size(1)))), previous[chosen], limit


def rounded(size: int) -> int:
    """A length's bucket.

    >>> rounded(0), rounded(1), rounded(33)
    (0, 32, 64)
    """
    return -(-size // _SIZES) * _SIZES


def _padded(memory: Memory, length: int) -> Memory:
    """With padding behind the sources, up to `length`."""
    more = length - memory.states.mask.size(1)

    def wider(one: Tensor, dims_behind: int) -> Tensor:
        return pad(one, (0, 0) * dims_behind + (0, more))

    cross, states = memory.cross, memory.states
    if cross is not None:
        layers = (type(one)(wider(one.keys, 1), wider(one.values, 1)) for one in cross.layers)
        cross = CrossKeysValues(tuple(layers), wider(cross.visible, 0))
    states = replace(
        states,
        values=wider(states.values, 1),
        mask=wider(states.mask, 0),
        symbols=None if states.symbols is None else wider(states.symbols, 0),
    )
    more_parts = {"guide": wider(memory.guide, 1)} if isinstance(memory, GuidedMemory) else {}
    return replace(memory, cross=cross, states=states, **more_parts)


def search(stepper: Stepper, state: Going, longest: int) -> Going | None:
    """The search's end, by captured steps; the next one overwrites its tensors. None where capture fails."""
    capacity, step, interval = _SIZES, 0, sync_interval(state.over.device)
    while True:
        graph = _graph_for(stepper, state, capacity)
        if graph is None:
            return None
        graph.load(state, step)
        while step < min(capacity, longest):
            if step % interval == 0:
                _check_positions(stepper.model, min(step + interval, longest))
            graph.replay()
            step += 1
            if step == longest or (step % interval == 0 and bool(graph.state.over.all())):
                return graph.state
        state, capacity = graph.state, 2 * capacity


def _graph_for(stepper: Stepper, state: Going, capacity: int) -> _Graph[Going] | None:
    model = stepper.model
    shapes = tuple((one.shape, one.dtype) for one in _tensors(_without_cache(state)))
    key = (
        type(state),
        capacity,
        shapes,
        stepper.options.model_dump_json(),
        id(stepper.constraint),
        model.output.weight.data_ptr(),
    )
    known = _graphs.setdefault(model.decoder.decoder, OrderedDict())
    if key not in known:
        if len(known) >= _MOST_GRAPHS:
            known.popitem(last=False)
        try:
            known[key] = _Graph(stepper, state, capacity)
        except RuntimeError as error:  # of CUDA: an operator that cannot be captured, or no memory left
            _say(str(error).strip().partition("\n")[0])
            return None
    known.move_to_end(key)
    return known[key]


class _Graph(Generic[Going]):
    """A search's step, captured, with the tensors that it changes."""

    def __init__(self, stepper: Stepper, state: Going, capacity: int):
        self.step = torch.zeros(1, dtype=torch.int64, device=state.over.device)
        self.decoder = _Behind(stepper.model, capacity)
        rooms = (_Room.like(one, capacity, self.step) for one in layers_of(state.rows.cache))
        own = _cloned(_without_cache(state))
        self.state: Going = replace(own, rows=replace(own.rows, cache=cache_of(rooms)))
        stepper = copy.copy(stepper)
        stepper.model = with_parts(stepper.model, decoder=self.decoder)
        self.read = stepper.constraint, stepper.processors  # by the graph, which does not keep them itself
        self.replay = CAPTURES[state.over.device.type](lambda: self._advance(stepper))

    def _advance(self, stepper: Stepper) -> None:
        after = self.state.whole_step(stepper, self.step)
        pairs = [(old, new) for old, new in zip(_tensors(self.state), _tensors(after), strict=True) if old is not new]
        kept = {old.untyped_storage().data_ptr() for old in _tensors(self.state)}
        # A state's part may be another one's value before: it is read before it is overwritten.
        pairs = [(old, new.clone() if new.untyped_storage().data_ptr() in kept else new) for old, new in pairs]
        for old, new in pairs:
            old.copy_(new)
        self.step.add_(1)

    def load(self, state: Going, step: int) -> None:
        """Go on from another search's state, of the same shapes or with less room for keys and values."""
        for mine, other in zip(_tensors(_without_cache(self.state)), _tensors(_without_cache(state)), strict=True):
            mine.copy_(other)
        for mine, other in zip(layers_of(self.state.rows.cache), layers_of(state.rows.cache), strict=True):
            mine.room.narrow(3, 0, other.room.size(3)).copy_(other.room)
        self.step.fill_(step)
        self.decoder.look(self.state.rows.memory.cross)


class _Behind:
    """A decoder whose self-attention sees the filled part of the room for keys and values."""

    def __init__(self, model: Any, capacity: int):
        self.steps = FastDecoder(model.decoder.decoder)
        self.places = torch.arange(capacity, device=model.output.weight.device)

    def __call__(
        self, x: Tensor, visible: None, memory: CrossKeysValues | None, cache: Cache
    ) -> tuple[Tensor, Cache | None]:
        """See `TransformerDecoder.forward`; x is (N,1,D)."""
        return self.steps(x, (self.places <= cache.length).view(1, 1, -1), memory, cache)

    def look(self, memory: CrossKeysValues | None) -> None:
        """Take over what is visible of other sources in the same memory."""
        if memory is not None:
            assert self.steps.mask is not None  # made when the step was captured
            self.steps.mask.zero_().masked_fill_(~memory.visible.unsqueeze(1), float("-inf"))


@dataclass(frozen=True)
class _Room(KeysValues):
    """Keys and values of fixed size, overwritten; `length` (1,) is a tensor, counted elsewhere."""

    length: Tensor

    @staticmethod
    def like(other: KeysValues, capacity: int, length: Tensor) -> _Room:
        # What is hidden is multiplied by zero, and must be finite.
        return _Room(other.room.new_zeros(*other.room.shape[:3], capacity, other.room.size(4)), length)

    @property
    def both(self) -> Tensor:
        return self.room

    def extend(self, both: Tensor) -> _Room:
        self.room.index_copy_(3, self.length, both)
        return self

    def select(self, rows: Tensor) -> _Room:
        return _Room(self.room.index_select(1, rows), self.length)


def _check_positions(model: Any, end: int) -> None:
    """Raise as plain steps do where positions run out: a captured step does not look."""
    decoder = model.decoder.decoder
    model.positions(model.output.weight.new_zeros(1, 1, decoder.shape.width), end - 1)
    rotary = decoder.layers[0].attention.positions
    if isinstance(rotary, RotaryPositions):
        rotary.factors(1, end - 1)


def _without_cache(state: Going) -> Going:
    return replace(state, rows=replace(state.rows, cache=Cache(())))


def _tensors(value: Any) -> Iterator[Tensor]:
    """Those of dataclasses and tuples, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _tensors(one)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _tensors(getattr(value, one.name))


def _cloned(value: Any) -> Any:
    """The same with a copy of each tensor."""
    if isinstance(value, Tensor):
        return value.clone(memory_format=torch.contiguous_format)
    if isinstance(value, tuple):
        return tuple(map(_cloned, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _cloned(getattr(value, one.name)) for one in fields(value)})
    return value
