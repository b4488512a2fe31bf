"""An experiment of a second, and the folder of a student who has run it."""

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from small_run import few_rows

from seq2seq_suite.lab import experiment, running, unseen
from seq2seq_suite.lab.given import sources
from seq2seq_suite.lab.remote import FORKS, Workers
from tests.lab.experiments import TINY

FEW = 60  # rows of validation and test
QUESTIONS = {
    "figure": {"ask": "BLEU of one", "answer": "one.bleu", "within": 0.05, "points": 3},
    "alike": {"ask": "Percent of equal outputs", "answer": "same(one, again)", "within": 0.1, "points": 2},
    "which": {"ask": "Which?", "choices": ["sum", "dot product"], "answer": "'dot product'", "points": 1},
    "why": {"ask": "Why?", "points": 4},
}


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """A hundred columns wide, wherever the tests run: processes of pytest-xdist say 80."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(autouse=True)
def few():
    """Validation and test splits are read, spoken and decoded in a moment; as the fixtures of a session have it."""
    with few_rows(FEW):
        yield


@pytest.fixture(scope="session")
def workers():
    """The process that is forked for each law, which imports PyTorch once."""
    if not FORKS:
        pytest.skip("needs fork")
    with Workers() as workers:
        yield workers


@pytest.fixture(scope="session")
def experiments(tmp_path_factory):
    """A folder in the place of the package's experiments, with one that takes a second."""
    folder = tmp_path_factory.mktemp("experiments")
    settings = {key: value for key, value in TINY.items() if key != "task"}
    (folder / "tiny.yaml").write_text(
        yaml.safe_dump(
            {
                "base": {"task": "translation"},
                "settings": {
                    **settings,
                    "training.max_updates": 40,
                    "data.size": 300,
                    "backbone.width": 32,
                    "training.optimizer": "muon",
                    "training.learning_rate": 1e-2,
                },
                "plug": ["attend", "causal_mask"],
                "points": 10,
                "questions": QUESTIONS,
                "runs": {"one": {}, "again": {"from": "one", "plug": ["greedy"], "sentences": 8}},
            },
            sort_keys=False,
        )
    )
    with patch.object(experiment, "EXPERIMENTS", folder), patch.object(unseen, "MOST", 20):
        yield folder


@pytest.fixture(scope="session")
def begun(tmp_path_factory, experiments):
    """Makes the folder of a student who has written all parts."""

    def make(student: str = "ada") -> Path:
        folder = tmp_path_factory.mktemp(student)
        (folder / "lab.yaml").write_text(f"assignment: tiny\nstudent: {student}\n")
        for name in ("attend", "causal_mask", "greedy"):
            shutil.copy(sources()[name], folder)
        return folder

    return make


@pytest.fixture(scope="session")
def finished(begun):
    """A student's folder after `lab run`, and what was said."""
    said: list[str] = []
    folder = begun()
    with few_rows(FEW):
        running.run(folder, say=said.append)
    return folder, said


@pytest.fixture
def handed_in(finished, tmp_path):
    """A copy of it, to be changed."""
    shutil.copytree(finished[0], tmp_path / "handed-in")
    return tmp_path / "handed-in"


@pytest.fixture
def rewrite():
    """Changes a JSON file."""

    def change(file: Path, **facts) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))

    return change
