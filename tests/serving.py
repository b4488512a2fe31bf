"""A real server on a free port, for runs that are trained in a second."""

import json
import threading
from contextlib import contextmanager

import pytest
from small_run import start

from seq2seq_suite.config import Config
from seq2seq_suite.miniworld import rows


@contextmanager
def served(directories, folder, *, settings=(), **limits):
    """A server's (address, runs) while it runs."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from seq2seq_suite.serve.app import build
    from seq2seq_suite.serve.limits import Limits
    from seq2seq_suite.serve.runs import open_runs
    from seq2seq_suite.serve.server import HOST, listening, server_of
    from seq2seq_suite.serve.worker import Worker

    found = Limits(**limits)
    worker = Worker(queue=found.queue, seconds=found.seconds)
    folder.mkdir(exist_ok=True)
    runs = worker.first(lambda: open_runs(directories, settings, trust_code=False, folder=folder))
    with listening(0) as listener:
        server = server_of(build(runs, worker, found))
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
    """A run of two updates on a few embedded rows."""
    view = {"translation": "translations", "qa": "questions"}[config["task"]]
    data = folder.with_name(f"data-{view}")
    data.mkdir(exist_ok=True)
    for split, size in (("train", 40), ("validation", 4), ("test", 4)):
        lines = "".join(json.dumps(row) + "\n" for row in rows(view, split, size=size))
        (data / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    backbone = {"width": 32, "feed_forward_width": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    start(Config.model_validate({
        "device": "cpu", "backbone": backbone, **config, "data": {"path": str(data)},
        "training": {"max_updates": 2, "batch_tokens": 256, "validate_every": 2, "precision": "float32",
                     "threads": 1}}), folder)
    return folder
