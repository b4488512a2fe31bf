"""Parts of a learner that do not learn: `training.freeze`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from seq2seq_suite.common.errors import ConfigError, truncate

if TYPE_CHECKING:
    from torch import nn

# Parts that are none of a model's modules: embeddings, of source and target, are vectors of symbols and of positions.
_EMBEDDINGS = re.compile(r"(frontend\.)?(\w+_)?(embedding|positions)\.")
_NO_PARTS = {"embedding", "positions"}  # they are `embeddings`


def freeze(learner: nn.Module, wanted: Sequence[str], others: Collection[str] = ()) -> list[str]:
    """Parameters that some names mean, and some others, no longer ask for gradients; all others do.

    A matrix that two parts share, as tied embeddings do, is frozen with either. Norms whose running statistics belong
    to a frozen part (`PowerNorm`) keep them. Dropout still acts.

    Args:
        learner: changed in place.
        wanted: parts, see `parts_of`, or globs of the names that parameters have in model.safetensors.
        others: names of parameters.

    Returns:
        The names of the frozen parameters, tied ones under each of their names.

    Raises:
        ConfigError: a name means no parameter, or nothing is left to learn.
    """
    parameters = dict(learner.named_parameters(remove_duplicate=False))
    kept = [name for name, _ in learner.named_parameters()]  # under these names, of tied ones the first
    found = {*others, *(name for one in wanted for name in _meant(one, list(parameters), kept))}
    frozen = {parameters[name] for name in found}
    for parameter in parameters.values():
        parameter.requires_grad_(parameter not in frozen)
    if frozen and len(frozen) == len(set(parameters.values())):
        raise ConfigError(
            f"training.freeze {truncate(', '.join(wanted))} leaves nothing to learn",
            expected=f"some of {', '.join(parts_of(list(parameters)))}",
            remedy="freeze fewer parts; to score a run without training, use `evaluate`",
        )
    return sorted(name for name, parameter in parameters.items() if parameter in frozen)


def part_of(name: str) -> str:
    """The part of a learner, or of one of a joint run's tasks, that a parameter belongs to.

    >>> part_of("model.encoder.layers.0.norm.gain"), part_of("parts.mt.model.frontend.embedding.weight")
    ('encoder', 'frontend')
    >>> part_of("strategy.auxiliaries.ctc.head.linear.weight"), part_of("strategy.links.gate.weight")
    ('ctc', 'strategy')
    """
    return _within(name).partition(".")[0]


def parts_of(names: Sequence[str]) -> list[str]:
    """What `training.freeze` may name of a model: `embeddings`, and the parts of its parameters.

    >>> parts_of(["model.encoder.norm.gain", "model.embedding.weight", "model.output.bias"])
    ['embeddings', 'encoder', 'output']
    """
    return ["embeddings", *dict.fromkeys(part for part in map(part_of, names) if part not in _NO_PARTS)]


def _meant(wanted: str, names: Sequence[str], kept: Sequence[str]) -> list[str]:
    """The parameters of a part or a glob; raises ConfigError if there is none."""
    if re.search(r"[.*?\[]", wanted):
        found = [name for name in kept if fnmatchcase(name, wanted)]
    elif wanted == "embeddings":
        found = [name for name in names if _EMBEDDINGS.match(_within(name))]
    else:
        found = [name for name in names if part_of(name) == wanted and wanted not in _NO_PARTS]
    if not found:
        parts = parts_of(names)
        near = difflib.get_close_matches(wanted, [*parts, *kept], n=1)
        raise ConfigError(
            f"training.freeze: '{truncate(wanted)}' means no parameter of this model",
            expected=f"{', '.join(parts)}, or a glob of the names in model.safetensors, such as {kept[-1]}",
            remedy=f"did you mean {near[0]}?" if near else "correct the name",
        )
    return found


def _within(name: str) -> str:
    """A parameter's name within its model or strategy."""
    return re.sub(r"^(parts\.\w+\.)?(model\.|strategy\.auxiliaries\.)?", "", name)
