"""Numbers that no run can use are refused, and memory that is not there is answered plainly."""

from typing import get_args

import pytest
import torch

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config.config_file import for_task, key_list
from seq2seq_suite.config.messages import sections_at
from seq2seq_suite.tasks import TASKS, find_task

NO_LIMIT = {"training.max_minutes", "training.clip_norm", "mixture.max_epochs"}


def refused(task: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        for_task(task, overrides)
    return str(caught.value)


def task_of(key: str) -> str:
    """A task that has a key."""
    return next((task for task in TASKS if key.partition(".")[0] in find_task(task).sections), "translation")


def numbers() -> list[str]:
    """The keys that hold a number."""
    found = []
    for key in key_list():
        section, _, name = key.rpartition(".")
        fields = [
            one.model_fields[name]
            for one in sections_at(tuple(section.split(".")) if section else (), {"task": task_of(key)})
            if name in one.model_fields
        ]
        found += [key] if any(field.annotation in (int, float) for field in fields) else []
    return found


def kind_of(key: str) -> str:
    """The decoder that has a key of `strategy`."""
    section, name = key.split(".")
    return next(
        get_args(one.model_fields["kind"].annotation)[0]
        for one in sections_at((section,), {"task": "qa"})
        if name in one.model_fields
    )


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "1e300", "-1e300", "9" * 19, "9" * 5000])
def test_every_number_has_bounds_and_is_finite(value):
    for key in numbers():
        if key in NO_LIMIT and value in (".inf", "1e300", "9" * 19):
            continue
        kind = [f"strategy.kind={kind_of(key)}"] if key.startswith("strategy.") else []
        assert key in refused(task_of(key), *kind, f"{key}={value}"), key


def test_infinity_is_no_limit_where_there_may_be_none():
    for key in NO_LIMIT - {"mixture.max_epochs"}:
        section, name = key.split(".")
        assert getattr(getattr(for_task("parsing", [f"{key}=.inf"]), section), name) == float("inf")


@pytest.mark.parametrize(
    ("task", "overrides", "message"),
    [
        ("asr", "audio.speeds=[]", "got a list\n  expected: a list, such as [a, b] no shorter than 1"),
        ("asr", "audio.speeds=[0.0001]", "got 0.0001 (a decimal number)\n  expected: a number of at least 0.1"),
        ("asr", "audio.speeds=[.inf]", "got inf (a decimal number)\n  expected: a finite number"),
        (
            "asr",
            "audio.speeds=[0.1] data.max_length=1000 search.max_length_factor=0.1",
            "2500 positions (data.max_length)",
        ),
        ("translation", "data.max_length=9000 search.max_length_factor=0.1", "9002 positions (data.max_length)"),
        ("detection", "detection.scales=[1e-9,1e-9]", "of at least 0.1 and of at most 10"),
        ("detection", "detection.scales=[2.0,1.0]", "the smallest is larger than the largest"),
        ("detection", "detection.width=16 detection.stride=32", "a side is shorter than detection.stride 32"),
        ("detection", "backbone.width=4", "no group of 8 channels to the convolutions over pictures"),
        ("detection", "detection.instances=100000", "500001 symbols long (5 * detection.instances + 1)"),
        ("translation", "seed=18446744073709551616", "below 9,223,372,036,854,775,808"),
        ("translation", "training.threads=1099511627776", "of at most 1,000"),
        ("translation", "backbone.width=3200000", "make 4.9e+14 parameters, too many for any memory"),
        ("translation", "backbone.max_positions=1000000000", "too many for any memory"),
        ("translation", "backbone.encoder_layers=100000", "of at most 1,000"),
        ("translation", "search.beam_size=1000000", "of at most 10,000"),
        ("translation", "search.sampling=true search.temperature=1e-300", "of at least 0.001"),
        ("translation", "search.sampling=true search.top_p=1e-300", "and of at most 1 and not between 0 and 1e-30"),
        ("translation", "training.learning_rate=1e-300", "a number above 0 and not between 0 and 1e-30"),
        ("translation", "strategy.kind=ctc strategy.glancing=[0.5,1e-300]", "and not between 0 and 1e-30"),
        ("detection", "detection.channels=12", "and a multiple of 8"),
    ],
)
def test_numbers_that_no_run_can_use_are_refused(task, overrides, message):
    assert message in refused(task, *overrides.split())


@pytest.mark.parametrize("task", TASKS)
def test_the_largest_seed_is_one_that_torch_takes(task):
    torch.manual_seed(for_task(task, [f"seed={2**63 - 1}"]).seed)
    assert torch.initial_seed() == 2**63 - 1


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (lambda: torch.empty(10**16), "not enough memory for 40000000000000000 bytes"),
        (lambda: (_ for _ in ()).throw(MemoryError), "there is not enough memory: a smaller backbone"),
        (
            lambda: (_ for _ in ()).throw(
                torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0")
            ),
            "not enough memory for 20.00 GiB",
        ),
    ],
)
def test_memory_that_is_not_there_is_no_stack_trace(monkeypatch, capsys, error, reported):
    monkeypatch.setattr("seq2seq_suite.cli.check.yamls_and_overrides", lambda *_, **__: error())
    assert cli.main(["check", "a.yaml"]) == 1
    found = capsys.readouterr().err
    assert reported in found and found.count("\n") == 1 and "Traceback" not in found


def test_as_many_outputs_as_no_memory_holds_are_not_asked_for(capsys):
    assert cli.main(["predict", "runs/a", "x", "--n-best", str(10**12)]) == 2
    assert "less than or equal to 10000" in capsys.readouterr().err


def test_a_feed_forward_network_that_no_memory_holds_is_refused():
    from seq2seq_suite.config.schema import Config

    fits = {"width": 1024, "feed_forward_width": 10**6, "num_heads": 1, "encoder_layers": 4, "decoder_layers": 4}
    assert Config.model_validate({"task": "parsing", "backbone": fits}).backbone.width == 1024
    with pytest.raises(ValueError, match="too many for any memory"):
        Config.model_validate({"task": "parsing", "backbone": {**fits, "feed_forward_width": 10**9}})
