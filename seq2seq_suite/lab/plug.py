"""How a student's functions get into the core: where each of them goes, and what stands between it and the suite.

A function takes the place of the suite's own on the seam of `kernels`, or by its name where there is none, inside
the `with` block alone:

    with plugged({"attend": attend}):
        api.train(...)
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest.mock import patch

from seq2seq_suite import kernels
from seq2seq_suite.common.errors import ConfigError, UserError
from seq2seq_suite.common.user_code import line_of
from seq2seq_suite.lab import adapters
from seq2seq_suite.lab import adapters_output as output

PACKAGE = "seq2seq_suite"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Slot:
    """Where a student's function goes.

    Args:
        seats: what is replaced -> the adapter that makes its replacement of the student's function and of what was
            there. A seat is a slot of `kernels`, a function `module:name`, which is replaced under every name that it
            is bound to, or a method `module:Class.name`.
        when: it is called: while a model is built, at each update, or only while outputs are searched for.
        alike: whether a right one gives the suite's own losses.
    """

    seats: Mapping[str, Callable[[Function, Function], Function]]
    when: Literal["build", "update", "search"] = "update"
    alike: bool = True


_ATTENTION = "model.attention:MultiHeadAttention"
_LAYERS = "model.layers:TransformerLayer.forward", "model.layers:PostNormLayer.forward"
SLOTS: dict[str, Slot] = {
    "cross_entropy": Slot({"cross_entropy": adapters.mean_loss}),
    "squared_error": Slot({"cross_entropy": adapters.mean_loss}, alike=False),
    "attend": Slot({"attention": adapters.attention}),
    "causal_mask": Slot({"model.layers:causal": adapters.causal}),
    "multi_head": Slot(
        {
            f"{_ATTENTION}.forward": adapters.self_attention,
            f"{_ATTENTION}.memory_keys_values": adapters.memory_alone,
            f"{_ATTENTION}.cross": adapters.cross_attention,
        }
    ),
    "sinusoids": Slot({"model.positions:sinusoids": adapters.as_it_is}, when="build"),
    "shift_matrix": Slot({"model.positions:sinusoids": output.shifted_positions}, when="build"),
    "rotate": Slot({"model.positions:RotaryPositions.rotate": output.rotate}),
    "layer_norm": Slot({"model.norms:LayerNorm.forward": adapters.layer_norm}),
    "residual": Slot(dict.fromkeys(_LAYERS, adapters.residual)),
    "dropout": Slot({"dropout": adapters.dropout}),
    "feed_forward": Slot({"model.layers:FeedForward.forward": adapters.feed_forward}),
    "encoder_block": Slot(dict.fromkeys(_LAYERS, adapters.encoder_block)),
    "decoder_block": Slot(
        {
            **dict.fromkeys(_LAYERS, adapters.decoder_block),
            f"{_ATTENTION}.memory_keys_values": adapters.memory_with_keys_values,
        }
    ),
    "shift_right": Slot({"strategies.autoregressive:shift_right": output.shift_right}),
    "smoothed_cross_entropy": Slot({"model.seq2seq:Seq2Seq.cross_entropy": adapters.smoothed_loss}),
    "mix_inputs": Slot({"strategies.autoregressive:Autoregressive._mix_in_predictions": output.mix_inputs}),
    "greedy": Slot({"greedy": output.greedy}, when="search"),
    "beam_search": Slot({"beam": output.beam_search}, when="search"),
    "cached_step": Slot({f"{_ATTENTION}.forward": adapters.cached_step}, when="search"),
    "likeliest_lengths": Slot(
        {"strategies.parallel.length_head:LengthClassifier.likeliest": output.likeliest_lengths}, when="search"
    ),
    "cut_at_end": Slot({"strategies.parallel.constrained:cut_at_end": output.cut_at_end}, when="search"),
    "collapse": Slot({"search.ctc_prefix_scores:collapse": output.collapse}, when="search"),
    "hide": Slot({"strategies.parallel.mask_predict:MaskPredict.predict_symbols": output.hide}, when="search"),
    "allowed_labels": Slot(
        {"tasks.multilabel.label_automaton:LabelAutomaton.allowed": output.allowed_labels}, when="search"
    ),
    "set_loss": Slot({"strategies.sets:Sets._set_loss": adapters.set_loss}),
    "log_mel": Slot(
        {"data.audio:LogMel.__call__": output.log_mel, "data.audio:Features.__init__": output.own_features},
        when="build",
    ),
    "spec_augment": Slot({"model.audio:Masking.__call__": output.spec_augment}),
    "ctc_loss": Slot(
        {
            "strategies.parallel.ctc:path_loss": adapters.path_loss,
            "strategies.ctc_head:CtcHead.loss": adapters.transcript_loss,
        }
    ),
    **{
        name: Slot({f"lab.task:{name}": adapters.as_it_is}, when="build", alike=False)
        for name in ("own_examples", "write_answer", "read_answer", "score_answers")
    },
    "language_loss": Slot({"strategies.auxiliary_losses:Language.loss": adapters.language_loss}),
    "fine_tuning_loss": Slot({"strategies.auxiliary:Auxiliaries.added": adapters.fine_tuning_loss}),
}
# What an experiment changes of the suite besides, `also`, where no key of the configuration does.
CHANGES = {
    "no_cross_attention": Slot({f"{_ATTENTION}.cross": adapters.no_cross_attention}, alike=False),
    "no_cache": Slot(
        {
            "model.decoder:TransformerDecoder.new_cache": adapters.keep_inputs,
            "model.decoder:TransformerDecoder.forward": adapters.read_all_again,
        },
        when="search",
    ),
}


@contextmanager
def plugged(functions: Mapping[str, Function], also: Sequence[str] = ()) -> Iterator[None]:
    """Let the suite compute with these functions, by the names of `SLOTS`, in models built inside the block.

    Args:
        functions: slot -> a student's function.
        also: of `CHANGES`, made after them.

    Raises:
        ConfigError: there is no such slot.
    """
    # These go past the names of a model's parts, which may be replaced here.
    components: dict[str, Function] = {
        seat: kernels.implementation(seat, "plain") for seat in ("encoder", "decoder", "projections")
    }
    with ExitStack() as stack:
        for name, function in (*functions.items(), *dict.fromkeys(also).items()):
            slot = SLOTS.get(name) or CHANGES.get(name)
            if slot is None:
                raise ConfigError(f"{name} has no place in the core", expected=f"one of {', '.join(SLOTS)}")
            for seat, adapt in slot.seats.items():
                if seat in kernels.SLOTS:
                    plain = kernels.implementation(seat, "plain")
                    components[seat] = adapt(function or plain, plain)
                    continue
                owner, attribute = owner_of(seat)
                before = getattr(owner, attribute)
                after = functools.wraps(before)(adapt(function or before, before))
                if isinstance(owner, type):
                    stack.enter_context(patch.object(owner, attribute, after))
                else:
                    _rebind(before, after)
                    stack.callback(_rebind, after, before)  # where it was imported meanwhile, too
        stack.enter_context(kernels.using(components))
        yield


def owner_of(seat: str) -> tuple[Any, str]:
    """The module or class that holds what a seat names, and under which name."""
    module, _, names = seat.partition(":")
    *parents, attribute = names.split(".")
    return functools.reduce(getattr, parents, importlib.import_module(f"{PACKAGE}.{module}")), attribute


def _rebind(before: Function, after: Function) -> None:
    """Each name in the loaded package that is bound to `before` is bound to `after`."""
    for module in [one for name, one in sys.modules.items() if name.partition(".")[0] == PACKAGE]:
        for name in [name for name, value in vars(module).items() if value is before]:
            setattr(module, name, after)


def counted(name: str, function: Function, calls: Counter[str]) -> Function:
    """The function, which counts its calls; raises ConfigError that says where it fails."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        try:
            return function(*args, **kwargs)
        except UserError:  # of another function that this one calls
            raise
        except Exception as error:  # whatever a student's code may raise
            file = function.__code__.co_filename if hasattr(function, "__code__") else ""
            raise ConfigError(
                f"{name} fails: {type(error).__name__}: {error}",
                file=file,
                line=line_of(error, file),
                remedy="try it with `lab check`, which shows the failing input",
            ) from error

    return call
