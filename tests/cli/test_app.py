import json
import os
import pty
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from seq2seq_suite import Run, __version__
from seq2seq_suite.cli import app as cli
from seq2seq_suite.cli.arguments import Inputs, opened, texts_and_overrides
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.tasks import TASKS, find_task

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a wrong command line answers."""
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert not captured.out or (arguments[0] == "run" and captured.out.startswith("reading "))
    assert "Traceback" not in captured.err
    return captured.err


def test_a_run_says_what_it_reads_before_it_loads_pytorch(monkeypatch, capsys):
    Path("p.yaml").write_text("task: parsing\n")
    said = []
    monkeypatch.setattr(
        "seq2seq_suite.config.config_file.load", lambda *given, **more: said.append(capsys.readouterr().out) or 1 / 0
    )
    for more, line in (((), "reading p.yaml and the data, building the model\n"), (("--quiet",), "")):
        with pytest.raises(ZeroDivisionError):
            cli.main(["run", "p.yaml", *more])
        assert said.pop() == line


@pytest.mark.parametrize(
    ("task", "package", "extra"),
    [
        ("asr", "jiwer", "speech"),
        ("asr", "torchaudio", "speech"),
        ("speech_translation", "torchaudio", "speech"),
        ("detection", "PIL", "vision"),
        ("detection", "pycocotools", "vision"),
        ("summarisation", "rouge_score", "summarisation"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_read(monkeypatch, capsys, task, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    Path("p.yaml").write_text(f"task: {task}\n")
    assert wrong(capsys, "run", "p.yaml").splitlines() == [
        f"{package} is not installed",
        f"  expected: the extra `{extra}`",
        f"  remedy:   pip install --editable '{ROOT}[{extra}]'",
    ]


def test_a_package_of_an_extra_that_is_missed_later_is_named_too(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pycocotools", None)

    def late(*given, **more):
        import pycocotools.coco  # noqa: F401

    monkeypatch.setattr("seq2seq_suite.config.config_file.load", late)
    Path("p.yaml").write_text("task: detection\n")
    assert "pycocotools is not installed\n  expected: the extra `vision`" in wrong(capsys, "run", "p.yaml")


def test_extras_are_those_of_the_package():
    from seq2seq_suite.common.lazy_imports import _EXTRAS

    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in _EXTRAS.items():
        distributions = {
            package.replace("_", "-").replace("PIL", "pillow").replace("MeCab", "mecab-python3") for package in packages
        }
        assert distributions == {line.partition(">")[0] for line in named[extra]}
    needed = {package for task in TASKS for package in find_task(task).packages}
    assert not needed - {package for packages in _EXTRAS.values() for package in packages}


def start(*arguments: str, code: str = "", **options) -> subprocess.CompletedProcess:
    words = ["-c", code] if code else ["-m", "seq2seq_suite", *arguments]
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def test_help_of_every_verb_has_an_example(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["lab", "--help"]) == 0 and cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    cut_off = re.findall(r"^  \w+ .*\.\.\.$", text, re.MULTILINE)
    assert not cut_off, cut_off
    for verb in cli.VERBS:
        assert f"\n  {verb} " in text
        assert cli.main([verb, "--help"]) == 0
        assert f"{cli.PROGRAM} {verb}" in capsys.readouterr().out.split("Example")[1]


def test_a_verb_is_a_function_and_a_row(monkeypatch, capsys):
    def hello(name: str, loud: bool = False) -> None:
        """Greet."""
        print(name.upper() if loud else name)

    monkeypatch.setitem(sys.modules, "seq2seq_suite.cli.hello", SimpleNamespace(hello=hello))
    monkeypatch.setitem(cli.VERBS, "hello", "cli.hello:hello")
    assert cli.main(["hello", "you", "--loud"]) == 0 and capsys.readouterr().out == "YOU\n"
    assert "Did you mean 'hello'?" in wrong(capsys, "helo")
    assert cli.main(["--help"]) == 0 and "Greet." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"torch", "datasets", "pydantic", "numpy", "yaml", "rich"}),
        (["run", "--help"], {"torch", "datasets", "numpy", "yaml", "rich"}),
        (["run", "absent.yaml"], {"torch", "datasets", "numpy"}),
        (["run", "--help"], {"seq2seq_suite.cli.predict", "seq2seq_suite.cli.serve", "seq2seq_suite.lab"}),
    ],
)
def test_help_loads_nothing_heavy(arguments, heavy):
    done = start(
        code=f"import sys\nfrom seq2seq_suite.cli.app import main\nassert main({arguments}) in (0, 2)\n"
        f"print('loaded', {heavy} & set(sys.modules))"
    )
    assert done.stdout.endswith(b"loaded set()\n"), done.stdout


def test_the_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"seq2seq_suite {__version__}\n"


def test_a_missing_or_unknown_verb_is_answered_with_the_verbs(capsys):
    assert "Missing command\n  expected: one of run, evaluate" in wrong(capsys)
    for given, meant in {"rnu": "run", "evalute": "evaluate"}.items():
        assert f"No such command '{given}'. Did you mean '{meant}'?" in wrong(capsys, given, "a.yaml")
    assert "No such command 'zzz'\n" in wrong(capsys, "zzz")


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("run", "Missing argument 'YAML'"),
        ("evaluate", "Missing argument 'RUN... [KEY=VALUE...]'"),
        ("distill a", "Missing option '--output'"),
        ("run a.yaml --resum", "No such option: --resum (Possible options: "),
        ("--frob", "No such option: --frob"),
        ("predict runs/a --n-best 0 x", "Invalid value for '--n-best': "),
        ("serve a --port zero", "Invalid value for '--port': "),
        ("sweep a --executor there", "Invalid value for '--executor': "),
        ("run a.yaml --output", "Option '--output' requires an argument"),
        ("run a --quiet=3", "Option '--quiet' does not take a value"),
        ("tasks x y", "Got unexpected extra argument"),
        ("completion tcsh", "Invalid value for 'SHELL': "),
        ("lab", "Missing command"),
        ("lab strat", "No such command 'strat'. Did you mean 'start'?"),
        ("lab check", "Missing argument 'DIR'"),
        ("lab grade a --seed x", "Invalid value for '--seed': "),
        ("export a b --to onnx", "Invalid value for '--to': "),
        ("zzz", "No such command 'zzz'"),
        ("score parsing a b beam", "beam"),
        ("run --seed=3", "--seed is a key of"),
    ],
)
def test_every_wrong_command_line_is_answered_in_one_form(capsys, line, got):
    said = wrong(capsys, *line.split())
    assert re.fullmatch(rf"command line: {re.escape(got)}.*\n  expected: .+\n  remedy:   .+\n", said), said
    assert not re.search("Usage|Try |Error", said)


def test_files_and_overrides_stand_in_any_order(capsys):
    assert "2 files: a.yaml b.yaml\n  expected: one YAML file" in wrong(capsys, "check", "a.yaml", "b.yaml")
    assert "expected: different YAML files" in wrong(capsys, "run", "a.yaml", "a.yaml")
    assert "the YAML file is missing" in wrong(capsys, "run", "seed=2")
    Path("a.yaml").write_text("task: parsing\n")
    assert "command line: sed=2: unknown key, did you mean seed?" in wrong(capsys, "check", "sed=2", "a.yaml")
    assert "No such option: --set" in wrong(capsys, "predict", "a", "--set", "seed=2")
    assert "command line: beam\n  expected: a run, or key=value" in wrong(capsys, "evaluate", "runs/a", "beam")


def test_a_wrong_configuration_is_explained_before_anything_is_written(capsys, folder):
    Path("tasks").mkdir()
    Path("tasks/parsing.yaml").write_text("task: parsing\nbackbone:\n  n_heads: 4\n")
    assert (
        wrong(capsys, "run", "tasks/parsing.yaml")
        == "tasks/parsing.yaml:3: backbone.n_heads: unknown key, did you mean num_heads?\n"
    )
    assert "did you mean tasks/parsing.yaml?" in wrong(capsys, "run", "tasks/parsin.yaml")
    assert not (folder / "runs").exists()


def test_errors_go_to_standard_error_in_red_only_on_a_terminal():
    done = start("rnu")
    assert done.returncode == 2 and done.stdout == b"" and b"\x1b" not in done.stderr
    for no_color, red in (("", True), ("1", False)):
        ours, theirs = pty.openpty()
        subprocess.run(
            [sys.executable, "-m", "seq2seq_suite", "rnu"],
            stderr=theirs,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": no_color},
        )
        os.close(theirs)
        assert (b"\x1b[31m" in os.read(ours, 4096)) is red
        os.close(ours)


def test_a_reader_that_goes_away_leaves_no_stack_trace():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq_suite", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    os.close(writing)
    assert done.stderr == b"" and done.returncode == 1


def test_streams_that_the_shell_has_closed_are_no_stack_trace(capsys, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(cli.sys, name, None)
    assert cli.main(["score", "translation", "a", "b"]) == 2
    assert cli.main(["predict", "runs/none"]) == 2
    assert cli.main(["--version"]) == 0


def test_no_line_of_a_message_is_long(capsys):
    error = wrong(capsys, "score", "translation", "nowhere/" * 2000 + "end", "b")
    assert error.startswith("nowhere/") and "file name too long" in error.lower()
    assert max(map(len, error.splitlines())) < 1100


def test_an_internal_failure_keeps_its_stack_trace(monkeypatch):
    monkeypatch.setattr("seq2seq_suite.cli.check.yamls_and_overrides", Mock(side_effect=KeyError("internal")))
    with pytest.raises(KeyError, match="internal"):  # which Python prints with its trace, and exits with 1
        cli.main(["check", "a.yaml"])


def test_ctrl_c_exits_with_130(monkeypatch, capsys):
    monkeypatch.setattr("seq2seq_suite.cli.check.yamls_and_overrides", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["check", "a.yaml"]) == 130 and "Traceback" not in capsys.readouterr().err


def test_inputs_come_from_arguments_a_file_or_a_pipe_with_their_lines():
    Path("in.txt").write_bytes("a b\r\nö\n\n".encode())
    assert list(Inputs.of(["x", "y=z"], None)) == [("x", ("command line", 1)), ("y=z", ("command line", 2))]
    lines = Inputs.of([], "in.txt")
    assert lines.count == 3 and lines.again
    assert list(lines) == [("a b", ("in.txt", 1)), ("ö", ("in.txt", 2)), ("", ("in.txt", 3))]
    assert len(list(Inputs([], "in.txt"))) == 2  # to distil from, say
    assert texts_and_overrides(["x", "search.beam_sise=2", "y=z"]) == (["x", "y=z"], ["search.beam_sise=2"])
    for source in (None, "-"):
        done = start(
            code=f"from seq2seq_suite.cli.arguments import Inputs; print(list(Inputs.of([], {source!r})))",
            input=b"a\nb\n",
        )
        assert done.stdout == b"[('a', ('standard input', 1)), ('b', ('standard input', 2))]\n"
    ours, theirs = socket.socketpair()  # as Node.js and some servers start a program
    with ours, theirs:
        ours.sendall(b"\xff\n")
        ours.shutdown(socket.SHUT_WR)
        done = start("predict", "runs/x", stdin=theirs)
    assert done.returncode == 2 and b"standard input:1: byte 0 is not UTF-8" in done.stderr


def test_inputs_that_cannot_be_read_are_named(capsys):
    Path("bytes.txt").write_bytes(b"a\nb\xff\n")
    assert wrong(capsys, "predict", "runs/a", "--input", "none.txt").startswith("none.txt: there is no such file")
    assert wrong(capsys, "predict", "runs/a", "--input", "bytes.txt").startswith("bytes.txt:2: byte 3 is not UTF-8")
    assert "both TEXT and --input" in wrong(capsys, "predict", "runs/a", "x", "--input", "-")
    with pytest.raises(DataError, match=r"in\.txt:7: the input is empty"):
        Run("runs/a").example(" ", file="in.txt", line=7)


def test_a_full_disk_is_named_by_the_file_on_it():
    with pytest.raises(OSError, match="No space left") as caught, opened(Path("/dev/full")) as file:
        print("a dog", file=file)
    assert caught.value.filename == "/dev/full"


@pytest.mark.parametrize("option", ["--html", "--csv", "--json", "--output", "--draw"])
def test_files_that_cannot_be_written_are_refused_before_any_work(capsys, option):
    Path("folder").mkdir()
    verb = ["predict", "runs/a", "x"] if option in ("--output", "--draw") else ["compare", "runs/a"]
    for name, got in {
        "none/file.html": "No such file or directory",
        "folder": "this is a folder",
        "x" * 300: "File name too long",
    }.items():
        message = wrong(capsys, *verb, option, name)
        assert message.startswith(f"command line: {option} ") and got in message


def test_a_nul_in_a_name_is_no_stack_trace(capsys):
    assert wrong(capsys, "predict", "runs/a", "--input", "a\0b").startswith("a\0b: the file cannot be read: ")


def test_scoring_compares_two_files_of_one_task(capsys):
    Path("gold.txt").write_text("(S (NP (NN cats)) (VP (VBP sleep)))\n(S (NP (NN dogs)) (VP (VBP bark)))\n")
    Path("short.txt").write_text("(S (NP (NN cats)) (VP (VBP sleep)))\n")
    assert cli.main(["score", "parsing", "gold.txt", "gold.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["metric", "figure", "95", "%", "interval"] and "100.00" in lines[1]
    assert cli.main(["score", "parsing", "gold.txt", "gold.txt", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"task", "figures", "signature", "intervals"}
    message = wrong(capsys, "score", "parsing", "gold.txt", "short.txt")
    assert message.startswith("short.txt: 1 predictions for 2 references in gold.txt")
    for verb in ("score parsing gold.txt gold.txt", "distill runs/a --output b"):
        message = wrong(capsys, *verb.split(), "beam")
        assert message.startswith("command line: beam\n  expected: key=value\n  remedy:   such as search.beam_size=4")
    message = wrong(capsys, "score", "parsing", "gold.txt", "gold.txt", "task=qa")
    assert message.startswith("command line: task=qa, but the task is parsing")
    assert "did you mean parsing?" in wrong(capsys, "score", "parsin", "gold.txt", "gold.txt")


def test_tables_of_score_and_compare_go_to_a_file_of_a_known_format(capsys):
    Path("gold.txt").write_text("a b c\na b\n")
    for name in ("s.md", "s.tex", "s.csv"):
        assert cli.main(["score", "translation", "gold.txt", "gold.txt", "--table", name]) == 0
        assert "bleu" in Path(name).read_text() and "100.00" in Path(name).read_text()
    capsys.readouterr()
    for verb in (["score", "translation", "gold.txt", "gold.txt"], ["compare", "runs/a"]):
        said = wrong(capsys, *verb, "--table", "s.xlsx")
        assert said.startswith("command line: --table s.xlsx\n  expected: a file whose name ends in .md, .tex, .csv\n")


@pytest.mark.parametrize(
    ("option", "keys"),
    [
        ("--learning-rate", "training.learning_rate=VALUE"),
        ("--beam_size=3", "search.beam_size=VALUE"),
        ("--search.beam_size", "search.beam_size=VALUE"),
        ("--seed", "seed=VALUE"),
    ],
)
def test_a_key_written_as_an_option_is_answered_with_the_key(option, keys, capsys):
    assert cli.main(["run", "tasks/parsing.yaml", option, "1"]) == 2
    said = capsys.readouterr().err
    assert keys in said and "without dashes" in said
