"""The live page's server under load: every answer must be that of `predict`, every broken request refused plainly.

python -m benchmarks.serve_load runs/translation runs/parsing --clients 8 --minutes 2
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.machine import provenance

_BROKEN = (
    b"{",
    b"[1]",
    b'{"text": 3}',
    b'{"run": "../../etc/passwd", "text": "a"}',
    b"\xff" * 100,
    b'{"run": "", "text": "' + b"a " * 9_000 + b'"}',
)
_BROKEN_EVERY = 20  # requests of a client


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if a request failed or an answer differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--inputs", type=int, default=40, help="of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file")
    options = parser.parse_args(arguments)
    expected = {run.name: answers(run, options.inputs) for run in options.runs}
    server = subprocess.Popen(
        [sys.executable, "-m", "seq2seq_suite", "serve", *map(str, options.runs), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = next(
            found.group()
            for line in server.stdout
            if (found := re.search(r"http://127\.0\.0\.1:\d+", line)) is not None
        )
        clients = [Client(address, expected, seed=options.seed * 1000 + number) for number in range(options.clients)]
        deadline = time.monotonic() + 60 * options.minutes
        threads = [threading.Thread(target=client.work, args=(deadline,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        server.terminate()
        server.wait()
    text = "\n".join(report(clients, options))
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")
    return int(any(client.wrong for client in clients))


def answers(path: Path, count: int) -> dict[str, str]:
    """Inputs of a run's test split and what `predict` answers."""
    import seq2seq_suite as s2s
    from seq2seq_suite.common.files import read_rows

    rows = (row for _, row in read_rows(path / "predictions" / "test.jsonl") if row)
    inputs = list(islice(dict.fromkeys(row["source"] for row in rows), count))
    return dict(zip(inputs, (found.text for found in s2s.load(path).predict(inputs)), strict=True))


class Client:
    """Asks one request after the other.

    Args:
        address: of the server.
        expected: run -> input -> output.
        seed: of the choice of requests.
    """

    def __init__(self, address: str, expected: dict[str, dict[str, str]], *, seed: int):
        self.address, self.expected, self.random = address, expected, random.Random(seed)
        self.wrong: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {run: [] for run in expected}
        self.refused = 0

    def work(self, deadline: float) -> None:
        """Until a moment of `time.monotonic`."""
        import httpx

        with httpx.Client(base_url=self.address, timeout=60) as client:
            while time.monotonic() < deadline:
                try:
                    if self.random.randrange(_BROKEN_EVERY):
                        self._ask(client)
                    else:
                        self._break(client)
                except httpx.HTTPError as error:
                    self.wrong[type(error).__name__] += 1

    def _ask(self, client: object) -> None:
        run = self.random.choice(list(self.expected))
        text = self.random.choice(list(self.expected[run]))
        began = time.perf_counter()
        reply = client.post("/api/predict", json={"run": run, "text": text, "trace": self.random.random() < 0.25})
        self.seconds[run].append(time.perf_counter() - began)
        if reply.status_code != 200:
            self.wrong[f"status {reply.status_code}"] += 1
        elif reply.json()["outputs"][0]["text"] != self.expected[run][text]:
            self.wrong["another answer than predict's"] += 1

    def _break(self, client: object) -> None:
        reply = client.post(
            "/api/predict", content=self.random.choice(_BROKEN), headers={"content-type": "application/json"}
        )
        if reply.status_code in (400, 404, 413, 422) and set(reply.json()["error"]) == {"what", "expected", "remedy"}:
            self.refused += 1
        else:
            self.wrong[f"a broken request answered by {reply.status_code}"] += 1


def report(clients: Sequence[Client], options: argparse.Namespace) -> list[str]:
    """The measurement as Markdown."""
    import torch

    wrong = sum((client.wrong for client in clients), Counter())
    refused = sum(client.refused for client in clients)
    rows = []
    for run in clients[0].expected:
        seconds = sorted(one for client in clients for one in client.seconds[run])
        at = [
            f"{1000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))]:.0f}" if seconds else "–"
            for share in (0.5, 0.95, 1.0)
        ]
        rows.append(f"| {run} | {len(seconds):,} | {' | '.join(at)} |")
    total = sum(len(one) for client in clients for one in client.seconds.values())
    verdict = (
        "none failed, and every answer was that of `predict`"
        if not wrong
        else "; ".join(f"{count} x {what}" for what, count in wrong.items())
    )
    return [
        "# The live page's server under load",
        "",
        *provenance(options.seed, torch.get_num_threads()),
        "",
        f"{options.clients} clients for {options.minutes:g} minutes, each with one request after the other: "
        f"{total:,} predictions ({total / 60 / options.minutes:.1f} a second, a quarter of them with a trace) and "
        f"{refused:,} broken requests that were refused as such. Of all requests {verdict}.",
        "",
        "| run | requests | p50, ms | p95, ms | longest, ms |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
        "The times are a client's, waiting for the other seven included: one model computes at a time.",
    ]


if __name__ == "__main__":
    sys.exit(main())
