"""Writes a checkpoint of another program as a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.families import Family, family_of
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.evaluate import outcome
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.run_directory import RunDirectory, provenance
from seq2seq_suite.runs.weights import unique
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.training import checkpoint as checkpoints

_PIECE = 2**20  # numbers that are compared at a time
_FREE = ("dropout", "attention_dropout", "max_positions")  # keys of backbone that no weight depends on


def import_run(
    source: str,
    output: Path,
    *,
    overrides: Sequence[str] = (),
    asked: Mapping[str, str] = MappingProxyType({}),
    overwrite: bool = False,
    dtype: str = "float32",
    command: list[str],
) -> dict[str, Any]:
    """Write a pretrained model as a run directory, from which everything works that works on a trained run.

    Args:
        source: a folder as Hugging Face's programs write it, or `owner/name` of the Hub, perhaps with `@revision`.
        output: the run directory.
        overrides: changes to the configuration, `key=value`.
        asked: the `task` and the `language` of a model that has several.
        overwrite: delete the run that is there.
        dtype: of the weights in the run's file, float32 or bfloat16, to which they are rounded.
        command: the command line.

    Returns:
        What provenance.json keeps of the model.

    Raises:
        ConfigError: the directory is in use, or an override is wrong.
        DataError: it is no model, an incomplete one, or one that the suite cannot express; nothing is left behind.
    """
    with RunDirectory.claim(output, resume=None, overwrite=overwrite) as run:
        checkpoint = Checkpoint.of(source)
        checkpoint.asked |= asked
        family = family_of(checkpoint)
        config = config_file.from_mapping(family.settings, overrides)
        _check_changes(config, family)
        task = open_task(config.task, config)
        for side, pieces in family.pieces(config).items():
            getattr(task, side).pieces = pieces
        predictor = build_predictor(config, task, device=torch.device("cpu"), drawn=False)
        learner = predictor.learner
        shapes = {name: tuple(one.shape) for name, one in unique(learner.state_dict()).items()}
        tensors, counts = _tensors(learner, family, checkpoint), Counter[str]()
        if dtype != "float32":
            tensors = _rounded(tensors, getattr(torch, dtype), counts)
        try:
            checkpoints.export_each(run.checkpoints, shapes, tensors, dtype)
        except BaseException:
            with suppress(OSError):  # it is not there, or not empty
                run.checkpoints.rmdir()
            raise
        facts = {"family": checkpoint.value("model_type", str), **checkpoint.facts()}
        types = sorted(str(one).removeprefix("torch.") for one in checkpoint.weights.types - {torch.float32})
        run.write_config(config_file.dump(config))
        task.save(run.vocabulary)
        run.write_provenance({**provenance(command, config.seed, {}), "imported": facts})
        run.write_summary(
            {
                **outcome(task, {}, {}),
                **dict.fromkeys(("updates", "tokens", "seconds", "tokens_per_second"), 0),
                "parameters": learner.num_parameters(),
                "core_parameters": learner.num_core_parameters(),
            }
        )
        if dtype != "float32":
            print(f"weights are kept as {dtype}, to which {counts['rounded']:,} of {counts['all']:,} were rounded")
        elif types:
            print(f"weights of type {', '.join(types)} are kept as float32")
    return facts


def _check_changes(config: Config, family: Family) -> None:
    """Raise ConfigError for changes to what the weights decide."""
    for key, value in family.settings["backbone"].items():
        if key not in _FREE and (changed := getattr(config.backbone, key)) != value:
            raise ConfigError(
                f"backbone.{key}={changed}",
                file=COMMAND_LINE,
                expected=f"{value}, the model's own",
                remedy="import it as it is, and train another one with init_from",
            )


def _rounded(
    tensors: Iterator[tuple[str, Tensor]], dtype: torch.dtype, counts: Counter[str]
) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a type; counts `all` numbers and those that were `rounded`."""
    for name, tensor in tensors:
        kept = tensor.to(dtype)
        pieces = zip(tensor.flatten().split(_PIECE), kept.flatten().split(_PIECE), strict=True)
        rounded = sum(int((one != other.to(one.dtype)).sum()) for one, other in pieces)
        counts.update({"all": tensor.numel(), "rounded": rounded})
        del tensor, pieces
        yield name, kept
        del kept


def _tensors(learner: Learner, family: Family, checkpoint: Checkpoint) -> Iterator[tuple[str, Tensor]]:
    """A family's tensors by the names that a learner keeps them under, and its buffers.

    Raises:
        ConfigError: the configuration was changed so that they do not fit.
        DataError: a weight is left that would not be used.
    """
    parameters = dict(learner.model.named_parameters(remove_duplicate=False))
    shapes = {name: tuple(one.shape) for name, one in parameters.items()}
    kept = {one: name for name, one in learner.named_parameters()}  # of tied ones the first name
    left = {*kept.values()}
    for name, tensor in family.tensors(shapes):
        if shapes.get(name) == tuple(tensor.shape) and kept[parameters[name]] in left:
            left.remove(kept[parameters[name]])
            yield kept[parameters[name]], tensor
        del tensor  # before the next is made
    checkpoint.weights.check_all_taken()
    if left:
        raise ConfigError(
            f"the model has no weights for {min(left)}, which the changed configuration asks for",
            file=COMMAND_LINE,
            expected="the model's own parts",
            remedy="import it as it is, and train another one with init_from",
        )
    state = unique(learner.state_dict())
    yield from ((name, state[name]) for name in state.keys() - kept.values())
