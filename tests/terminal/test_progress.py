import io
import time
from contextlib import redirect_stdout

import pytest
from rich.console import Console

from seq2seq_suite.terminal import progress
from seq2seq_suite.terminal.progress import Logged, Progress, preparing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_away_from_a_terminal_every_call_is_a_plain_line(clock, capsys):
    with Progress(3000) as progress:
        clock[0] += 36
        progress.update(250, fraction=0.1, loss=0.5, tokens_per_second=9000.0, learning_rate=1e-3)
        clock[0] += 36
        progress.update(500, fraction=0.3, loss=0.412, tokens_per_second=12340.4, learning_rate=8.1e-4)
        progress.validation(500, {"f1": 87.3, "[bold]": 40.0, "malformed": 3}, True)
        progress.validation(600, {"f1": 86.0}, False)
    assert capsys.readouterr().out.splitlines() == [
        "update 250/3000  loss 0.500  9,000 tokens/s  lr 1.0e-03  0:36 elapsed",
        "update 500/3000  loss 0.412  12,340 tokens/s  lr 8.1e-04  1:12 elapsed, about 2:06 left",
        "validation at update 500: f1 87.3  [bold] 40  malformed 3  (best)",
        "validation at update 600: f1 86",
    ]


def test_the_time_left_of_a_resumed_run_goes_by_its_own_pace(clock, capsys):
    with Progress(100) as progress:
        for update, fraction in ((60, 0.6), (70, 0.7)):
            clock[0] += 10
            progress.update(update, fraction=fraction, loss=1.0, tokens_per_second=1.0, learning_rate=1.0)
    assert capsys.readouterr().out.splitlines()[-1].endswith("0:20 elapsed, about 0:30 left")


def test_time_counts_from_the_start_of_training(clock, capsys):
    progress = Progress(100)
    clock[0] += 60
    with progress:
        clock[0] += 5
        progress.update(1, fraction=0.01, loss=1.0, tokens_per_second=1.0, learning_rate=1.0)
    assert capsys.readouterr().out.splitlines()[-1].endswith("0:05 elapsed")


def test_the_bar_is_as_long_as_what_is_done_and_time_runs_on_between_updates(clock):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200, color_system=None, _environ={"TERM": "xterm"})
    with Progress(100, console=console) as progress:
        for update in (10, 20):
            clock[0] += 10
            progress.update(update, fraction=update / 100, loss=1.0, tokens_per_second=1.0, learning_rate=1.0)
        progress.validation(20, {"f1": 50.0}, True)
        progress.validation(20, {"f1": 40.0}, False)
        clock[0] += 30
        stream.seek(0)
        stream.truncate()
        progress._live.refresh()
        shown = stream.getvalue()
    assert " 20%  0:50 elapsed, about 0:50 left" in shown and "best f1 50" in shown
    assert 0.18 * 160 < shown.count("━") < 0.22 * 180


def test_on_a_terminal_there_is_a_bar_with_messages_above_it():
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, width=100, color_system="standard", _environ={"TERM": "xterm-256color"}
    )
    with Progress(10, console=console) as progress:
        progress.update(5, fraction=0.5, loss=0.25, tokens_per_second=1000.0, learning_rate=1e-3)
        progress.validation(5, {"f1": 50.0}, True)
        progress._live.refresh()
    shown = stream.getvalue()
    assert "━" in shown and " 50%" in shown and "best f1 50" in shown and "validation at update 5: f1 50" in shown
    assert shown.endswith("update 5/10  loss 0.250  1,000 tokens/s  lr 1.0e-03  0:00 elapsed\n")


def test_no_color_is_respected():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, _environ={"TERM": "xterm-256color", "NO_COLOR": "1"})
    with Progress(10, console=console) as progress:
        progress.validation(5, {"f1": 50.0}, True)
        progress._live.refresh()
    assert "\x1b[3" not in stream.getvalue()


def test_an_error_within_takes_the_bar_away():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, _environ={"TERM": "xterm-256color"})
    with pytest.raises(RuntimeError), Progress(10, console=console) as progress:
        raise RuntimeError
    assert progress._live is None and stream.getvalue().rstrip().endswith("elapsed")
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is back


def test_on_a_narrow_terminal_the_status_is_cut_not_broken():
    console, paper = (
        Console(file=io.StringIO(), force_terminal=True, width=30, color_system=None, _environ={"TERM": "xterm"})
        for _ in range(2)
    )
    with Progress(1000, console=console) as progress:
        progress.update(500, fraction=0.5, loss=0.412, tokens_per_second=12340.4, learning_rate=8.1e-4)
        paper.print(progress._render())
    lines = paper.file.getvalue().splitlines()
    assert len(lines) == 2 and lines[1].startswith("update 500/1000") and lines[1].endswith("…")


def test_more_than_everything_is_everything(clock):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None, _environ={"TERM": "xterm"})
    with Progress(100, console=console) as progress:
        progress.update(120, fraction=1.2, loss=1.0, tokens_per_second=1.0, learning_rate=1.0)
        progress._live.refresh()
    assert "100%" in stream.getvalue() and "120%" not in stream.getvalue()


def test_what_takes_long_is_named_once(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SOON", 0.2)
    with preparing("reading train"):
        time.sleep(0.6)
    with preparing("reading test"):
        pass
    time.sleep(0.05)
    assert capsys.readouterr().out == "reading train\n"
    monkeypatch.setenv("RANK", "1")
    with preparing("reading train"):
        time.sleep(0.1)
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_a_spinner_and_the_log_has_what_is_printed_beside_it(monkeypatch):
    shown, logged = io.StringIO(), []
    shown.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(Logged(shown, logged.append)):
        print("before")
        with preparing("reading [train]"):
            print("a bad row, [left] out")
            time.sleep(0.3)
        print("after")
    assert "reading [train]" in shown.getvalue() and "a bad row, [left] out" in shown.getvalue()
    assert logged == ["before", "a bad row, [left] out", "after"]
