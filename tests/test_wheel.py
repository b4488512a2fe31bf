"""Installed from a wheel, away from the checkout, the suite finds its presets and runs."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
SMALL = (
    "backbone.width=32",
    "backbone.feed_forward_width=32",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
    "training.max_updates=2",
    "training.validate_every=2",
    "training.threads=1",
    "data.size=40",
    "data.test_splits=[]",
)


def call(*words: str, where: Path) -> str:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with a wheel and an sdist, built from a copy: building leaves files behind."""
    folder = tmp_path_factory.mktemp("build")
    skipped = {".git", ".venv", "build", "dist", "runs", ".pytest_cache", ".hypothesis"}

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = member.name.rpartition("/")[2]
        at_top = member.name.count("/") == 1  # the package has a room `runs`
        return None if (at_top and name in skipped) or name == "__pycache__" or name.endswith(".egg-info") else member

    with tarfile.open(folder / "copy.tar", "w") as tar:
        tar.add(ROOT, "source", filter=kept)
    with tarfile.open(folder / "copy.tar") as tar:
        tar.extractall(folder, filter="data")
    call(
        sys.executable,
        "-c",
        "from setuptools import build_meta as build\nbuild.build_sdist('..')\nbuild.build_wheel('..')",
        where=folder / "source",
    )
    return folder


@pytest.fixture(scope="module")
def python(built) -> str:
    """A fresh environment's Python, with the wheel installed and this environment's packages behind it."""
    venv.create(built / "venv", with_pip=False)
    found = str(built / "venv" / "bin" / "python")
    site = Path(call(found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", where=built).strip())
    (site / "behind.pth").write_text("".join(f"{sysconfig.get_path(name)}\n" for name in ("purelib", "platlib")))
    (wheel,) = built.glob("*.whl")
    call(
        found,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
        str(wheel),
        where=built,
    )
    return found


def test_the_wheel_runs_presets_from_another_folder(python, built, tmp_path):
    assert str(built) in call(python, "-c", "import seq2seq_suite; print(seq2seq_suite.__file__)", where=tmp_path)
    command = (python, "-m", "seq2seq_suite")
    listed = call(*command, "tasks", where=tmp_path)
    stems = {path.stem for path in (ROOT / "tasks").rglob("*.yaml")}
    assert stems <= {line.split()[0] for line in listed.splitlines() if line}
    call(*command, "run", "parsing", *SMALL, where=tmp_path)
    assert (tmp_path / "runs/parsing/summary.json").is_file()


def test_the_sdist_holds_what_tests_and_readers_need(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "setup.py", "tasks/studies/norms.yaml"} < names
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")}
    assert ours <= names, ours - names
