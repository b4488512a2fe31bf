"""Verified blocks are greedy search for a thousand sentences of each task, by weights that have learned a little."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import task_tools
import torch

from seq2seq_suite import miniworld
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.audio import RATE
from seq2seq_suite.data.batching import collate
from seq2seq_suite.data.formats import Row
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.prediction.predictor import Predictor

SENTENCES, LEARNED, UPDATES = 1000, 400, 250
SHORT = {"max_length_factor": 1.0, "max_length_extra": 6}  # weights that know little never write END
SHARP = {"bins": 16, "time_bars": 0, "frequency_bars": 0}  # nothing is masked, so that a little is learned soon
KEYS = {
    "translation": {"translation": {"source_subwords": "bpe", "target_subwords": "bpe", "vocabulary_size": 300}},
    "parsing": {"search": {"max_length_factor": 3.0, "max_length_extra": 4}},
    "tagging": {"tagging": {"spans": True}, "data": {"subset": "semantic_roles"}},
    "multilabel": {"multilabel": {"head": "none"}},
    "asr": {},
}


@dataclass(frozen=True)
class Tones:
    """A sound in which each letter is a tone of its own."""

    name: str

    def key(self) -> bytes:
        return self.name.encode()

    def samples(self) -> tuple[np.ndarray, int]:
        seconds = np.arange(RATE // 12) / RATE
        tones = [np.sin(2 * np.pi * 150.0 * (1 + ord(letter) % 32) * seconds) for letter in self.name]
        return np.concatenate(tones).astype(np.float32) / 2, RATE


def read(task, config: Config) -> list[Example]:
    """Examples to learn from, and a thousand others."""
    if task.name == "asr":
        draw = np.random.default_rng(1)
        words = ["".join(draw.choice(list("abcdefgh"), size=draw.integers(2, 9))) for _ in range(LEARNED + SENTENCES)]
        rows = [{"audio": Tones(word), "text": word} for word in words]
    else:
        view = config.data.subset or task.view
        rows = [row for split in ("train", "test") for row in miniworld.rows(view, split, size=SENTENCES)]
        rows = rows[:LEARNED] + rows[-SENTENCES:]
    return [example for row in rows for example in task.examples(Row(row, "", 1))]


def learned(task, config: Config, examples: list[Example], updates: int) -> Predictor:
    """A model that has learned examples for some updates."""
    torch.manual_seed(1)
    task.fit(examples)
    predictor = build_predictor(config, task, device=torch.device("cpu"))
    learner = predictor.learner.train()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=5e-3)
    encoded, draw = task.encode(examples), np.random.default_rng(2)
    for _ in range(updates):
        optimizer.zero_grad()
        some = draw.choice(len(encoded), size=16, replace=False)
        loss = learner(collate([encoded[place] for place in some], task.name))
        sum(loss.weights[name] * one / max(1, int(loss.counts[name])) for name, one in loss.sums.items()).backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
    learner.eval()
    return predictor


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYS)
def test_verified_blocks_are_greedy_search_for_a_thousand_sentences(name, tmp_path):
    task_tools.installed(name)
    keys = {**KEYS[name], **({"audio": {**SHARP, "cache": str(tmp_path)}} if name == "asr" else {})}
    config = Config.model_validate(
        {
            "task": name,
            "backbone": {
                "width": 32,
                "feed_forward_width": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dropout": 0.0,
            },
            "strategy": {"kind": "blocks", "block": 4},
            "search": SHORT,
            **keys,
        }
    )
    task = open_task(name, config)
    examples = read(task, config)
    predictor = learned(task, config, examples[:LEARNED], UPDATES)
    encoded = task.encode(examples[-SENTENCES:])
    assert len(encoded) == SENTENCES
    greedy, verified = (
        replace(predictor, options=predictor.options.changed(**options)).hypotheses(encoded)
        for options in ({"block": 1}, {"order": "verified"})
    )
    passes = 0
    for (expected,), (found,) in zip(greedy, verified, strict=True):
        assert (found.symbols, found.complete) == (expected.symbols, expected.complete)
        passes += found.details["passes"][-1]
    assert passes < sum(len(best.symbols) + 1 for (best,) in greedy)  # some drafts were right
    assert len({best.symbols for (best,) in greedy}) > 100
