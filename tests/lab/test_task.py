"""A student's own task of four functions is a task of the suite."""

from collections import Counter

import pytest

from seq2seq_suite.api import overrides
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.lab import task as module
from seq2seq_suite.lab.code import Code
from seq2seq_suite.lab.given import GIVEN
from seq2seq_suite.lab.plug import plugged
from seq2seq_suite.lab.running import COMPARED, first_losses
from seq2seq_suite.prediction.open_task import open_task
from tests.lab.experiments import COMMON

NAMES = ("own_examples", "write_answer", "read_answer", "score_answers")
MINE = """
import random
def own_examples(seed):
    numbers = random.Random(seed).sample(range(1, 100), 40)
    return [(f"{n} modulo seven", list(range(n % 7 + 1))) for n in numbers]
def write_answer(answer):
    return [f"n{one}" for one in answer]
def read_answer(symbols):
    return [int(one[1:]) for one in symbols] if all(one[:1] == "n" for one in symbols) else None
def score_answers(gold, predicted):
    return 100 * sum(one == other for one, other in zip(gold, predicted)) / len(gold)
"""


@pytest.fixture(autouse=True)
def trusted():
    with trusting([f"{module.__file__}:OwnTask"]):
        yield


def own_config():
    return config_file.from_mapping(
        {"task": f"{module.__file__}:OwnTask"},
        overrides(
            {
                **COMMON,
                "backbone.width": 16,
                "backbone.feed_forward_width": 16,
                "backbone.num_heads": 2,
                "backbone.encoder_layers": 1,
                "backbone.decoder_layers": 1,
                "training.max_updates": 25,
            }
        ),
    )


def test_his_functions_make_the_task(tmp_path):
    (tmp_path / "task.py").write_text(MINE)
    calls = Counter()
    config, functions = own_config(), Code(tmp_path, calls).functions(NAMES)
    with plugged(functions):
        task = open_task(config.task, config)
        train, held_out = task.read("train"), task.read("validation")
        assert len(train) == 40 and 10 < len(held_out) < 40
        assert not {str(one.source) for one in train} & {str(one.source) for one in held_out}
        assert task.target.from_line(task.to_text([0, 1, 2]), {}) == [0, 1, 2] and task.to_text(None) == ""
        score = task.score([[0, 1, 2, 3, 4], None], [[0, 1, 2, 3, 4], [0]])
        assert score.figures == {"score": 50.0} and score.counts == ((1.0, 1.0), (0.0, 1.0))
    assert set(calls) == set(NAMES)
    losses = first_losses(config, functions)
    assert len(losses) == COMPARED and losses[-1] < losses[0]


def test_without_his_functions_the_reference_is_the_task():
    config = own_config()
    assert open_task(config.task, config).read("train")[0].reference == GIVEN.own_examples(1)[0][1]
