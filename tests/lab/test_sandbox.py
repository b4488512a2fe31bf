"""What a student's code can do to the checking process: one law's answer, no more."""

import ctypes
import os
import signal
import sys

import pytest
import torch

from seq2seq_suite.lab import sandbox, starting, wire
from seq2seq_suite.lab.assignment import Failed
from seq2seq_suite.lab.probes import Probe
from seq2seq_suite.lab.remote import FORKS, Workers

pytestmark = pytest.mark.skipif(not FORKS, reason="needs fork")
X = torch.arange(4.0)


@pytest.fixture(scope="module")
def workers(workers):
    workers.start()
    return workers


def job(text, **more):
    return {"files": {"f.py": text}, "given": {}, "part": "f", "forbidden": [], **more}


@pytest.fixture
def run(workers):
    """Call f of a text with X; a right answer of another law follows, whatever the text did."""

    def call(text, *arguments, needs="", seconds=5.0, **more):
        if needs and not any(needs in one for one in workers.holds):
            pytest.skip(f"this system does not offer: {needs}")
        try:
            with workers.student(seconds=seconds) as student:
                student.begin(job(text, **more))
                return student.call("f", *(arguments or (X,)))
        finally:
            with workers.student() as student:
                student.begin(job("def f(x):\n    return x + 1"))
                assert torch.equal(student.call("f", X), X + 1)

    return call


def failure(run, text, **more):
    with pytest.raises(Failed) as failed:
        run(text, **more)
    return failed.value


def test_an_endless_loop_costs_its_own_law_and_its_line_is_named(run):
    failed = failure(run, "def f(x):\n    while True:\n        pass", seconds=0.4)
    assert failed.error == "time" and failed.message.startswith("no answer in 0.4 s; f.py:")


def test_a_loop_that_no_signal_ends_is_killed_from_outside(run):
    text = "import signal\ndef f(x):\n    signal.pthread_sigmask(signal.SIG_BLOCK, {14})\n    while True: pass"
    assert failure(run, text, seconds=0.4).error == "time"


@pytest.mark.parametrize("end", ["os._exit(0)", "os.abort()", "raise SystemExit", "os.kill(os.getpid(), 9)"])
def test_the_end_of_the_process_is_reported_with_its_line_where_it_is_known(run, end):
    failed = failure(run, f"import os\ndef f(x):\n    {end}")
    assert "ended the process" in failed.message and ("f.py:3" in failed.message or "kill" in end)


def test_ten_gigabytes_are_refused(run):
    assert (
        failure(run, "import torch\ndef f(x):\n    return torch.zeros(2_500_000_000).sum()", needs="GiB").error
        == "RuntimeError"
    )


def test_a_patched_torch_is_patched_in_its_own_process_alone(run):
    text = (
        "import torch\ntorch.Tensor.__add__ = lambda x, y: x\ntorch.equal = torch.allclose = lambda *a: True\n"
        "def f(x):\n    return x + 1"
    )
    assert torch.equal(run(text), X) and not torch.equal(X + 1, X)


def test_what_is_printed_is_kept_up_to_a_bound_and_never_read(workers):
    with workers.student() as student:
        student.begin(job("def f(x):\n    print('passed ' * 10**6)\n    return x"))
        assert torch.equal(student.call("f", X), X)
        assert student.said().startswith("passed passed") and len(student.said()) <= 2000


def test_a_flood_past_python_blocks_nobody(run):
    assert failure(run, "import os\ndef f(x):\n    while True: os.write(1, b'x' * 10**6)").error == "BlockingIOError"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    open('results.json', 'w').write('x' * 10)",
        "def f(x):\n    open('{here}/w', 'w').write('x' * 10)",
    ],
)
def test_nothing_is_written(run, text, tmp_path):
    os.chmod(tmp_path, 0o777)
    failed = failure(run, text.replace("{here}", str(tmp_path)), needs="landlock")
    assert failed.error == "PermissionError" and not list(tmp_path.iterdir())


def test_the_solutions_cannot_be_read(run):
    from seq2seq_suite.lab import assignment

    failed = failure(run, f"def f(x):\n    return open({assignment.__file__!r}).read()", needs="landlock")
    assert failed.error == "PermissionError"


def test_no_other_process_is_started(run):
    assert failure(run, "import os\ndef f(x):\n    return os.fork()", needs="uid").error == "BlockingIOError"


def test_no_other_process_is_disturbed(run):
    text = f"import os\ndef f(x):\n    os.kill({os.getpid()}, {int(signal.SIGUSR1)})"
    failed = failure(run, text, needs="uid")
    assert failed.error == "PermissionError"


def test_there_is_no_network(run):
    text = (
        "import socket\ndef f(x):\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    s.sendto(b'x', ('192.0.2.1', 9))"
    )
    assert failure(run, text, needs="no network").error == "OSError"


def test_the_suite_is_not_there_to_be_imported(run):
    assert failure(run, "import sys\ndef f(x):\n    __import__('seq2seq_suite.lab.laws')", needs="landlock").error in (
        "ModuleNotFoundError",
        "ImportError",
        "PermissionError",
    )


def test_a_forbidden_function_raises_and_says_why(run):
    failed = failure(
        run,
        "from torch.nn import functional\ndef f(x):\n    return functional.softmax(x, -1)",
        forbidden=["torch.nn.functional.softmax"],
    )
    assert failed.message == "f.py:3 `softmax` is what this part is to write"


@pytest.mark.parametrize(
    ("assignment", "part", "body"),
    [
        ("losses", "cross_entropy", "torch.special.log_softmax(x, 0)"),
        ("losses", "cross_entropy", "torch._log_softmax(x, 0, False)"),
        ("losses", "cross_entropy", "torch.special.logsumexp(x, 0)"),
        ("losses", "gradient", "torch.autograd.Variable._execution_engine.run_backward((x,), (x,))"),
        ("losses", "gradient", "torch.autograd.functional.jacobian(torch.sin, x)"),
        ("norms", "layer_norm", "torch.instance_norm(x.view(1, 1, 4), None, None, None, None, True, 0.1, 1e-5, False)"),
        ("attention", "attend", "vars(torch)['_C']._nn.scaled_dot_product_attention(*[x.view(1, 1, 4, 1)] * 3)"),
        ("attention", "attend", "torch._scaled_dot_product_attention_math(*[x.view(1, 1, 4, 1)] * 3)[0]"),
        ("speech", "ctc", "torch._ctc_loss(x.view(4, 1, 1), x.view(1, 4).long(), [4], [4])[0]"),
    ],
)
def test_what_a_part_is_to_write_is_forbidden_under_every_name(run, assignment, part, body):
    forbidden = list(starting.named(assignment).part(part).forbidden)
    failed = failure(run, f"import torch\ndef f(x):\n    return {body}", forbidden=forbidden)
    assert failed.error == "Forbidden" and "is what this part is to write" in failed.message


def test_an_answer_that_is_too_large_or_nested_is_refused(run):
    assert "bytes" in failure(run, "import torch\ndef f(x):\n    return torch.zeros(20_000_000)").text
    assert failure(run, "def f(x):\n    a = []\n    for _ in range(5000): a = [a]\n    return a").error in (
        "RecursionError",
        "answer",
    )


def test_frames_written_by_hand_are_no_more_than_answers(run):
    text = (
        "import os\ndef f(x):\n    for n in range(3, 20):\n        try:\n            os.write(n, b'\\x00' * 8)\n"
        "        except OSError:\n            pass\n    return x"
    )
    assert failure(run, text, seconds=0.4).error in ("answer", "time", "end")


def test_what_cannot_cross_stays_there_and_comes_back(workers):
    text = (
        "from collections import namedtuple\nclass State:\n    n = 3\n"
        "Pair = namedtuple('Pair', 'a b')\ndef f(x):\n    return State(), Pair(x, 1)\n"
        "def g(state, pair):\n    return state.n + pair.b, type(pair).__name__"
    )
    with workers.student() as student:
        student.begin(job(text))
        state, pair = student.call("f", X)
        assert torch.equal(pair[0], X) and repr(state) == "<State>"
        assert student.call("g", state, pair) == (4, "Pair")


def test_probes_dtypes_and_every_plain_value_cross(workers):
    values = (
        None,
        True,
        3,
        -0.5,
        "词",
        [1, (2, "x")],
        {"a": X.long(), 2: [X.bool()]},
        {1, 2},
        torch.float16,
        X.to(torch.bfloat16),
    )
    with workers.student() as student:
        student.begin(job("def f(*values):\n    return values[:-1], values[-1](values[0][1])"))
        output = student.call("f", [values, X], Probe("affine", X, X, name="norm"))
        assert torch.equal(output[1], X * X + X) and [name for name, _ in student.calls] == ["norm"]
        back = output[0][0][0]
        assert back[:6] == values[:6] and back[6]["a"].tolist() == [0, 1, 2, 3] and back[7:9] == values[7:9]
        assert back[9].dtype == torch.bfloat16


def test_gradients_and_changes_in_place_cross(workers):
    with workers.student() as student:
        student.begin(job("def f(x, y):\n    y += 1\n    return (x * x).sum()"))
        output, (gradient,) = student.call("f", X, X, gradient=(0,))
        assert output == 14.0 and torch.equal(gradient, 2 * X) and torch.equal(student.after[1], X + 1)


def test_without_fork_a_process_serves_one_law():
    with Workers(fork=False) as workers, workers.student(seconds=0.5) as student:
        student.begin(job("def f(x):\n    print('hello')\n    return x + 1\ndef g():\n    while True: pass"))
        assert torch.equal(student.call("f", X), X + 1)
        with pytest.raises(Failed, match="no answer"):
            student.call("g")


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
def test_landlock_is_found_where_the_kernel_has_it():
    version = ctypes.CDLL(None).syscall(444, None, 0, 1)  # landlock_create_ruleset(NULL, 0, LANDLOCK_..._VERSION)
    assert sandbox.has_landlock() == (version >= 1)


def test_hostile_frames_are_refused():
    for body in (b"[1]", b"{", b'{"tensor": 0}', b'{"dict": [["a", {"kept": []}]]}', b'{"dtype": "load"}', b"[" * 9999):
        frame = len(body).to_bytes(4, "big") + bytes(4) + body
        parts = iter((frame[:8], frame[8:], b""))
        with pytest.raises(wire.WireError):
            wire.unpack(lambda size, parts=parts: next(parts))
    with pytest.raises(wire.WireError):
        wire.unpack(lambda size: b"\xff" * size)
    assert "pickle" not in sys.modules["seq2seq_suite.lab.wire"].__dict__
