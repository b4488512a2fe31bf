"""The fault campaign: it draws the same cases from the same seed, covers the schema, and tells a planted fault."""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Annotated

import filelock  # noqa: F401  of datasets: from Python 3.12 on it lets one thread fork at a time
import pytest
import torch._dynamo  # noqa: F401  which an optimiser imports when it is made: once here, not in each child

from benchmarks.faults import __main__ as program
from benchmarks.faults import (
    campaign,
    commands,
    confinement,
    damage,
    disks,
    examples,
    fingerprints,
    injections,
    kills,
    pages,
    rows,
    schema,
    settings,
)
from benchmarks.faults.campaign import Case, Kind
from seq2seq_suite.cli import app as cli
from seq2seq_suite.config import config_file
from seq2seq_suite.experiments import verbs  # noqa: F401


def case_of(kind: str, number: int, folder: Path, main=cli.main, *, seed: int = 1) -> Case:
    own, shared = folder / f"{kind}-{number}-{seed}", folder / "shared"
    own.mkdir()
    shared.mkdir(exist_ok=True)
    return Case(kind, seed, number, own, shared, main)


def reported(*words: str) -> int:
    """A command line with one fault: it knows no key `seed`."""
    if any("seed" in Path(word).read_text() for word in words[0] if word.endswith(".yaml") and Path(word).is_file()):
        raise KeyError("seed")
    print("a.yaml: refused", file=sys.stderr)
    return 2


def seeds_are_wrong(case: Case) -> None:
    (case.folder / "a.yaml").write_text("seed: 1" if case.number == 2 else "")
    case.call("run", "a.yaml")


def test_a_planted_fault_is_reported_with_the_command_that_repeats_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kinds = [Kind("planted", "a fault", seeds_are_wrong, 4)]
    page = tmp_path / "page.md"
    given = ["--minutes", "1", "--jobs", "1", "--seed", "7", "--output", str(page)]
    assert program.main(given, command=reported, kinds=kinds) == 1
    assert "| planted | a fault | 4 | 1 |" in page.read_text()
    line = next(line for line in page.read_text().splitlines() if line.startswith("- `"))
    assert line == (
        "- `python -m benchmarks.faults --only planted --seed 7 --case 2`: "
        "a stack trace: KeyError: 'seed': python -m seq2seq_suite run a.yaml"
    )
    repeated = line.split("`")[1].split()[3:]
    assert program.main(repeated, command=reported, kinds=kinds) == 1
    assert "KeyError: 'seed'" in capsys.readouterr().out
    assert program.main([*repeated[:-1], "3"], command=reported, kinds=kinds) == 0


def test_two_workers_try_each_number_once(tmp_path):
    def note(case: Case) -> None:
        (tmp_path / str(case.number)).open("x").close()

    found = campaign.go_through(Kind("note", "", note, 7), 1, tmp_path, cli.main, seconds=60, jobs=2)
    assert not found.failures and found.counts["tries"] >= 7
    assert {int(path.name) for path in tmp_path.iterdir()} == set(range(found.counts["tries"]))


def test_a_worker_that_dies_is_a_failure(tmp_path):
    def die(case: Case) -> None:
        if case.number == 1:
            os._exit(3)

    found = campaign.go_through(Kind("die", "", die, 4), 1, tmp_path, cli.main, seconds=60, jobs=2)
    assert found.failures == {1: ["the campaign's own process died"]} and found.counts["tries"] >= 4


@pytest.mark.parametrize(
    ("main", "fault"),
    [
        (lambda words: time.sleep(9), "no answer within"),
        (lambda words: os.kill(os.getpid(), 9), "exit code 137, expected 0"),
        (lambda words: 2, "exit code 2 without a word"),
        (lambda words: print("9" * 5000, file=sys.stderr) or 0, "a message with a line of 5,000 characters"),
        (lambda words: len(b"x" * 2**28) >> 60, "MiB of memory"),
    ],
)
def test_whatever_ends_badly_is_reported(tmp_path, main, fault):
    ended = commands.start(main, ["run"], tmp_path, limit=0.5 if fault.startswith("no answer") else 60.0).wait()
    assert any(one.startswith(fault) or fault in one for one in commands.faults(ended, (0,), memory=2**25)), ended


def test_several_threads_start_commands_at_once(tmp_path):
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds: threads meet where they seldom do
    try:
        with ThreadPoolExecutor(4) as pool:
            ends = pool.map(lambda _: commands.start(lambda words: 0, ["run"], tmp_path).wait().code, range(16))
            assert [*ends] == [0] * 16
    finally:
        sys.setswitchinterval(usual)


def test_no_command_gets_more_memory_than_its_bound(tmp_path):
    ended = commands.start(lambda words: len(bytearray(2**34)), ["run"], tmp_path).wait()
    assert commands.faults(ended, (0,))[0] == "a stack trace: MemoryError"


@pytest.mark.skipif(not confinement.is_possible(), reason="needs Linux's Landlock")
@pytest.mark.parametrize(
    "harm",
    [
        lambda outside: outside.write_text("lost"),
        lambda outside: outside.unlink(),
        lambda outside: os.replace("own", outside),
        lambda outside: outside.with_name("new").mkdir(),
        lambda outside: os.mknod("/dev/null-of-a-test"),
        lambda outside: os.truncate(outside, 0),
    ],
)
def test_a_command_can_do_no_harm_outside_its_folder(tmp_path, harm):
    outside, own = tmp_path / "outside", tmp_path / "inside"
    own.mkdir()
    outside.write_text("kept")
    (own / "own").write_text("lost")
    ended = commands.start(lambda words: harm(outside) and 0, ["run"], own).wait()
    assert ended.code == 1 and ("PermissionError" in ended.err or "cross-device" in ended.err)
    assert outside.read_text() == "kept" and sorted(path.name for path in tmp_path.iterdir()) == ["inside", "outside"]
    free = commands.start(lambda words: Path("/dev/null").write_text((own / "own").read_text()) * 0, ["run"], own)
    assert "PermissionError" not in free.wait().err


def test_every_key_of_the_schema_is_tried_with_good_and_bad_values():
    keys = settings.all_keys()
    assert {key.dotted for key in keys} == set(config_file.key_list())
    tried = {
        number // len(settings.WAYS) % len(keys)
        for number in range(5000)
        if settings.WAYS[number % len(settings.WAYS)].__name__ == "_value"
    }
    assert tried == set(range(len(keys)))
    for key in keys:
        assert schema.bad(key, Random(3)) is not None or key.default is not None


def test_good_values_are_admitted_and_bad_ones_refused_by_the_type_of_the_key():
    from pydantic import TypeAdapter, ValidationError

    for key in settings.all_keys():
        if key.path[0] == "tasks" or key.path[-1] in ("keep_categories", "repeats", "optimizer_options", "parameters"):
            continue
        annotation = key.annotation
        for bound in key.bounds:
            annotation = Annotated[annotation, bound]
        adapter = TypeAdapter(annotation)
        for seed in range(20):
            given = schema.good(key, Random(seed))
            adapter.validate_python(tuple(given) if isinstance(given, list) else given, strict=True)
            wrong = schema.bad(key, Random(seed))
            with pytest.raises(ValidationError):
                adapter.validate_python(tuple(wrong) if isinstance(wrong, list) else wrong, strict=True)


def test_yaml_holds_what_was_put_in(tmp_path):
    values = {"a": {"b": [1, 2.5, "x: #y", None, True, {"c d": []}]}, "e": schema.INFINITE}
    path = examples.write_yaml(tmp_path / "a.yaml", values)
    assert config_file.parse(path) == {"a": {"b": (1, 2.5, "x: #y", None, True, {"c d": ()})}, "e": schema.INFINITE}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [settings.try_bad, settings.try_good, rows.try_data])
def test_a_case_depends_on_kind_seed_and_number_alone(tmp_path, kind):
    seen = []

    def record(words: list[str]) -> int:
        files = {path.name: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}
        Path("../seen").write_text(repr((words, files)).replace(str(Path().resolve()), ""))
        return 0

    for number, seed in ((5, 1), (5, 1), (5, 2)):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        case = case_of("drawn", number, folder, record, seed=seed)
        settings.prepare(case)
        kind(case)
        seen.append((folder / "seen").read_text().replace(str(folder), ""))
    assert seen[0] == seen[1] != seen[2]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    case = case_of("prepare", 0, folder)
    settings.prepare(case)
    return folder


@pytest.mark.parametrize("number", [0, 1, 3, 5])
@pytest.mark.slow
def test_a_bad_configuration_is_refused(shared, number):
    case = case_of("settings", number, shared)
    settings.try_bad(case)
    assert not case.complaints and len(case.called) == 1


@pytest.mark.slow
def test_a_valid_configuration_runs(shared):
    for number in range(20):  # some are refused: keys depend on one another
        case = case_of("valid", number, shared)
        settings.try_good(case)
        assert not case.complaints
        if case.counts["ran"]:
            return
    pytest.fail("none ran")


@pytest.mark.slow
def test_data_in_another_guise_are_read_as_before(tmp_path):
    (tmp_path / "shared").mkdir()
    for number in range(len(rows.COMMON) * len(examples.TASKS)):
        if number % len(examples.TASKS) == 0 and rows.COMMON[number // len(examples.TASKS)] is rows.same_row:
            break
    case = case_of("data", number, tmp_path)
    made = Case("data", 1, 0, case.shared, case.shared, cli.main)
    examples.write(case.shared / "data" / "parsing", "parsing")
    rows.prepare(made, ("parsing",))
    rows.try_data(case)
    assert not made.complaints and not case.complaints and len(case.called) == 2


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("<p title='&lt;zqa onzq=1>'>&lt;zqb></p><script>'zq'</script>", []),
        ("<p>a<zqb>c</p>", ["a tag <zqb>"]),
        ("<script>a</script><zqa></script>", ["a tag <zqa>"]),
        ("<!--zq-->", ["a comment"]),
        ("<a href='javascript:zq'>", ["an attribute href='javascript:zq' of <a>"]),
        ("<img alt=a onerror=zq>", ["an attribute onerror='zq' of <img>"]),
    ],
)
def test_markup_that_came_from_data_is_found_in_a_page(page, wrong):
    assert pages.search(page).wrong == wrong


@pytest.mark.parametrize("way", damage.CONTENTS)
def test_damage_changes_a_file(tmp_path, way):
    before = b'{"update": 1, "split": "test"}\n{"update": 2, "seconds": 1.5}\n'
    for seed in range(3):
        (tmp_path / "a").write_bytes(before)
        damage.damage(tmp_path / "a", way, Random(seed), tmp_path / "b")
        assert (tmp_path / "a").read_bytes() != before


def write_five(words: list[str]) -> int:
    for number in range(5):
        (Path("run") / str(number)).write_text("x" * 5000)
    return 0


@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_process_is_killed_before_the_operation_that_was_chosen(tmp_path, number):
    (tmp_path / "run").mkdir()
    hook = injections.at_operation(number, tmp_path / "run", lambda: os.kill(os.getpid(), 9))
    ended = commands.start(write_five, [], tmp_path, first=hook).wait()
    assert ended.code == (137 if number <= 5 else 0)
    assert len(list((tmp_path / "run").iterdir())) == number - 1
    commands.start(write_five, [], tmp_path, first=injections.counting(tmp_path / "run", tmp_path / "count")).wait()
    assert (tmp_path / "count").read_text() == "5"


def test_a_file_without_rights_cannot_be_written_even_by_root(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "2").touch(mode=0)
    ended = commands.start(write_five, [], tmp_path, first=injections.without_privilege).wait()
    assert "PermissionError" in ended.err and len(list((tmp_path / "run").iterdir())) == 3


@pytest.mark.skipif(bool(disks.why_not()), reason=disks.why_not())
def test_a_small_disk_is_filled_and_goes_away_with_the_worker(tmp_path):
    def fill(case: Case) -> None:
        (case.folder / "run").mkdir()
        with disks.small_disk(case.folder / "run"):
            disks.fill(case.folder / "run", 12_000)
            ended = case.start(main=write_five).wait()
            case.expect("No space left" in ended.err, "written nevertheless")
        case.expect(not list((case.folder / "run").iterdir()), "still there")

    assert not campaign.go_through(Kind("full", "", fill, 1), 1, tmp_path, cli.main, seconds=60, jobs=2).failures
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_runs_agree_but_for_the_clock(tmp_path):
    for name, seconds, loss in (("a", 1.0, 2.0), ("b", 3.0, 2.0), ("c", 1.0, 2.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(f'{{"update": 1, "seconds": {seconds}, "loss": {loss}}}\n')
        (tmp_path / name / "summary.json").write_text(f'{{"splits": {{"test": {{"f1": 2}}}}, "seconds": {seconds}}}')
    one, same, other = (fingerprints.fingerprint(tmp_path / name) for name in "abc")
    assert one == same and fingerprints.differences(one, other) == ["metrics.jsonl"]


@pytest.mark.slow
def test_a_killed_run_ends_as_an_unbroken_one_and_a_lost_update_would_be_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "_WAYS", ("at an operation",))  # which does not depend on the clock
    case = case_of("kills", 0, tmp_path)
    kills.prepare(case, ("single",))
    kills.try_kill(case)
    assert not case.complaints and case.counts["kills"]
    with (case.folder / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"update": 9}\n')
    kills.compare(case, "single")
    assert case.complaints == ["single: not as in the unbroken run: metrics.jsonl"]
