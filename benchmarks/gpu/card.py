"""What the card is, and its ceilings: products and copies."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib import metadata

import torch

from benchmarks.gpu.place import Notes, Place, allow_tf32, replace_text

_PEERS = ("triton", "transformers", "ctranslate2")
# Rows, inner size and columns: a large one, and those of base with 25,088 symbols in a batch.
_SHAPES = ((8192, 8192, 8192), (25_088, 512, 2048), (25_088, 2048, 512), (25_088, 512, 1536), (25_088, 512, 8000))


def card(place: Place, notes: Notes) -> None:
    """Versions and ceilings; the latter also to `ceilings.json`, for the stages behind."""
    notes.add(
        "versions",
        f"Python {platform.python_version()}, torch {torch.__version__}",
        f"CUDA {torch.version.cuda}, " + ", ".join(f"{name} {_version(name)}" for name in _PEERS),
    )
    if place.on_gpu:
        notes.add(
            "card", torch.cuda.get_device_name(), ask_card("name,driver_version,clocks.max.sm,power.limit,memory.total")
        )
    ceilings: dict[str, float] = {}
    for name, dtype, tf32 in (
        ("bfloat16", torch.bfloat16, False),
        ("tf32", torch.float32, True),
        ("float32", torch.float32, False),
    ):
        allow_tf32(tf32)
        for rows, inner, columns in _SHAPES:
            if place.smoke:
                rows, inner, columns = (size // 32 for size in (rows, inner, columns))
            left, right = (torch.randn(size, inner, device=place.device).to(dtype) for size in (rows, columns))
            rate = 2 * rows * inner * columns / place.seconds(lambda a=left, b=right: a @ b.t(), most=0.5)
            notes.add(f"{name} product of {rows:,} x {inner:,} x {columns:,}", f"{rate / 1e12:.4g} TFLOP/s")
            ceilings[name] = max(rate, ceilings.get(name, 0.0))
    size = 2**20 if place.smoke else 2**30
    one, other = (torch.randn(size // 4, device=place.device) for _ in range(2))
    ceilings["copy"] = 2 * size / place.seconds(lambda: one.copy_(other), most=0.5)
    notes.add(f"copy of {size / 2**20:,.0f} MiB", f"{ceilings['copy'] / 1e12:.4g} TB/s", "bytes read and written")
    replace_text(place.work / "ceilings.json", json.dumps(ceilings))


def ask_card(fields: str) -> str:
    """What nvidia-smi says of them."""
    found = subprocess.run(
        ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    return f"{fields}: {found.stdout.strip() or 'not known'}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
