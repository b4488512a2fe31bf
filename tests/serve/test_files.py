"""Recordings and pictures are answered as `predict` does, and refused where they are broken or too large."""

import math

import pytest
from serving import served, square, tone, train

import seq2seq_suite as s2s


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A client of a server of a recogniser and a detector, and their directories."""
    pytest.importorskip("soundfile", reason="comes with the extra `speech`")
    pytest.importorskip("PIL", reason="comes with the extra `vision`")
    folder = tmp_path_factory.mktemp("files")
    runs = {task: train(folder / task, task=task) for task in ("asr", "detection")}
    with served(list(runs.values()), folder / "own", settings=["data.max_length=200"]) as client:
        yield client, runs


def post(client, run, content, **options):
    return client.post(
        "/api/predict/file",
        params={"run": run, **options},
        content=content,
        headers={"content-type": "application/octet-stream"},
    )


@pytest.mark.parametrize(
    ("task", "content", "name"), [("asr", tone(), "tone.wav"), ("detection", square(), "square.png")]
)
def test_a_file_is_answered_as_predict_does(files, tmp_path, task, content, name):
    client, runs = files
    reply = post(client, task, content, trace=True)
    assert reply.status_code == 200, reply.text
    (tmp_path / name).write_bytes(content)
    assert reply.json()["outputs"][0]["text"] == s2s.load(runs[task]).predict([str(tmp_path / name)])[0].text
    assert reply.json()["trace"]["passes"]


@pytest.mark.parametrize(
    ("task", "content", "status"),
    [
        ("asr", b"", 422),
        ("asr", b"RIFF", 422),
        ("asr", b"a text", 422),
        ("asr", tone()[:30], 422),
        ("asr", tone(value=math.nan), 422),
        ("asr", tone(value=math.inf), 422),
        ("asr", square(), 422),
        ("asr", tone(3.0), 413),
        ("asr", b"/etc/passwd", 422),
        ("detection", b"", 422),
        ("detection", b"\x89PNG", 422),
        ("detection", square()[:60], 422),
        ("detection", square(50_000, 50_000), 413),
        ("detection", square(6000, 5000), 413),
        ("detection", tone(), 422),
        ("detection", b"square.png", 422),
        ("other", b"RIFF", 404),
    ],
)
def test_what_is_broken_is_refused_plainly(files, task, content, status):
    reply = post(files[0], task, content)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"what", "expected", "remedy"} and error["what"] and "\n" not in error["what"]


def test_a_text_names_no_file(files):
    reply = files[0].post("/api/predict", json={"run": "asr", "text": "tone.wav"})
    assert reply.status_code == 415 and "predict/file" in reply.json()["error"]["remedy"]


def test_examples_to_try_are_answered(files):
    client, _ = files
    for run in client.get("/api/runs").json()["runs"]:
        for number in range(len(run["examples"])):
            found = client.get("/api/examples", params={"run": run["name"], "number": number})
            assert found.status_code == 200 and post(client, run["name"], found.content).status_code == 200
        assert run["examples"]
