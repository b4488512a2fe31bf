"""Writes a checkpoint of another program as a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.families import Family, family_of
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.evaluate import outcome
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.run_directory import RunDirectory, provenance
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.training import checkpoint as checkpoints

_FREE = ("dropout", "attention_dropout", "max_positions")  # keys of backbone that no weight depends on


def import_run(
    source: str,
    output: Path,
    *,
    overrides: Sequence[str] = (),
    asked: Mapping[str, str] = MappingProxyType({}),
    overwrite: bool = False,
    command: list[str],
) -> dict[str, Any]:
    """Write a pretrained model as a run directory, from which everything works that works on a trained run.

    Args:
        source: a folder as Hugging Face's programs write it, or `owner/name` of the Hub, perhaps with `@revision`.
        output: the run directory.
        overrides: changes to the configuration, `key=value`.
        asked: the `task` and the `language` of a model that has several.
        overwrite: delete the run that is there.
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
        predictor = build_predictor(config, task, device=torch.device("cpu"))
        _fill(predictor.learner, family)
        checkpoint.weights.check_all_taken()
        facts = {"family": checkpoint.value("model_type", str), **checkpoint.facts()}
        types = sorted(str(one).removeprefix("torch.") for one in checkpoint.weights.types - {torch.float32})
        run.write_config(config_file.dump(config))
        task.save(run.vocabulary)
        checkpoints.export(run.checkpoints, predictor.learner)
        run.write_provenance({**provenance(command, config.seed, {}), "imported": facts})
        run.write_summary(
            {
                **outcome(task, {}, {}),
                **dict.fromkeys(("updates", "tokens", "seconds", "tokens_per_second"), 0),
                "parameters": predictor.learner.num_parameters(),
                "core_parameters": predictor.learner.num_core_parameters(),
            }
        )
        if types:
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


def _fill(learner: Learner, family: Family) -> None:
    """Put a family's tensors in a learner's parameters.

    Raises:
        ConfigError: the configuration was changed so that they do not fit.
    """
    parameters = dict(learner.model.named_parameters(remove_duplicate=False))
    shapes, filled = {name: tuple(one.shape) for name, one in parameters.items()}, set()
    with torch.no_grad():
        for name, tensor in family.tensors(shapes):
            if shapes.get(name) == tuple(tensor.shape):
                parameters[name].copy_(tensor)
                filled.add(parameters[name])
    if left := [name for name, one in learner.named_parameters() if one not in filled]:
        raise ConfigError(
            f"the model has no weights for {left[0]}, which the changed configuration asks for",
            file=COMMAND_LINE,
            expected="the model's own parts",
            remedy="import it as it is, and train another one with init_from",
        )
