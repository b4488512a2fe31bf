"""What the project says of itself holds: every YAML takes a step, every command of the README runs."""

import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from two_processes import launch

from benchmarks.faults.commands import start
from scripts import key_reference
from seq2seq_suite.cli import app as cli
from seq2seq_suite.config.config_file import dump, key_list, load
from seq2seq_suite.experiments import check, verbs
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.sentences import SPLITS, scenes
from seq2seq_suite.miniworld.topics import texts
from seq2seq_suite.studies import study

ROOT = Path(__file__).parents[1]
MULTITASK = tuple(load(ROOT / "tasks" / "multitask.yaml").tasks)
YAMLS = sorted((ROOT / "tasks").glob("*.yaml"))
STUDIES = sorted((ROOT / "tasks" / "studies").glob("*.yaml"))
SMALL = (
    "backbone.width=32",
    "backbone.feed_forward_width=32",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
    "training.max_updates=2",
    "training.validate_every=2",
    "training.log_every=1",
    "training.threads=1",
)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """A folder with a few rows in each of miniworld's splits, each with the columns of every task."""
    folder = tmp_path_factory.mktemp("treebank")
    _write_tone(folder / "tone.wav")
    _write_square(folder / "square.png")
    for split in SPLITS:
        size = {split: 24 if split == "train" else 6}
        rows = [
            {"tree": str(english(scene)), "text": text, "labels": labels, **_texts(english(scene).words())}
            for scene, (text, labels) in zip(scenes(split, sizes=size), texts(split, sizes=size), strict=True)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy(folder / "test.jsonl", folder / "longer.jsonl")  # the split that question answering has besides
    return folder


def _texts(words: list[str]) -> dict[str, object]:
    sentence = " ".join(words)
    return {
        "src": sentence,
        "tgt": " ".join(words[::-1]),
        "context": sentence,
        "dialogue": sentence,
        "summary": words[1],
        "question": f"what follows {words[0]} ?",
        "answer": words[1],
        "task": str(len(words) % 2 + 1),
        "audio": "tone.wav",
        "translation": words[1],
        "image": "square.png",
        "objects": {"bbox": [[2, 3, 20, 10]], "categories": [words[0]]},
    }


def _write_square(file: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="comes with the extra `vision`")
    image.new("RGB", (64, 48), (200, 40, 40)).save(file)


def _write_tone(file: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="comes with the extra `speech`")
    soundfile.write(file, [0.5 * math.sin(place / 5) for place in range(24_000)], 16_000)


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_every_yaml_is_checked_and_takes_a_step(path, treebank, tmp_path):
    whole = load(path)
    parts = {f"tasks.{name}.": part for name, part in whole.tasks.items()} or {"": whole}
    hearing = [prefix for prefix, part in parts.items() if "audio" in part.own_sections]
    spanning = [prefix for prefix, part in parts.items() if part.task == "tagging"]
    composing = [prefix for prefix, part in parts.items() if part.task == "asr" and part.asr.composed]
    config = load(
        path,
        [
            *(f"{prefix}data.path={treebank}" for prefix in parts),
            *(f"{prefix}tagging.spans=false" for prefix in spanning),  # the treebank's tags are parts of speech
            *(f"{prefix}asr.composed=20" for prefix in composing),  # of 24 recordings, not 2,000
            *(f"{prefix}audio.cache={tmp_path / 'features'}" for prefix in hearing),
            *SMALL,
            *["init_from="] * bool(whole.init_from),  # a run that is not there yet
        ],
    )
    assert any(what.endswith("largest batch") for what, _ in check.examine(config))
    summary = verbs.run(config, tmp_path / "run", resume=False, overwrite=False, command=["test"])
    assert summary["updates"] == 2
    assert set(config.data.test_splits) <= set(summary["splits"])


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_is_one_of_experiments_that_are_there(path):
    found = study.load(path)
    assert len(found.variants) > 1 and len(found.seeds) >= 3


def commands(text: str) -> list[str]:
    """The lines of the README's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.slow
def test_every_command_of_the_pages_runs(treebank, tmp_path, monkeypatch):
    """In order, in one place, with small models; the two set-up commands are run as they stand by `.ci/run`.

    The suite's own commands run in this process, or in forks of it where something is piped in or two processes train
    together: two dozen imports of torch would take a minute.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "seq2seq_suite.serve.connections.server_of", lambda app, **given: SimpleNamespace(run=lambda sockets: None)
    )
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    shutil.copytree(treebank, tmp_path / "path/to/genia")
    trees = (treebank / "test.jsonl").read_text().splitlines()
    for name in ("gold.trees", "predicted.trees"):
        (tmp_path / name).write_text("".join(json.loads(row)["tree"] + "\n" for row in trees))
    pages = ("README.md", "tasks/README.md", "seq2seq_suite/training/README.md", "seq2seq_suite/lab/README.md")
    for line in [line for page in pages for line in commands((ROOT / page).read_text())]:
        # tests/runs/test_distributed.py runs the second by torchrun, on two machines, test_slurm.py the third.
        if "pytest" in line or "--nnodes" in line or "--executor" in line:
            continue
        line = line.split("&&")[-1].strip().replace(".venv/bin/python", shlex.quote(sys.executable))
        if " -m seq2seq_suite run " in line or " -m seq2seq_suite check " in line:
            line = re.sub(r"training\.max_(updates|minutes)=\S+", "", line)
            sections = [f"tasks.{name}." for name in MULTITASK] if "tasks/multitask.yaml" in line else [""]
            data = [] if "data.path=" in line else [f"{section}data.path={treebank}" for section in sections]
            updates = ["training.max_updates=3"] if "--resume" in line else []
            line += " " + " ".join([*data, *SMALL, *updates])
        before, piped, line = line.rpartition(" | ")
        words = shlex.split(line) + (["--port", "0"] if " serve " in line else [])
        assert words[0] == sys.executable
        if piped:
            given = subprocess.run(before, shell=True, capture_output=True, check=True).stdout
            ended = start(cli.main, words[words.index("seq2seq_suite") + 1 :], tmp_path, stdin=given, limit=60.0).wait()
            assert ended.code == 0 and given and ended.out, f"{line}\n{ended.err}"
        elif words[1:4] == ["-m", "torch.distributed.run", "--nproc_per_node=2"]:
            ends = launch(partial(cli.main, words[words.index("seq2seq_suite") + 1 :]), tmp_path)
            assert [code for code, *_ in ends] == [0, 0], ends
        else:
            assert words[1:3] == ["-m", "seq2seq_suite"], line
            assert cli.main(words[3:]) == 0, line
    assert (tmp_path / "runs/parsing/summary.json").is_file()
    assert json.loads((tmp_path / "runs/parsing/summary.json").read_text())["updates"] == 3


def test_the_python_of_the_readme_runs(treebank, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    small = code.replace('settings={"training.max_minutes": 1}', f"settings={[f'data.path={treebank}', *SMALL]}")
    assert small != code
    exec(small, {})
    assert "'f1': " in capsys.readouterr().out


PAGES = [
    ROOT / name
    for name in (
        "README.md",
        "README.zh.md",
        "benchmarks/README.md",
        "tasks/README.md",
        "seq2seq_suite/README.md",
        "seq2seq_suite/lab/README.md",
        "seq2seq_suite/strategies/README.md",
        "seq2seq_suite/tasks/README.md",
        "seq2seq_suite/training/README.md",
    )
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_files_that_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_readme_is_short_and_its_picture_small():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert (ROOT / "benchmarks/results/report.png").stat().st_size < 200_000


def test_the_chinese_readme_has_the_same_commands():
    blocks = [
        re.findall(r"```(sh|python)\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
        for name in ("README.md", "README.zh.md")
    ]
    assert blocks[0] and blocks[0] == blocks[1]


def test_the_reference_of_keys_is_that_of_the_schema():
    text = (ROOT / "tasks/README.md").read_text()
    assert key_reference.page(text) == text, "run scripts/key_reference.py"
    assert all(f"| `{key}` |" in text or key.startswith("strategy.") for key in key_list())


@pytest.mark.slow
def test_the_notebook_runs(treebank, tmp_path):
    """With a few updates of a small model, in Jupyter's own way."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    yaml = tmp_path / "tasks/parsing.yaml"
    yaml.write_text(dump(load(yaml, [f"data.path={treebank}", *SMALL])))
    book = nbformat.read(ROOT / "tasks/first_steps.ipynb", as_version=4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") for cell in book.cells)
    book.cells[1].source = re.sub(r"updates = \d+", "updates = 2", book.cells[1].source)
    nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    assert "f1" in book.cells[7].source and "test" in book.cells[7].outputs[0]["data"]["text/plain"]
    assert (tmp_path / "runs/first-steps/report.html").is_file()
