"""Pyright (basic, as pyproject.toml says) finds no error in the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyright", reason="comes with the extra `test`")

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_package_has_no_type_errors():
    found = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=ROOT,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
    )
    if not found.stdout.startswith("{"):
        pytest.skip(f"pyright, which downloads itself once, does not start: {found.stderr.strip()[-200:]}")
    assert found.returncode in (0, 1), found.stdout[:2000]  # 1: there are errors; above it, it could not check
    wrong = [
        f"{one['file']}:{one['range']['start']['line'] + 1} {one['message']}"
        for one in json.loads(found.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert not wrong, "\n".join(wrong)
