"""A device that is not the CPU, on any machine: it computes on the CPU and behaves as a GPU does.

Its tensors say `pretended:0`, refuse to be mixed with the CPU's, and every operator on them is counted:

- launches: operators that compute, as each starts a kernel on a GPU; views and empty tensors start none;
- waits: what makes a GPU's host wait: reading a value, `nonzero` and masks as indexes, whose result's size is a value,
  and copies that are not from pinned memory and `non_blocking`. Each has the line of the suite that asked for it.

    with on_the_device() as counts:
        model.to(DEVICE)

Registering the device cannot be undone, and needs a private part of PyTorch: import this module before the suite, in a
process of its own. What a GPU has besides is not there: streams, memory, and its own rounding. Graphs are played again
from a record of operators, see `captured`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils, backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretended"
GRAPH = "graph"  # the name under which one that is replayed counts as a launch
PACKAGE = "seq2seq_suite"
# Their result's shape depends on values, so that a GPU's host waits for them; `_local_scalar_dense` is `item`.
_READ = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "equal",
    "bincount",
    "repeat_interleave.Tensor",
    "_ctc_loss.Tensor",
}
_NO_KERNEL = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_unsafe_view",
    "lift_fresh",
    "resize_",
    "set_",
    "_nested_tensor_from_mask",
}
_INDEXING = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index"}
# As CUDA's autocast has them: products in the lower precision, what sums or exponentiates in float32.
_LOWER = (
    "linear",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "addmv",
    "mv",
    "conv1d",
    "conv2d",
    "scaled_dot_product_attention",
)
_FLOAT32 = (
    "exp",
    "log",
    "softmax.int",
    "log_softmax.int",
    "layer_norm",
    "rms_norm",
    "nll_loss",
    "cumsum",
    "sum",
    "prod",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
    "binary_cross_entropy_with_logits",
    "pow.Tensor_Scalar",
    "cosine_similarity",
    "logsumexp",
)


class _Module(backend_registration._DummyBackendModule):
    """What PyTorch asks of `torch.pretended`."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
DEVICE = torch.device(NAME, 0)
torch.inference_mode = torch.no_grad  # tensors made within cannot be wrapped


class MixedDevices(RuntimeError):
    """An operator was given tensors of the device and of the CPU."""


@dataclass
class Counts:
    """What has run on the device.

    Args:
        launches: by operator.
        waits: by the suite's line and the operator.
        operators: launches and views, each of which takes the host's time.
    """

    launches: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    operators: int = 0

    def wait(self, operator: str) -> None:
        """Note one more."""
        self.waits[f"{_line()} {operator}"] += 1


class Pretended(Tensor):
    """A tensor of the device, with its values in `raw` on the CPU."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> Pretended:
        made = Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            dtype=raw.dtype,
            device=DEVICE,
            storage_offset=raw.storage_offset(),
            requires_grad=False,
        )
        made.raw = raw
        return made

    def __repr__(self) -> str:
        return f"Pretended({self.raw})"

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return _run(operator, args, kwargs or {})


_foreach_utils._foreach_supported_types.append(Pretended)  # as tensors of a GPU, of which PyTorch clips all at once


@contextmanager
def on_the_device() -> Iterator[Counts]:
    """Within, tensors can be made on the device; what they count is there."""
    global _counts
    before, _counts = _counts, Counts()
    # PyTorch makes new parameters where it changes a tensor's class, which would part tied ones.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with _Functions(), _Operators():
            yield _counts
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
        _counts = before


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """`work` as a graph: a call runs its operators again, on the same memory and with the same numbers.

    As on a GPU, what Python decides in between is decided once, and a wait cannot be captured.

    Raises:
        RuntimeError: something waits.
    """
    global _recorded
    work()  # libraries set themselves up
    before, _recorded = _counts.waits.total(), []
    try:
        work()
    finally:
        recorded, _recorded = _recorded, None
    if _counts.waits.total() > before:
        raise RuntimeError(f"operation not permitted when a stream is capturing: {list(_counts.waits)[-1]}")

    def replay() -> None:
        _counts.launches[GRAPH] += 1
        _counts.operators += 1
        for operator, given, options, found in recorded:
            again = operator(*given, **options)
            for mine, new in zip(_leaves(found), _leaves(again), strict=True):
                if isinstance(mine, Tensor) and mine.data_ptr() != new.data_ptr():
                    mine.copy_(new)

    return replay


_recorded: list[tuple[Any, Any, dict[str, Any], Any]] | None = None
_counts = Counts()
_pinned: set[int] = set()  # storages


class _Operators(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return _run(operator, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """What PyTorch does in C++ without the operators that `_Operators` sees."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.tensor, torch.as_tensor) and _is_ours(kwargs.get("device")):
            return torch.tensor(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        if function is Tensor.new_tensor and isinstance(args[0], Pretended):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(DEVICE)
        if function is Tensor.pin_memory:
            found = args[0].clone()
            _pinned.add(found.untyped_storage().data_ptr())
            return found
        if function in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], Pretended):
            args = (args[0], _lists_copied(args[1]), *args[2:])
        if function is torch.nn.functional.scaled_dot_product_attention and isinstance(args[0], Pretended):
            return _attention(*args, **kwargs)
        if function in (Tensor.data_ptr, Tensor.untyped_storage) and isinstance(args[0], Pretended):
            return function(args[0].raw)
        if function in (Tensor.tolist, Tensor.numpy) and isinstance(args[0], Pretended):
            if function is Tensor.numpy and not kwargs.get("force"):
                raise TypeError(f"can't convert a tensor of {DEVICE} to numpy: copy it to the CPU first")
            return getattr(args[0].cpu(), function.__name__)()
        return function(*args, **kwargs)


def _run(operator: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An operator on the CPU's copies; its tensors are the device's if one of the arguments is, or if it is asked."""
    name, leaves = operator.name().removeprefix("aten::"), list(_leaves((args, kwargs)))
    plain = name.partition(".")[0]
    ours = [leaf for leaf in leaves if isinstance(leaf, Pretended)]
    foreign = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, Pretended)]
    wanted = kwargs.get("device")
    result_is_ours = bool(ours) if wanted is None else _is_ours(wanted)
    if ours or result_is_ours:
        _check(plain, args, ours, foreign)
        _count(operator, name, plain, args, kwargs, ours, result_is_ours)
    given, options = _mapped(_raw, (args, kwargs))
    if plain == "_to_copy":
        options = {key: value for key, value in options.items() if key not in ("pin_memory", "non_blocking")}
    found = operator(*given, **options)
    if _recorded is not None:
        _recorded.append((operator, given, options, found))
    if plain.endswith("_") and not plain.endswith("__") and isinstance(found, Tensor):  # in place
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    if not result_is_ours:
        return found
    if plain == "_pack_padded_sequence":  # the sizes of its batches stay on the CPU
        return Pretended(found[0]), found[1]
    return _mapped(lambda one: Pretended(one) if isinstance(one, Tensor) else one, found)


def _leaves(value: Any) -> Iterator[Any]:
    """All that stands in tuples, lists and dictionaries."""
    if isinstance(value, tuple | list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    else:
        yield value


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """The same with each leaf changed; PyTorch's own `tree_map` takes a third of all the time here."""
    if isinstance(value, dict):
        return {name: _mapped(change, one) for name, one in value.items()}
    return type(value)([_mapped(change, one) for one in value]) if isinstance(value, tuple | list) else change(value)


def _raw(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.raw if isinstance(value, Pretended) else value


def _check(plain: str, args: tuple, ours: Sequence[Tensor], foreign: Sequence[Tensor]) -> None:
    """Only numbers and lengths of the CPU may be mixed with the device's tensors, and indexes, which are copied."""
    into_ours = plain in _INDEXING and isinstance(args[0], Pretended)
    if plain in ("copy_", "_to_copy", "_pack_padded_sequence") or not ours or into_ours:
        return
    shapes = [tuple(one.shape) for one in foreign if one.dim()]
    if shapes:
        raise MixedDevices(f"{plain} at {_line()} mixes tensors of {DEVICE} with the CPU's {shapes}")


def _count(
    operator: Any,
    name: str,
    plain: str,
    args: tuple,
    kwargs: dict[str, Any],
    ours: Sequence[Tensor],
    result_is_ours: bool,
) -> None:
    _counts.operators += 1
    is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in operator._schema.returns)
    if not is_view and plain not in _NO_KERNEL:
        _counts.launches[plain] += 1
    if ours and (name in _READ or plain in _READ):
        _counts.wait(plain)
    if plain in _INDEXING:
        indexes = [one for one in args[1] if one is not None]
        fills = plain.startswith("index_put") and len(indexes) == 1 and args[2].numel() == 1  # is `masked_fill_`
        for one in indexes:
            if not isinstance(one, Pretended):
                _counts.wait("index from the CPU")
            elif one.dtype == torch.bool and not fills:
                _counts.wait("mask as an index")
    if plain in ("copy_", "_to_copy"):
        source, into_ours = (args[1], isinstance(args[0], Pretended)) if plain == "copy_" else (args[0], result_is_ours)
        pinned = not isinstance(source, Pretended) and source.untyped_storage().data_ptr() in _pinned
        patient = pinned and (args[2:3] == (True,) or kwargs.get("non_blocking"))
        if isinstance(source, Pretended) != into_ours and not patient:
            _counts.wait("copy to the device" if into_ours else "copy to the CPU")


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Tensor:
    """One kernel, as on a GPU, where the CPU has one."""
    if torch.is_autocast_enabled(NAME):
        lower = torch.get_autocast_dtype(NAME)
        query, key, value = query.to(lower), key.to(lower), value.to(lower)
        attn_mask = attn_mask.to(lower) if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    if dropout_p or query.dim() != 4:
        with torch._C.DisableTorchFunction():
            return torch.ops.aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal
            )[0]
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, float("-inf"))
        attn_mask = attn_mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=attn_mask
    )[0]


def _lists_copied(index: Any) -> Any:
    """An index in which lists, which PyTorch makes tensors of the CPU, are copied to the device."""
    if isinstance(index, list):
        return torch.tensor(index).to(DEVICE)
    return tuple(map(_lists_copied, index)) if isinstance(index, tuple) else index


def _is_ours(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _line() -> str:
    """The suite's line that called, as `model/seq2seq.py:168`."""
    frame = sys._getframe(1)
    while frame is not None:
        _, found, path = frame.f_code.co_filename.rpartition(f"/{PACKAGE}/")
        if found:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


def _autocast(operator: Any, wanted: torch.dtype | None) -> Any:
    """An operator whose tensors of floats are cast first; None stands for autocast's own type."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(value: Any) -> Any:
        kind = torch.get_autocast_dtype(NAME) if wanted is None else wanted
        return value.to(kind) if isinstance(value, Tensor) and value.is_floating_point() else value

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*_mapped(cast, args), **_mapped(cast, kwargs))

    return run


_fallback, _casts = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
_fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
for _names, _type in ((_LOWER, None), (_FLOAT32, torch.float32)):
    for _name in _names:
        _plain, _, _overload = _name.partition(".")
        _operator = getattr(getattr(torch.ops.aten, _plain), _overload or "default")
        _casts.impl(_name, _autocast(_operator, _type), "AutocastPrivateUse1")
