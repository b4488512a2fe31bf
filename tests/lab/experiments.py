"""Runs small enough to be trained in half a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seq2seq_suite.api import overrides
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.lab.experiment import COMMON

TINY: dict[str, Any] = {
    "task": "translation",
    "data.path": "miniworld",
    "data.size": 48,
    "backbone.width": 16,
    "backbone.feed_forward_width": 16,
    "backbone.num_heads": 2,
    "backbone.encoder_layers": 1,
    "backbone.decoder_layers": 1,
    "backbone.dropout": 0.0,
    "strategy.label_smoothing": 0.0,
    "search.max_length_factor": 2.0,
    "training.max_updates": 40,
    "training.warmup_updates": 5,
    "training.batch_tokens": 256,
    "translation.vocabulary_size": 120,
}


def config_of(settings: Mapping[str, Any]) -> Config:
    """The configuration of these settings on top of what experiments have in common."""
    task = settings["task"]
    fits = {
        key: value
        for key, value in settings.items()
        if key != "task"
        and (key.partition(".")[0] != "translation" or task == "translation")
        and not (key == "strategy.label_smoothing" and settings.get("strategy.kind") == "ctc")
    }
    return config_file.from_mapping(json.loads(json.dumps({"task": task})), overrides({**COMMON, **fits}))
