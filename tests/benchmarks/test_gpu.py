"""The program for a GPU runs here, tiny, on a CPU and a pretended device; what it cannot do it says in one line."""

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

from benchmarks.gpu import __main__ as program
from benchmarks.gpu import correct, run, whole
from benchmarks.gpu.place import Notes, Place
from benchmarks.gpu.prepare import PACKAGES, check_tag
from seq2seq_suite.common.errors import ConfigError


def begin(folder, *more):
    """The exit code of a small run."""
    return program.main(["run", str(folder), "--device", "cpu", "--smoke", "--output", str(folder / "out"), *more])


@pytest.mark.slow
def test_stages_write_their_figures_and_a_page(tmp_path):
    data = tmp_path / "data" / "multi30k-en-de"
    data.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        rows = [{"src": f"a dog sees {word} .", "tgt": f"ein Hund sieht {word} ."} for word in "abcdefgh" * 64]
        (data / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    stages = ("card", "training", "decoding", "runs", "passes", "multi30k")
    assert begin(tmp_path, "--stages", ",".join(stages), "--minutes", "40") == 0
    found = {name: json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in stages}
    assert all(one["status"] == "done" for one in found.values()), found
    assert not [row for one in found.values() for row in one["rows"] if row[1] == "failed"]
    page = (tmp_path / "out" / "gpu.md").read_text()
    assert all(f"## {name}: done" in page for name in found) and "times the floor by bytes" in page
    (tmp_path / "out" / "card.json").write_text(json.dumps({"rows": [["kept", "1", ""]], "status": "done"}))
    assert begin(tmp_path, "--stages", "card", "--resume") == 0  # is done, and stays as it is
    assert {
        row[0] for name in ("runs", "passes", "multi30k") for row in found[name]["rows"] if row[1].endswith(" s")
    } == {
        "tasks/parsing.yaml",
        "tasks/translation.yaml",
        "tasks/translation-blocks.yaml",
        "tasks/translation-multi30k.yaml",
    }
    assert len([row for row in found["passes"]["rows"] if "passes a symbol" in row[1]]) == 6
    assert len(list((tmp_path / "out").iterdir())) == 7  # of the eight files that come back
    assert "kept" in (tmp_path / "out" / "card.json").read_text()


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch cannot have a device in Python alone",
)
@pytest.mark.slow
def test_losses_gradients_and_outputs_agree_on_the_pretended_device(tmp_path):
    assert (
        program.main(
            [
                "run",
                str(tmp_path),
                "--device",
                "pretended",
                "--smoke",
                "--stages",
                "correct",
                "--output",
                str(tmp_path / "out"),
                "--minutes",
                "9",
            ]
        )
        == 0
    )
    rows = json.loads((tmp_path / "out" / "correct.json").read_text())["rows"]
    assert {row[1] for row in rows} == {"within", "equal", "refused"}, rows
    assert len([row for row in rows if row[0].startswith("outputs, graph")]) == 3


@pytest.mark.slow
def test_a_run_that_was_killed_continues_to_the_same_weights(tmp_path):
    assert begin(tmp_path, "--stages", "correct", "--minutes", "20") == 0
    rows = {what: figure for what, figure, _ in json.loads((tmp_path / "out" / "correct.json").read_text())["rows"]}
    assert rows["resume after kill -9"] == "equal to the bit"
    assert rows["predict with these weights on a CPU"] == "equal"


@pytest.mark.slow
def test_a_stage_that_fails_or_hangs_is_named_and_the_next_begins(tmp_path, monkeypatch, capsys):
    real = run.subprocess.Popen

    def broken(command, **more):
        bad = {"card": "raise RuntimeError('no such kernel')", "training": "import time; time.sleep(60)"}
        name = command[command.index("--stage") + 1] if "--stage" in command else "git"
        return real([sys.executable, "-c", bad[name]] if name in bad else command, **more)

    monkeypatch.setattr(run.subprocess, "Popen", broken)
    monkeypatch.setitem(run.STAGES, "training", run.Stage("speed", 0.05, 4))
    assert begin(tmp_path, "--stages", "card,training,multi30k") == 0
    status = {
        name: json.loads((tmp_path / "out" / f"{name}.json").read_text())["status"]
        for name in ("card", "training", "multi30k")
    }
    assert status == {"card": "failed: RuntimeError: no such kernel", "training": "out of time", "multi30k": "done"}


@pytest.mark.parametrize(
    "given, reported",
    [
        (["--device", "gpu"], "--device gpu"),
        (["--stages", "card,cards"], "--stages cards"),
        (["--device", "cuda"], "PyTorch finds none here"),
        (["--device", "pretended"], "has no speed"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(tmp_path, capsys, given, reported):
    assert program.main(["run", str(tmp_path), "--output", str(tmp_path / "out"), *given]) == 2
    assert reported in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys):
    assert program.main(["run", str(tmp_path / "none"), "--output", str(tmp_path)]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "a-1-cp311-cp311-manylinux2014_x86_64.whl",
        "a-1-cp312-cp312-win_amd64.whl",
        "a-1-cp313-abi3-manylinux2014_x86_64.whl",
        "a-1.tar.gz",
        "a-1-cp312-cp312-manylinux2014_aarch64.whl",
        "a-1-py2-none-any.whl",
    ],
)
def test_wheels_of_another_machine_are_refused(name):
    with pytest.raises(ConfigError, match="does not fit"):
        check_tag(name)


def test_wheels_that_fit_are_chosen():
    for tag in ("cp312-cp312-manylinux_2_28_x86_64", "cp310-abi3-manylinux2014_x86_64", "py2.py3-none-any"):
        check_tag(f"a-1-{tag}.whl")
    assert len(set(PACKAGES)) == len(PACKAGES)


@pytest.mark.parametrize("free, enough", [(23.9e9, False), (24.1e9, True)])
def test_a_stage_asks_for_memory_before_it_begins(tmp_path, monkeypatch, free, enough):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 80e9))
    place = Place(tmp_path, tmp_path, "cuda", smoke=False, end=0.0)
    with nullcontext() if enough else pytest.raises(ConfigError, match=r"23\.9 GB are free"):
        place.need(run.STAGES["training"].gigabytes)


@pytest.mark.parametrize(
    "off, cpu, reported",
    [(9e-6, 0.0, "within"), (2e-5, 0.0, "beyond"), (2e-5, 1.1e-5, "within"), (float("nan"), 0.0, "beyond")],
)
def test_an_error_is_beyond_what_is_allowed_and_what_a_cpu_has(off, cpu, reported):
    found = {"float32": {"loss": 0.0, "gradient": off}, "float32 on a CPU": {"gradient": cpu}}
    assert [row[:2] for row in correct._judged("a run", found)] == [("a run, float32", reported)]


def test_figures_of_a_cpu_are_those_of_the_pages():
    pages = "".join(
        (Path(whole.__file__).parents[1] / "results" / page).read_text() for page in ("embedded.md", "translation.md")
    )
    for updates, reported in whole.CPU.values():
        assert f"{updates:,}" in pages and all(figure in pages for figure in re.findall(r"\d+[.:]\d\d", reported))


def test_a_part_that_fails_is_noted_and_the_next_begins(tmp_path):
    notes = Notes(tmp_path / "stage.json")
    with notes.attempt("a step"):
        raise ValueError("one\ntwo")
    notes.add("another", "1")
    assert json.loads(notes.file.read_text())["rows"] == [["a step", "failed", "ValueError: one"], ["another", "1", ""]]
