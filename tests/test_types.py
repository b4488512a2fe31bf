"""Pyright's errors (basic), by room: a count may only fall, and a room that is not listed has none."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyright", reason="comes with the extra `test`")

ROOT = Path(__file__).parents[1]
MOST_ERRORS = {"cli": 18, "experiments": 23, "inspection": 18, "kernels": 53, "model": 45, "prediction": 3,
               "strategies": 56, "tasks": 74, "training": 20}


@pytest.mark.slow
def test_type_errors_only_become_fewer():
    found = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable], cwd=ROOT,
                           env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}, capture_output=True, text=True)
    if not found.stdout.startswith("{"):
        pytest.skip(f"pyright, which downloads itself once, does not start: {found.stderr.strip()[-200:]}")
    errors = [one for one in json.loads(found.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    assert found.returncode in (0, 1), found.stdout[:2000]  # 1: there are errors; above it, it could not check
    parts = [Path(one["file"]).relative_to(ROOT / "seq2seq_suite").parts for one in errors]
    counts = Counter(part[0].removesuffix(".py") for part in parts)
    wrong = [f"{'/'.join(part)}:{one['range']['start']['line'] + 1} {one['message']}"
             for part, one in zip(parts, errors, strict=True)
             if counts[part[0].removesuffix(".py")] > MOST_ERRORS.get(part[0].removesuffix(".py"), 0)]
    assert not wrong, "\n".join(wrong)
