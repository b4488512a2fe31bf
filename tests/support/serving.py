"""A real server on a free port, for runs that are trained in a second."""

import json
import math
import struct
import threading
import zlib
from contextlib import contextmanager

import pytest
from small_run import start

from seq2seq_suite.config.schema import Config
from seq2seq_suite.miniworld import rows


@contextmanager
def served(directories, folder, *, settings=(), **limits):
    """A server's (address, runs) while it runs."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from seq2seq_suite.serve.app import build
    from seq2seq_suite.serve.connections import server_of
    from seq2seq_suite.serve.limits import Limits
    from seq2seq_suite.serve.runs import open_runs
    from seq2seq_suite.serve.server import HOST, listening
    from seq2seq_suite.serve.worker import Worker

    found = Limits(**limits)
    worker = Worker(queue=found.queue, seconds=found.seconds)
    folder.mkdir(exist_ok=True)
    runs = worker.first(lambda: open_runs(directories, settings, trust_code=False, folder=folder))
    with listening(0) as listener:
        server = server_of(build(runs, worker, found), seconds=found.seconds, ending=worker.end)
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        address = f"http://{HOST}:{listener.getsockname()[1]}"
        try:
            with httpx.Client(base_url=address, timeout=30) as client:
                client.runs, client.worker = runs, worker
                yield client
        finally:
            server.should_exit = True
            thread.join()
            worker.close()


def train(folder, **config):
    """A run of two updates on a few rows, embedded ones if they are texts."""
    view = {"translation": "translations", "qa": "questions"}.get(config["task"])
    data = folder.with_name(f"data-{config['task']}")
    data.mkdir(exist_ok=True)
    for name, content in (("tone.wav", tone()), ("square.png", square())):
        (data / name).write_bytes(content)
    file = {
        "audio": "tone.wav",
        "text": "a tone",
        "image": "square.png",
        "objects": {"bbox": [[2, 3, 20, 10]], "categories": ["square"]},
    }
    for split, size in (("train", 40), ("validation", 4), ("test", 4)):
        found = rows(view, split, size=size) if view else [file] * size
        lines = "".join(json.dumps(row) + "\n" for row in found)
        (data / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    backbone = {"width": 32, "feed_forward_width": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    start(
        Config.model_validate(
            {
                "device": "cpu",
                "backbone": backbone,
                **config,
                "data": {"path": str(data)},
                "training": {
                    "max_updates": 2,
                    "batch_tokens": 256,
                    "validate_every": 2,
                    "precision": "float32",
                    "threads": 1,
                },
            }
        ),
        folder,
    )
    return folder


def tone(seconds=1.0, *, value=0.5):
    """A WAV file of 16 kHz and 32 bits, floating point."""
    samples = [value * math.sin(place / 5) for place in range(int(16_000 * seconds))]
    data = struct.pack(f"<{len(samples)}f", *samples)
    return (
        struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF",
            36 + len(data),
            b"WAVE",
            b"fmt ",
            16,
            3,
            1,
            16_000,
            64_000,
            4,
            32,
            b"data",
            len(data),
        )
        + data
    )


def square(width=64, height=48):
    """A PNG file, grey; all but the first rows may be missing."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(48 * (width + 1))))
        + chunk(b"IEND", b"")
    )
