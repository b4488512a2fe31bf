"""On a device that is not the CPU everything stands on the right side, and hardly anything waits.

What a launch and a wait are: see `benchmarks.pretended_device`.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

from tests.devices.device_cases import CAPTURED, LAUNCHES, NOT_CAPTURED, SEARCHED, TRAINED, WAIT_ONCE

HERE = Path(__file__).parent
STEPS = 8  # of search from one wait to the next

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
        reason="this PyTorch cannot have a device in Python alone",
    ),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What all cases came to; their device cannot be taken back, so they have a process of their own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(
        [sys.executable, HERE / "device_worker.py", tmp_path_factory.mktemp("runs")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", TRAINED)
def test_training_and_its_search_never_mix_devices(found, name):
    assert not found[name]["error"], found[name]["error"]


def test_the_device_refuses_tensors_of_the_cpu_and_counts_what_waits(found):
    """The laws here would hold of a device that says nothing."""
    assert found["device"] == {
        "error": "",
        "mixed": True,
        "item": 1,
        "nonzero": 1,
        "mask": 1,
        "list": 1,
        "pinned": 0,
        "pageable": 1,
        "view": 0,
        "product": "torch.bfloat16",
        "softmax": "torch.float32",
        "seconds": found["device"]["seconds"],
    }


def test_a_resumed_run_has_the_same_weights_to_the_bit(found):
    assert not found["resumed"]["error"] and found["resumed"]["equal"], found["resumed"]["error"]


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_find_what_they_find_on_the_cpu(found, name):
    assert not found[name]["error"], found[name]["error"]
    ours, theirs = (
        [hypothesis for hypotheses in found[name][side] for hypothesis in hypotheses] for side in ("ours", "theirs")
    )
    assert [symbols for symbols, _ in ours] == [symbols for symbols, _ in theirs] and any(ours)
    assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", CAPTURED)
def test_steps_run_as_a_graph_that_is_captured_once_for_batches_of_a_bucket(found, name):
    assert found[name]["replays"] >= 4 and not found[name]["reasons"], found[name]["reasons"]


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_steps_that_cannot_be_captured_run_plainly_and_say_why(found, name):
    (reason,), why = found[name]["reasons"], NOT_CAPTURED[name][2]
    assert why in reason and not found[name]["replays"]


@pytest.mark.parametrize("name", TRAINED)
def test_an_update_waits_for_the_device_once_at_most(found, name):
    waits = found[name]["update"]["waits"]
    assert sum(waits.values()) == (name in WAIT_ONCE), waits


@pytest.mark.parametrize("name", [name for name in SEARCHED if "draft" not in name and name not in CAPTURED])
def test_a_search_waits_for_the_device_in_one_of_eight_steps_at_most(found, name):
    step = found[name]["step"]
    assert step is None or round(sum(step["waits"].values()) * step["calls"]) <= math.ceil(step["calls"] / STEPS), step


@pytest.mark.parametrize("name", LAUNCHES)
def test_launches_are_those_of_the_table(found, name):
    launches = [part and part["launches"] for part in (found[name]["update"], found[name]["step"])]
    for launched, named in zip(launches, LAUNCHES[name], strict=True):
        assert named is None or launched == pytest.approx(named, rel=0.1), launches


def test_bfloat16_changes_a_loss_by_its_rounding_alone(found):
    whole, half = (found[name]["losses"][0] for name in ("tagging", "bfloat16"))
    assert whole != half == pytest.approx(whole, rel=0.02)
