"""The speed benchmarks run from end to end, so that they do not rot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rounds import Rounds, Worker
from benchmarks.systems import Shape

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("script", "options", "heading", "row"),
    [
        ("training_speed", ["--cache", "."], "# Training speed: synthetic", "| seq2seq_suite "),
        ("decoding_speed", ["--cache", "."], "# Decoding speed: synthetic, tiny, float32", "| seq2seq_suite "),
        ("attention_score", [], "# Attention scores: width 256, 8 heads, float32, cpu", "| 16 | 4 | additive "),
    ],
)
@pytest.mark.slow
def test_a_small_measurement_ends_in_a_table(tmp_path, script, options, heading, row):
    output = tmp_path / "speed.md"
    options = [str(tmp_path) if option == "." else option for option in options]
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{script}",
        "--smoke",
        "--threads",
        "1",
        *options,
        "--output",
        str(output),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert output.read_text().startswith(heading)
    assert row in done.stdout


def test_the_suite_is_timed_with_its_fast_kernels():
    from benchmarks.systems import suite
    from seq2seq_suite import kernels

    timed, fast = suite.learner(Shape(8, 8, 2, 1, 20)), kernels.chosen()
    assert (
        timed.model.output.sum_cross_entropy is fast["cross_entropy"]
        and timed.strategy.greedy.args[0] is fast["greedy"]
    )
    assert timed.model.encoder.layers[0].attention.attention is fast["attention"]


def test_a_peer_without_pytorch_is_measured_in_a_process_without_pytorch():
    """After PyTorch's first product in its process CTranslate2 is five times as slow."""
    code = (
        "import sys; from benchmarks import decoding_speed, corpus, systems; "
        "print([name for name in ('torch', 'seq2seq_suite.common.types') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_measuring_process_waits_while_another_measures(tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text("from benchmarks.rounds import serve\nserve({}, lambda request: request)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(tmp_path))))
    with Worker("echo", {}, 1) as first:
        assert first.ask([1, "two"]) == [1, "two"]
        with pytest.raises(RuntimeError, match="another measuring process is alive"):
            Worker("echo", {}, 1)
    with Worker("echo", {}, 1) as second:
        assert second.about == {"libraries": []}
        second.ask("what others did")
        assert 0.0 <= second.others <= 1.0


def test_a_disturbed_round_is_left_out_while_a_quiet_one_remains():
    ours, theirs = Rounds(), Rounds()
    ours.add([100.0, 101.0, 99.0], 0.0)
    ours.add([50.0, 90.0, 20.0], 0.0)  # blocks that differ
    ours.add([40.0, 40.0, 40.0], 0.1)  # slow throughout, because something else computed throughout
    for _ in range(3):
        theirs.add([50.0, 51.0, 50.0], 0.0)
    assert ours.disturbed() == [False, True, True]
    assert (ours.rate(), ours.ratio(theirs)) == (100.0, 2.0)


def test_operations_of_one_layer_are_those_counted_by_hand():
    shape = Shape(width=2, feed_forward=3, heads=1, layers=1, vocabulary=5)
    encoder = 2 * (4 * 2 * 2 * 2 + 2 * 2 * 2 * 3) + 2 * 2 * 2 * 2 * 2
    decoder = 1 * (6 * 2 * 2 * 2 + 2 * 2 * 2 * 3) + 2 * (2 * 2 * 2 * 2) + 2 * 2 * 2 * (1 * 1 + 2 * 1)
    assert shape.operations(2, 1) == 3 * (encoder + decoder + 2 * 2 * 5)
