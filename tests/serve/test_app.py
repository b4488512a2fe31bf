"""The server answers as `predict` does, and refuses what is broken in plain JSON, with a real client."""

import asyncio
import json
import random
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from serving import served, train
from small_run import small_config, start, write_trees

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import RunError

httpx = pytest.importorskip("httpx", reason="comes with the extra `test`")

SENTENCE = "The dog sees a cat ."


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories: a parser, two translators left to right and in parallel, one that answers questions."""
    folder = tmp_path_factory.mktemp("served")
    start(small_config(write_trees(folder / "data"), max_updates=2, validate_every=2, log_every=2), folder / "parsing")
    for kind in ("autoregressive", "mask_predict"):
        train(folder / f"translation-{kind}", task="translation", strategy={"kind": kind})
    train(folder / "qa", task="qa")
    return [folder / name for name in ("parsing", "translation-autoregressive", "translation-mask_predict", "qa")]


@pytest.fixture(scope="module")
def client(runs, tmp_path_factory):
    """A client of a server of these runs."""
    with served(runs, tmp_path_factory.mktemp("own")) as found:
        yield found


def failed(reply, status):
    """The three parts of an answer that is none."""
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"what", "expected", "remedy"} and error["what"] and "Traceback" not in reply.text
    return error


def test_answers_equal_those_of_predict(client, runs):
    for path in runs[:3]:
        run = s2s.load(path)
        for n_best in (1, 3) if path.name != "parsing" else (1,):
            reply = client.post("/api/predict", json={"run": path.name, "text": SENTENCE, "n_best": n_best})
            assert reply.status_code == 200, reply.text
            expected = run.predict([SENTENCE], n_best=n_best)[0]
            assert [(one["text"], one["score"]) for one in reply.json()["outputs"]] == [
                (one.text, pytest.approx(one.score, rel=1e-5)) for one in expected
            ]


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        ({"beam": 3}, {"search.beam_size": 3}),
        ({"beam": 1}, {}),
        ({"temperature": 0.01, "seed": 5}, {}),
        ({"top_p": 0.0001}, {}),
        (
            {"temperature": 2.0, "top_p": 0.9, "seed": 3},
            {"search.sampling": True, "search.temperature": 2.0, "search.top_p": 0.9},
        ),
    ],
)
def test_a_request_searches_as_predict_does_with_the_same_settings(client, runs, asked, settings):
    path = runs[1]
    got = [
        client.post("/api/predict", json={"run": path.name, "text": SENTENCE, **asked}).json()["outputs"][0]["text"]
        for _ in range(2)
    ]
    run = s2s.load(path, settings=settings)
    assert run.opened  # which makes weights at random before it reads them
    torch.manual_seed(asked.get("seed", 0))
    assert got == [run.predict([SENTENCE])[0].text] * 2  # cold or narrow samples are greedy search


def test_samples_of_another_seed_differ_and_a_trace_shows_the_sample(client, runs):
    replies = [
        client.post(
            "/api/predict",
            json={"run": runs[1].name, "text": SENTENCE, "temperature": 3.0, "seed": seed, "trace": True},
        ).json()
        for seed in range(3)
    ]
    assert len({one["outputs"][0]["text"] for one in replies}) > 1
    for one in replies:
        symbols = "".join(step["symbols"][0] for step in one["trace"]["passes"] if step["symbols"] != ["<end>"])
        assert symbols.replace("▁", " ").split() == one["outputs"][0]["text"].split()


def test_a_seed_draws_the_candidates_of_risk_which_without_one_are_those_of_predict(runs, tmp_path):
    with served(runs[1:2], tmp_path / "own", settings=["search.risk=3"]) as client:
        replies = [
            client.post("/api/predict", json={"text": SENTENCE, "trace": True, **asked}).json()
            for asked in ({}, {"seed": 2}, {"seed": 2}, {"seed": 3}, {"seed": 4})
        ]
        answers = [[one["outputs"][0][key] for key in ("text", "score")] for one in replies]
        candidates = [one["trace"]["candidates"] for one in replies]
    assert answers[0][0] == s2s.load(runs[1], settings={"search.risk": 3}).predict([SENTENCE])[0].text
    assert candidates[1] == candidates[2] and len({str(one) for one in candidates}) == 4
    assert [one[0][:2] for one in candidates] == [[text, pytest.approx(score, abs=1e-3)] for text, score in answers]


@pytest.mark.parametrize(
    ("run", "asked", "what"),
    [
        (1, {"beam": 3, "seed": 1}, "a beam, and sampling"),
        (2, {"temperature": 1.5}, "search.sampling"),
        (1, {"beam": 0}, "beam"),
        (1, {"top_p": 1.5}, "top_p"),
        (1, {"beam": 21}, "beam"),
    ],
)
def test_what_has_no_effect_on_a_search_or_is_out_of_range_is_refused_by_name(client, runs, run, asked, what):
    body = {"run": runs[run].name, "text": SENTENCE, **asked}
    assert what in failed(client.post("/api/predict", json=body), 422)["what"]


def test_a_run_says_what_of_its_search_can_be_changed_and_how_good_it_is(client, runs):
    facts = {one["name"]: one for one in client.get("/api/runs").json()["runs"]}
    assert facts[runs[1].name]["controls"] == ["beam", "sampling"] and facts[runs[2].name]["controls"] == ["beam"]
    bleu = s2s.load(runs[1]).summary["splits"]["test"]["bleu"]
    assert facts[runs[1].name]["score"] == f"BLEU ↑ {bleu:.2f} on test"


def test_the_page_of_a_run_is_made_anew_and_no_other_is_given(client, runs):
    (runs[0] / "report.html").write_text("<script>harm()</script>")
    page = client.get("/report", params={"run": runs[0].name})
    assert page.status_code == 200 and "<h1>Parsing</h1>" in page.text and "harm()" not in page.text
    failed(client.get("/report", params={"run": "../qa"}), 404)


def test_a_question_has_two_parts_or_is_written_as_for_predict(client, runs):
    both = [
        client.post("/api/predict", json=body).json()["outputs"]
        for body in (
            {"task": "qa", "question": "Where is Mary?", "context": "Mary went home."},
            {"task": "qa", "text": "Where is Mary? ||| Mary went home."},
        )
    ]
    assert both[0] == both[1]
    assert both[0][0]["text"] == s2s.load(runs[3]).predict(["Where is Mary? ||| Mary went home."])[0].text


def test_unknown_words_are_said(client):
    reply = client.post("/api/predict", json={"run": "parsing", "text": "the zyxw sees the zyxw"})
    assert "zyxw" in reply.json()["unknown"]
    assert len(reply.json()["unknown"]) == len(set(reply.json()["unknown"]))


def test_a_trace_tells_how_each_decoder_wrote_the_output(client):
    for kind in ("autoregressive", "mask_predict"):
        found = client.post("/api/predict", json={"run": f"translation-{kind}", "text": SENTENCE, "trace": True}).json()
        steps = found["trace"]
        times = [one["milliseconds"] for one in steps["passes"]]
        assert steps["kind"] == kind and times == sorted(times) and times[-1] <= steps["milliseconds"]


def test_an_inspection_tells_what_was_looked_at_and_how_sure_the_model_was(client):
    for run in ("translation-autoregressive", "translation-mask_predict", "parsing", "qa"):
        text = "Where is Mary ? ||| Mary went home ." if run == "qa" else SENTENCE
        reply = client.post("/api/predict", json={"run": run, "text": text, "inspect": True})
        found = reply.json()["inspection"]
        assert reply.status_code == 200 and found["source"] and found["attention"]
        assert all(0 <= p <= 1 for _, p, _ in found["pieces"])
    long = client.post("/api/predict", json={"run": "parsing", "text": "a " * 301, "inspect": True})
    assert long.status_code in (413, 422) and long.json()["error"]["what"]


def test_the_list_names_runs_with_inputs_to_try(client, runs):
    found = client.get("/api/runs").json()
    assert [(one["name"], one["takes"]) for one in found["runs"]] == [
        ("parsing", "text"),
        ("translation-autoregressive", "text"),
        ("translation-mask_predict", "text"),
        ("qa", "question"),
    ]
    assert found["waiting"] == 0
    rows = map(json.loads, (runs[0] / "predictions" / "test.jsonl").read_text().splitlines())
    tried = found["runs"][0]["examples"]
    assert tried and set(tried) <= {row["source"] for row in rows}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"n_best": ' + b"9" * 5000 + b"}", 400),
        (b'{"run": "parsing", "text": "\\ud800"}', 400),
        (b"[1]", 422),
        (b"null", 422),
        (b'{"text": 3}', 422),
        (b'{"run": "parsing", "txt": "a"}', 422),
        (b'{"run": "parsing", "text": "a", "n_best": 0}', 422),
        (b'{"run": "parsing", "text": "a", "n_best": 10000}', 422),
        (b'{"run": "parsing", "text": "a", "n_best": "2"}', 422),
        (b'{"run": "parsing", "text": NaN}', 422),
        (b'{"run": "parsing", "text": "a", "n_best": NaN}', 422),
        (b'{"run": "parsing", "text": "a", "n_best": 1e999}', 422),
        (b'{"run": "parsing", "text": "a"', 400),
        (b'{"run": "parsing"}', 422),
        (b'{"run": "parsing", "text": " "}', 422),
        (b'{"text": "a"}', 422),
        (b'{"run": "../parsing", "text": "a"}', 404),
        (b'{"task": "asr", "text": "a"}', 404),
        (b'{"run": "parsing", "question": "a"}', 422),
        (b'{"run": "qa", "question": "Who?"}', 422),
        (b'{"run": "qa", "text": "a ||| b", "question": "Who?"}', 422),
    ],
)
def test_broken_requests_are_refused_plainly(client, body, status):
    failed(client.post("/api/predict", content=body, headers={"content-type": "application/json"}), status)


def test_the_first_of_several_mistakes_is_reported(client):
    body = b'{"txt": "a", "n_best": 0, "run": 3}'
    assert failed(client.post("/api/predict", content=body, headers={"content-type": "application/json"}), 422)[
        "what"
    ].startswith("run: ")


def test_ten_thousand_words_and_a_huge_body_are_refused(client):
    assert "words" in failed(client.post("/api/predict", json={"run": "parsing", "text": "a " * 9_999}), 422)["what"]
    assert (
        "at most 20,000"
        in failed(client.post("/api/predict", json={"run": "parsing", "text": "a" * 20_001}), 413)["expected"]
    )
    failed(client.post("/api/predict", content=b"x" * 3_000_000, headers={"content-type": "application/json"}), 413)
    assert client.get("/api/runs").status_code == 200


def test_other_addresses_methods_and_types_are_refused(client):
    failed(client.get("/../../etc/passwd"), 404)
    failed(client.get("/%2e%2e/etc/passwd"), 404)
    failed(client.get("/api/predict"), 405)
    failed(client.post("/api/predict", content=b"{}", headers={"content-type": "text/plain"}), 415)
    failed(client.post("/api/predict/file", params={"run": "parsing"}, content=b"RIFF"), 415)
    failed(client.get("/api/examples", params={"run": "parsing", "number": "0"}), 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:80"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_pages_of_other_sites_are_refused(client, headers):
    failed(client.post("/api/predict", json={"run": "parsing", "text": "a"}, headers=headers), 403)


def test_answers_carry_headers_that_keep_them_in_this_machine(client):
    reply = client.get("/")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "access-control-allow-origin" not in reply.headers and reply.headers["x-content-type-options"] == "nosniff"
    assert "http" not in reply.text.replace("http://www.w3.org/2000/svg", "")


def test_the_interface_is_described_without_a_network(client):
    schema = client.get("/openapi.json").json()
    text = client.get("/docs").text
    assert f"{client.base_url}/api/predict".replace("//api", "/api") in text.replace("&#34;", '"')
    assert all(path in text for path in schema["paths"]) and "<script src" not in text and "<link" not in text
    assert "<code>POST /api/predict</code>" in text
    for failure in ("413", "429", "503"):
        assert failure in schema["paths"]["/api/predict"]["post"]["responses"]


def test_too_many_requests_are_answered_with_when_to_retry(runs, tmp_path):
    with served(runs[:1], tmp_path, rate=0.5) as client:
        body = {"text": "the dog sleeps"}
        assert client.post("/api/predict", json=body).status_code == 200
        reply = client.post("/api/predict", json=body)
        failed(reply, 429)
        assert int(reply.headers["retry-after"]) == 2


def test_a_full_queue_and_a_slow_answer_are_said(runs, tmp_path):
    with served(runs[:1], tmp_path, queue=1, seconds=0.2) as client:
        free, busy = threading.Event(), threading.Event()
        blocked = client.worker._pool.submit(lambda: (busy.set(), free.wait(20)))
        busy.wait(20)
        slow = []
        thread = threading.Thread(target=lambda: slow.append(client.post("/api/predict", json={"text": "a"})))
        thread.start()
        while client.get("/api/runs").json()["waiting"] < 1:
            pass
        assert "waiting" in failed(client.post("/api/predict", json={"text": "a"}), 503)["what"]
        thread.join()
        assert "no answer within" in failed(slow[0], 503)["what"]
        free.set()
        blocked.result()
        while client.get("/api/runs").json()["waiting"]:
            pass
        assert client.worker.waiting == 0


def test_a_client_that_goes_away_harms_nobody(client):
    host, port = client.base_url.host, client.base_url.port
    for sent in (
        b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"\x00\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    ):
        with socket.create_connection((host, port)) as gone:
            gone.sendall(sent)
    assert client.post("/api/predict", json={"run": "parsing", "text": "a"}).status_code == 200


def test_inputs_name_no_file(client, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a very secret sentence", encoding="utf-8")
    reply = client.post("/api/predict", json={"run": "parsing", "text": str(secret)})
    assert "secret sentence" not in json.dumps(reply.json())


def test_a_port_in_use_is_one_line_and_exit_code_2(capsys, runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert cli.main(["serve", str(runs[0]), "--port", str(taken.getsockname()[1])]) == 2
    text = capsys.readouterr().err
    assert "is in use\n  expected: a port that is free\n  remedy: " in text and text.count("\n") == 3


def test_missing_packages_are_named_with_the_extra(capsys, monkeypatch, runs):
    monkeypatch.setattr("seq2seq_suite.common.lazy_imports.find_spec", lambda name: None)
    assert cli.main(["serve", str(runs[0])]) == 2
    text = capsys.readouterr().err
    assert text.startswith("starlette is not installed\n  expected: the extra `serve`\n  remedy:   pip install ")


def test_what_is_no_run_is_refused_before_the_server_starts(capsys, tmp_path):
    assert cli.main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_eight_clients_at_once_get_the_answers_of_predict(client, runs):
    """For two seconds; benchmarks/serve_load.py does it for two minutes."""
    texts = ["The dog sees a cat .", "A man sleeps .", "the young farmer sold the old horse"]
    expected = {path.name: dict(zip(texts, s2s.load(path).predict(texts), strict=True)) for path in runs[:3]}
    wrong, counted, ended = [], [], time.monotonic() + 2

    def work(number):
        chosen = random.Random(number)
        with httpx.Client(base_url=client.base_url, timeout=30) as own:
            while time.monotonic() < ended:
                run, text = chosen.choice(list(expected)), chosen.choice(texts)
                reply = own.post("/api/predict", json={"run": run, "text": text, "trace": chosen.random() < 0.25})
                counted.append(number)
                if reply.status_code != 200 or reply.json()["outputs"][0]["text"] != expected[run][text].text:
                    wrong.append((run, text, reply.text))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and set(counted) == set(range(8)), wrong[:3]


def test_connections_without_a_whole_request_are_closed_and_others_bounded(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.serve.connections.most_connections", lambda: 6)
    with served(runs[:1], tmp_path / "own", seconds=1.0) as client:
        place = (client.base_url.host, client.base_url.port)
        halves = [socket.create_connection(place, timeout=10) for _ in range(9)]
        for half in halves[:6]:  # what is sent to a closed one would drop its answer
            half.sendall(b"GET / HTTP/1.1\r\nx: ")
        answers = [_end_of(half) for half in halves]
        assert sum(b"503" in one for one in answers) == 3 and sum(one == b"" for one in answers) == 6
        assert client.get("/api/runs").status_code == 200


def _end_of(connection):
    """What comes until a connection is closed."""
    try:
        return b"".join(iter(lambda: connection.recv(1000), b""))
    except ConnectionError:
        return b""


def test_a_server_that_ends_answers_what_waits_and_does_not_wait_itself(runs, tmp_path):
    from seq2seq_suite.serve.limits import Refused
    from seq2seq_suite.serve.worker import Worker

    free = threading.Event()

    async def ask(worker):
        waiting = asyncio.ensure_future(worker.result(lambda: free.wait(20)))
        await asyncio.sleep(0.05)
        worker.end()
        with pytest.raises(Refused) as refused:
            await waiting
        return refused.value.status

    worker = Worker(queue=2, seconds=20)
    with ThreadPoolExecutor(1) as thread:  # a browser's loop may be running in the one of the tests
        assert thread.submit(asyncio.run, ask(worker)).result() == 503 and worker.computes
        free.set()
        away = Worker(queue=2, seconds=20).result(lambda: sys.exit("away"))
        with pytest.raises(RunError, match="SystemExit: away"):
            thread.submit(asyncio.run, away).result()


def test_what_waits_is_dropped_when_the_worker_closes():
    from seq2seq_suite.serve.worker import Worker

    begun, free, done = threading.Event(), threading.Event(), []

    async def close(worker):
        def first():
            begun.set()
            free.wait(20)

        all_ = [asyncio.ensure_future(worker.result(one)) for one in (first, lambda: done.append("second"))]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        worker.close()
        free.set()
        await asyncio.wait(all_)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, close(Worker(queue=2, seconds=20))).result()
    assert not done
