"""Two processes compute what one computes, only one of them writes, and they end alike."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from small_run import metrics, small_config, start, weights, write_trees
from two_processes import free_port, launch, results, without_chance, work

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.prediction.build import choose_device
from seq2seq_suite.runs.distributed import ALONE, Ranks, ranks

ROOT = Path(__file__).resolve().parents[2]
LOST = "the processes of this run have lost their connection\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def pair(folder, tmp_path_factory):
    """Where two processes have done `two_processes.work` as a verb of the command line, and how they ended."""
    place = tmp_path_factory.mktemp("pair")

    def command() -> int:
        cli.start = lambda *_, **__: work(folder, place)
        return cli.main([])

    return place, launch(command, place)


def assert_close(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], rtol=1e-4, atol=1e-6), name


def assert_same_course(one: Path, other: Path) -> None:
    """The same rows of metrics.jsonl up to rounding."""
    assert len(metrics(one)) == len(metrics(other))
    for row, same in zip(metrics(one), metrics(other), strict=True):
        assert row.pop("split") == same.pop("split")
        assert row == pytest.approx(same, rel=1e-4)


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    return results(folder, tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("norm", ["layer", "power"])
def test_two_processes_have_the_loss_and_the_gradient_of_one(pair, alone, norm):
    alone = alone[norm]
    for rank in (0, 1):
        found = torch.load(pair[0] / f"results-{rank}.pt")[norm]
        assert_close(found["losses"], alone["losses"])
        assert_close(found["gradients"], alone["gradients"])
        assert_close(found["buffers"], alone["buffers"])
        assert found["tokens"] == alone["tokens"]
        assert found["hypotheses"] == alone["hypotheses"]


def test_what_only_one_process_has_used_is_summed_and_what_none_has_used_keeps_no_gradient(pair):
    for rank in (0, 1):
        assert torch.load(pair[0] / f"results-{rank}.pt")["partly used"] == [[3.0, 3.0], [1.0, 1.0], None]


def test_a_signal_to_one_process_stops_both_after_saving_and_both_resume_bit_for_bit(pair):
    assert [torch.load(pair[0] / f"results-{rank}.pt")["stopped at"] for rank in (0, 1)] == [3, 3]
    assert weights(pair[0] / "whole") == weights(pair[0] / "parts")
    assert metrics(pair[0] / "whole") == metrics(pair[0] / "parts")


def test_an_error_of_one_process_ends_both_and_both_say_why(pair):
    ends = pair[1]
    assert [code for code, _, _ in ends] == [1, 2], ends
    assert ends[0][2] == LOST and ends[1][2] == "train.jsonl:7: a row is broken\n  remedy:   mend it\n"
    assert ends[1][1] == "" and "Traceback" not in ends[0][1]


@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_whose_partner_is_killed_ends_without_a_stack_trace(tmp_path, killed, monkeypatch):
    def work(*_, **__) -> None:
        if ranks().rank == killed:
            os.kill(os.getpid(), 9)
        ranks().highest(0)

    monkeypatch.setattr(cli, "start", work)
    ends = launch(partial(cli.main, []), tmp_path)
    assert ends[killed][0] == -9 and ends[1 - killed][0] == 1
    assert "Traceback" not in ends[1 - killed][2]  # PyTorch's own words about a lost store are not to be held back
    assert killed == 0 or ends[0][2] == LOST


def test_a_process_stopped_before_it_has_begun_stops_both(tmp_path, monkeypatch):
    def work(*_, **__) -> None:
        if ranks().rank == 1:
            raise KeyboardInterrupt
        ranks().highest(0)

    monkeypatch.setattr(cli, "start", work)
    ends = launch(partial(cli.main, []), tmp_path)
    assert [code for code, _, _ in ends] == [1, 130]
    assert [errors for _, _, errors in ends] == [LOST, "interrupted\n"]


def test_a_mistake_that_all_make_is_reported_once(tmp_path):
    (tmp_path / "a.yaml").write_text("task: parsing\nsed: 3\n")
    for arguments, answer in (
        (["run", str(tmp_path / "a.yaml")], "did you mean seed?"),
        (["run"], "Missing argument 'YAML'"),
        (["evaluate", "runs/a"], "torchrun with `run` alone"),
    ):
        ends = launch(partial(cli.main, arguments), tmp_path)
        assert [code for code, _, _ in ends] == [2, 2]
        assert "".join(errors for _, _, errors in ends).count(answer) == 1


@pytest.mark.slow
def test_two_machines_run_the_command_of_the_page_like_one_process_and_one_goes_on(folder, tmp_path):
    """Two of torchrun's agents on one machine, each with a process of its own."""
    config, longer = (
        without_chance(small_config(folder, accumulate=2, max_updates=updates, validate_every=4)) for updates in (8, 12)
    )
    (tmp_path / "small.yaml").write_text(config_file.dump(config))
    page = ROOT / "seq2seq_suite/training/README.md"
    line = next(line for line in page.read_text().splitlines() if "--nnodes=2" in line)
    line = line.replace(".venv/bin/python", sys.executable).replace("HOST", "localhost")
    line = re.sub(r"--nproc_per_node=\d+", "--nproc_per_node=1", re.sub(r":\d+", f":{free_port()}", line))
    words = [str(tmp_path / "small.yaml") if word.endswith(".yaml") else word for word in shlex.split(line)]
    words += ["--output", str(tmp_path / "two")]
    agents = [
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(2)
    ]
    said = [agent.communicate(timeout=120) for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], said
    assert sorted("training ends at update 8" in output for output, _ in said) == [False, True]
    start(config, tmp_path / "one")
    assert_same_course(tmp_path / "two", tmp_path / "one")
    one, two = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    assert one["splits"] == two["splits"] and one["tokens"] == two["tokens"]
    assert json.loads((tmp_path / "two/provenance.json").read_text())["processes"] == 2
    start(longer, tmp_path / "one", resume=True)
    start(longer, tmp_path / "two", resume=True)
    assert_same_course(tmp_path / "two", tmp_path / "one")


def test_rows_and_batches_are_dealt_in_turn(make_batch):
    batch = replace(make_batch([3, 2, 4], [2, 3, 2]), indices=(5, 6, 7))
    first, second = (Ranks(rank, 2).share(batch) for rank in (0, 1))
    assert [share.indices for share, _ in (first, second)] == [(5, 7), (6,)] and not (first[1] or second[1])
    assert torch.equal(first[0].target, batch.target[[0, 2]]) and first[0].source.shape == (2, 4)
    spare, is_spare = Ranks(3, 4).share(batch)
    assert is_spare and spare.indices == (5,)
    assert [list(Ranks(rank, 2).deal("abc")) for rank in (0, 1)] == [["a", "c"], ["b", None]]
    assert list(ALONE.deal("abc")) == ["a", "b", "c"] and ALONE.share(batch) == (batch, False)


def test_one_process_takes_the_gpu_of_a_mac_and_several_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("mps") == torch.device("mps")
    assert choose_device("auto", Ranks(0, 2, 0)) == torch.device("cpu")
    with pytest.raises(ConfigError, match="mps is not available here"):
        choose_device("mps", Ranks(0, 2, 0))


def test_float32_products_on_a_gpu_are_tf32(monkeypatch):
    products = torch.backends.cuda.matmul
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = products.allow_tf32  # PyTorch's own attribute, which monkeypatch cannot put back
    try:
        products.allow_tf32 = False
        assert choose_device("auto") == torch.device("cuda") and products.allow_tf32
    finally:
        products.allow_tf32 = before
