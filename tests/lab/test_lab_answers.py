"""Runs that are honest are accepted, others are not; and questions are answered by the runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from small_run import few_rows

from seq2seq_suite.common.errors import RunError
from seq2seq_suite.common.examples import Score
from seq2seq_suite.config import config_file
from seq2seq_suite.lab import answers, replaying, sandbox, task, unseen, verifying
from seq2seq_suite.lab.assignments import STRUCTURES
from seq2seq_suite.lab.experiment import COMMON, read_experiment
from seq2seq_suite.lab.running import run
from seq2seq_suite.prediction.open_task import open_task
from tests.lab.conftest import FEW
from tests.lab.experiments import TINY, config_of

pytestmark = pytest.mark.slow
PART = STRUCTURES.part("task")


def here(experiment, plan, fresh, own):
    """Replays in this process."""
    try:
        return replaying.answer(experiment.folder.path, experiment.file, plan.name, list(fresh), list(own))
    except RunError as error:
        raise verifying.Refused(f"replay: {error}") from None


def verified(folder):
    return verifying.verify(read_experiment(folder, own=False), 7, here)


@pytest.fixture(scope="session")
def honest(finished):
    """What was found of a student's runs."""
    with few_rows(FEW):
        return verified(finished[0])


def test_an_honest_run_is_accepted(honest):
    assert {name: run.problem for name, run in honest.items()} == {"one": "", "again": ""}
    assert honest["one"].share == honest["again"].share == 1.0
    assert "fresh sentences" in honest["one"].says and "from the suite's own losses" in honest["one"].says


@pytest.mark.slow
def test_another_process_replays_as_this_one_does(finished):
    experiment = read_experiment(finished[0], own=False)
    plan, sentences = experiment.plans["one"], ["the dog sees the cat .", "a bird sings ."]
    found, expected = (one(experiment, plan, sentences, sentences[:1]) for one in (verifying.in_child, here))
    for answer in (found, expected):
        del answer["data"]["validation"]  # which is short in this process alone
    assert found == expected and found["data"]["train"]


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.has_landlock(), reason="this kernel has no Landlock")
def test_a_replay_neither_reads_nor_changes_what_is_not_its_own(handed_in, tmp_path):
    file = tmp_path / "grades.csv"
    file.write_text("ada 3")
    tried = "\n".join(
        [
            "denied = ''",
            "for mode in 'rw':",
            "    try:",
            f"        open({str(file)!r}, mode)",
            "    except PermissionError:",
            "        denied += mode",
            "raise PermissionError(f'denied: {denied}')\n",
        ]
    )
    (handed_in / "greedy.py").write_text(tried + (handed_in / "greedy.py").read_text())
    experiment = read_experiment(handed_in, own=False)
    with pytest.raises(verifying.Refused, match="PermissionError: denied: rw"):
        verifying.in_child(experiment, experiment.plans["again"], ["a bird sings ."], [])
    assert file.read_text() == "ada 3"


def replayed(folder, code):
    """What a replay says in which this stands before the student's search."""
    (folder / "greedy.py").write_text(code + "\n" + (folder / "greedy.py").read_text())
    experiment = read_experiment(folder, own=False)
    return verifying.in_child(experiment, experiment.plans["again"], ["a bird sings ."], [])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("namespace", [True, False])
def test_nothing_that_a_replay_starts_outlives_it(handed_in, namespace, monkeypatch):
    if not namespace:  # as where neither root nor a user may make one
        monkeypatch.setenv("PYTHONPATH", str(handed_in / "no"), prepend=os.pathsep)
        (handed_in / "no").mkdir()
        (handed_in / "no" / "sitecustomize.py").write_text(
            "from seq2seq_suite.lab import sandbox\nsandbox._NEW_PROCESSES = 0\n"
        )
    mark = f"outlives-{handed_in.parent.name}-{namespace}"
    code = f"""import ctypes, os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            name = ctypes.create_string_buffer({mark.encode()!r})
            ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
            time.sleep(300)
        os._exit(0)
time.sleep(0.5)
os._exit(3)  # whoever waited for standard error to be closed would wait for them
"""
    begun = time.monotonic()
    with pytest.raises(verifying.Refused, match="ended without a word"):
        replayed(handed_in, code)
    assert time.monotonic() - begun < 120
    names = [file.read_text() for file in Path("/proc").glob("[0-9]*/comm") if file.exists()]
    assert not [name for name in names if name.strip() == mark[:15]]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_replay_has_the_limits_of_laws_and_no_cache_of_the_teachers(handed_in):
    code = """import os, resource
limits = [resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("AS", "CPU", "FSIZE", "NPROC")]
place = os.path.expanduser("~")
raise ValueError(f"{os.geteuid()} {resource.RLIM_INFINITY in limits} {place} {os.environ['XDG_CACHE_HOME']}")
"""
    with pytest.raises(verifying.Refused, match="ValueError: ") as refused:
        replayed(handed_in, code)
    user, endless, home, cache = str(refused.value).partition("ValueError: ")[2].split()[:4]
    assert endless == "False" and Path(cache).parent == Path(home) != Path.home() and not Path(home).exists()
    assert user != "0"


def test_code_that_the_laws_refuse_is_not_run(handed_in, tmp_path):
    (handed_in / "greedy.py").write_text(
        f"import seq2seq_suite\nopen({str(tmp_path / 'ran')!r}, 'w')\n" + (handed_in / "greedy.py").read_text()
    )
    found = verified(handed_in)
    assert found["again"].problem == "greedy.py:1 `seq2seq_suite` is not allowed here: what the laws refuse is not run"
    assert not found["one"].problem and not (tmp_path / "ran").exists()


def test_calls_and_losses_that_a_record_claims_earn_nothing(handed_in, rewrite):
    for name in ("attend", "masks", "greedy"):
        for file in handed_in.glob(f"*{name}.py"):
            file.unlink()
    (handed_in / "causal_mask.py").unlink(missing_ok=True)
    record = handed_in / "runs" / "one" / "lab.json"
    rewrite(record, calls={"attend": 5326, "causal_mask": 40}, own_losses=[])
    assert not [run for run in verified(handed_in).values() if run.share]


@pytest.mark.skipif(not sandbox.has_landlock(), reason="this kernel has no Landlock")
def test_a_replay_hears_embedded_sentences_and_starts_no_process(tmp_path):
    code = """if True:
        import subprocess, sys
        from seq2seq_suite.lab import replaying
        from seq2seq_suite.miniworld.speaker import SPEAKERS
        def answer(*_):
            samples, _ = SPEAKERS.say("the dog", "en", rate=160, pitch=50)
            try:
                subprocess.run([sys.executable, "-c", ""])
            except PermissionError:
                return {"samples": len(samples)}
        replaying.answer = answer
        replaying.main()
    """
    request = {"directory": str(tmp_path), "file": "", "run": "", "fresh": [], "own": [], "sounds": True, "seconds": 60}
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "answer.json"],
        capture_output=True,
        text=True,
        timeout=60,
        input=json.dumps(request),
    )
    assert not ended.stderr and json.loads((tmp_path / "answer.json").read_text())["samples"] > 1000


def test_what_was_never_run_is_refused_without_a_look_at_the_rest(begun):
    assert {run.problem for run in verified(begun("max")).values()} == {
        "not run",
        "it goes on from one, which is refused",
    }


def test_another_seed_is_refused(handed_in, rewrite):
    (handed_in / "lab.yaml").write_text("assignment: tiny\nstudent: eve\n")
    assert verified(handed_in)["one"].problem.startswith("student: it is a run of ada")
    rewrite(handed_in / "runs" / "one" / "lab.json", student="eve")
    assert verified(handed_in)["one"].problem.startswith("seed: ")


def test_other_settings_are_refused(handed_in):
    file = handed_in / "runs" / "one" / "config.yaml"
    file.write_text(file.read_text().replace("max_updates: 40", "max_updates: 3000"))
    assert verified(handed_in)["one"].problem == "configuration: training is not the experiment's"


@pytest.mark.parametrize(
    "place", ["task: {evil}\n", "components: {{decoder: '{evil}'}}\n", "tasks: {{one: {{task: '{evil}'}}}}\n"]
)
def test_code_that_a_runs_configuration_names_is_refused_and_never_runs_in_the_grader(handed_in, tmp_path, place):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nTask = None\n")
    file, line = handed_in / "runs" / "one" / "config.yaml", place.format(evil=tmp_path / "evil.py:Task")
    key = line.partition(":")[0]
    file.write_text(re.sub(rf"(?m)^{key}:.*\n(?:[ -].*\n)*", line, file.read_text()))
    assert verified(handed_in)["one"].problem == f"configuration: {key} is not the experiment's"
    assert not (tmp_path / "ran").exists()


def test_a_configuration_put_beside_a_search_is_never_read(handed_in, tmp_path, rewrite):
    again = handed_in / "runs" / "again"
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nTask = None\n")
    (again / "config.yaml").write_text(f"format: 1\ntask: {tmp_path / 'evil.py:Task'}\n")
    rewrite(again / "lab.json", figures={**json.loads((again / "lab.json").read_text())["figures"], "forced": 99.0})
    assert not verified(handed_in)["again"].problem and not (tmp_path / "ran").exists()


def test_what_another_version_made_is_refused_with_that_reason(handed_in, rewrite):
    rewrite(handed_in / "runs" / "one" / "lab.json", config="0" * 64, suite="0.0.1")
    assert verified(handed_in)["one"].problem.startswith(
        "configuration: it is not the experiment's; version 0.0.1 of the suite made this run"
    )


def test_other_data_are_refused(handed_in, rewrite):
    rewrite(handed_in / "runs" / "one" / "lab.json", data={"train": "0" * 64, "validation": "0" * 64})
    assert verified(handed_in)["one"].problem == "data: its split train is not the experiment's"


def test_edited_metrics_are_refused(handed_in):
    file = handed_in / "runs" / "one" / "metrics.jsonl"
    *rows, last = file.read_text().splitlines()
    file.write_text("\n".join([*rows, json.dumps({**json.loads(last), "bleu": 99.0})]) + "\n")
    assert verified(handed_in)["one"].problem.startswith("metrics: ")


def test_an_edited_figure_is_refused(handed_in, rewrite):
    record = json.loads((handed_in / "runs" / "one" / "lab.json").read_text())
    rewrite(handed_in / "runs" / "one" / "lab.json", figures={**record["figures"], "bleu": 77.0})
    assert verified(handed_in)["one"].problem.startswith("figures: bleu 77.00 is claimed, its predictions have")


def test_right_answers_in_the_place_of_predictions_are_refused(handed_in, rewrite):
    file = handed_in / "runs" / "one" / "predictions" / "validation.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**row, "prediction": row["reference"]}) + "\n" for row in rows))
    record = json.loads((handed_in / "runs" / "one" / "lab.json").read_text())
    rewrite(handed_in / "runs" / "one" / "lab.json", figures={**record["figures"], "bleu": 100.0})
    assert verified(handed_in)["one"].problem.startswith("weights: they write")


def test_the_weights_of_somebody_else_are_refused(handed_in, begun):
    other = begun("eve")
    run(other, ["one"], lambda line: None)
    place = handed_in / "runs" / "one" / "checkpoints"
    shutil.rmtree(place)
    shutil.copytree(other / "runs" / "one" / "checkpoints", place, symlinks=True)
    assert verified(handed_in)["one"].problem.startswith(("weights: they write", "figures: forced"))


def test_other_code_than_that_of_the_run_is_refused(handed_in):
    (handed_in / "masks.py").write_text(
        "import torch\n\ndef causal_mask(length, past=0):\n    return torch.ones(length, past + length) > 0\n"
    )
    (handed_in / "attend.py").unlink()
    assert verified(handed_in)["one"].problem.startswith("replay: the first 20 losses")


def test_code_that_fails_is_named_and_costs_its_own_run(handed_in):
    (handed_in / "greedy.py").write_text("def greedy(step, state, begin, end, limit):\n    return []\n")
    found = verified(handed_in)
    assert not found["one"].problem and found["again"].problem.startswith("replay: with greedy plugged in")


def test_what_is_not_run_costs_its_points_and_those_of_its_questions(handed_in, honest):
    runs = {**honest, "again": verifying.Run(None, "not run")}
    found = {row.question: row for row in answers.grade(handed_in, 7, check=lambda *_: runs)}
    assert (found["runs.one"].points, found["runs.again"].points) == (5.0, 0.0)
    assert found["runs.again"].verdict == "not run" and "a run is refused (again: not run)" in found["alike"].verdict


def test_a_language_models_figure_is_computed_again_from_its_weights(begun, experiments, rewrite):
    file = experiments / "tiny.yaml"
    text = file.read_text()
    base = {
        "task": "language_model",
        "language_model": {"vocabulary_size": 80},
        "backbone": {"decoder_layers": 1, "width": 16, "num_heads": 2, "feed_forward_width": 16},
    }
    settings = {**COMMON, "data.path": "miniworld", "data.size": 60, "training.max_updates": 20}
    file.write_text(yaml.safe_dump({"base": base, "settings": settings, "runs": {"one": {}}}, sort_keys=False))
    try:
        folder = begun("lea")
        run(folder, say=lambda line: None)
        found = verified(folder)["one"]
        assert not found.problem and "bits_per_character" in found.says and found.expected
        record = folder / "runs" / "one" / "lab.json"
        rewrite(record, figures={"bits_per_character": 0.1})
        assert verified(folder)["one"].problem.startswith("figures: bits_per_character 0.10 is claimed, the weights")
    finally:
        file.write_text(text)


@pytest.fixture
def own_task(begun, experiments):
    """Makes the folder of a student who has run a task of his own."""

    def make():
        (experiments / "structures.yaml").write_text(
            yaml.safe_dump(
                {
                    "base": {"task": f"{task.__file__}:OwnTask"},
                    "plug": list(PART.functions),
                    "points": 10,
                    "settings": {
                        **COMMON,
                        "backbone.width": 32,
                        "backbone.feed_forward_width": 32,
                        "backbone.num_heads": 2,
                        "backbone.encoder_layers": 1,
                        "backbone.decoder_layers": 1,
                        "training.max_updates": 40,
                        "training.learning_rate": 1e-2,
                        "training.warmup_updates": 5,
                    },
                    "runs": {"own": {}},
                }
            )
        )
        folder = begun("ida")
        (folder / "lab.yaml").write_text("assignment: structures\nstudent: ida\n")
        (folder / "task.py").write_text(STRUCTURES.text("task").replace("< 300", "< 60"))
        run(folder, say=lambda line: None)
        return folder

    yield make
    (experiments / "structures.yaml").unlink()


def test_a_task_of_ones_own_is_answered_by_the_weights_alone_on_rows_that_no_run_has_seen(own_task, rewrite):
    folder = own_task()
    found = verified(folder)["own"]
    assert not found.problem and "fresh sentences" in found.says and found.share == 1.0
    record = folder / "runs" / "own" / "lab.json"
    figures = json.loads(record.read_text())["figures"]
    rewrite(record, figures={**figures, "score": 99.0})
    assert verified(folder)["own"].problem.startswith("figures: score 99.00 is claimed, the weights have")
    rewrite(record, figures=figures)


def test_sounds_are_handed_over_as_files_without_a_word_of_what_is_said_in_them(tmp_path, few):
    config = config_of(
        {
            **TINY,
            "task": "asr",
            "strategy.kind": "ctc",
            "audio.bins": 20,
            "data.max_length": 1500,
            "search.max_length_factor": 0.4,
            "audio.cache": str(tmp_path / "features"),
        }
    )
    speech = open_task("asr", config)
    fresh = unseen.drawn(speech, 3)
    assert len(fresh) == 10 and len({one.reference for one in fresh}) == 10
    assert [one.reference for one in fresh] != [one.reference for one in unseen.drawn(speech, 4)]
    files = unseen.inputs(speech, fresh, tmp_path / "in")
    for file, one in zip(files, fresh, strict=True):
        of_file, said = speech.source.features_of([speech.from_text(file).source, one.source])
        assert np.array_equal(np.asarray(of_file), np.asarray(said))
        assert re.fullmatch(r"\d+\.wav", Path(file).name) and one.reference.encode() not in Path(file).read_bytes()


def test_each_answer_is_computed_again(handed_in, honest):
    figure = json.loads((handed_in / "runs" / "one" / "lab.json").read_text())["figures"]["bleu"]
    for text, points in (
        (f"figure: {figure:.2f}\nalike: 100\nwhich: Dot  Product\nwhy: since\n", [3, 2, 1, 0]),
        (f"figure: {figure + 0.1:.2f}\nalike: all\nwhich:\n", [0, 0, 0, 0]),
        ("", [0, 0, 0, 0]),
        ("figure: [", [0, 0, 0, 0]),
        ("- 3", [0, 0, 0, 0]),
    ):
        (handed_in / "answers.yaml").write_text(text)
        found = answers.grade(handed_in, 7, check=lambda *_: honest)
        assert [row.points for row in found if not row.question.startswith("runs.")] == points
    assert found[-1].verdict.startswith("manual")


@pytest.mark.parametrize(
    "expression",
    [
        "open('x')",
        "one.__class__",
        "().__class__",
        "lambda: 1",
        "one.bleu if x else 2",
        "two.bleu",
        "one.rouge",
        "[x for x in (1,)]",
        "1 +",
        "a := 1",
        "f'{one}'",
    ],
)
def test_an_expression_may_hold_little(finished, expression):
    with pytest.raises(ValueError, match=r"not there, or not allowed|no expression"):
        answers.evaluate(expression, {"one": answers.Measured("one", finished[0], {"bleu": 1.0})})


def test_functions_of_expressions():
    assert answers.evaluate("round(row_entropy(64, scaled=1 > 0) - 3, 1)", {}) == 0.0
    assert answers.evaluate("gradient_at([20, 0, 0], 1, 'cross_entropy')", {}) == pytest.approx(1.0)
    assert answers.evaluate("gradient_at([20, 0, 0], 1, 'squared_error')", {}) < 1e-7


def test_trees_are_scored_from_lines_of_which_some_are_none():
    config = config_file.from_mapping({"task": "parsing"}, ["data.size=4"])
    task = open_task("parsing", config)
    examples = task.read("validation")[:3]
    texts = [task.to_text(example.reference) for example in examples]
    for written in (texts, [unseen.without_tags(text) for text in texts]):
        assert unseen.scored(task, written, examples).figures["f1"] == 100.0
    assert 0.0 < unseen.scored(task, [*texts[:2], task.to_text(None)], examples).figures["f1"] < 100.0


def scored(right, of):
    return Score({"exact_match": 100 * right / of}, "", counts=((1.0, 1.0),) * right + ((0.0, 1.0),) * (of - right))


@pytest.mark.parametrize(
    ("own", "fresh", "honest"),
    [
        ((250, 500), (100, 200), True),
        ((240, 500), (110, 200), True),
        ((39, 40), (200, 200), True),
        ((60, 60), (198, 200), True),
        ((24, 60), (100, 200), True),
        ((350, 500), (100, 200), False),
        ((150, 500), (100, 200), False),
        ((60, 60), (160, 200), False),
        ((500, 500), (180, 200), False),
    ],
)
def test_a_figure_that_chance_explains_is_accepted_and_no_other(own, fresh, honest):
    exact = SimpleNamespace(primary_metric="exact_match")
    found = verifying._on_fresh(exact, None, scored(*own), scored(*fresh))
    assert (not found.problem) == honest
    low, high = map(float, found.expected.split(" to "))
    assert low < 100 * fresh[0] / fresh[1] < high and found.got == f"{100 * own[0] / own[1]:.2f}"


@pytest.mark.parametrize(
    ("answer", "expected", "within", "right"),
    [
        ("3.05", 3.0, 0.05, True),
        ("3.06", 3.0, 0.05, False),
        ("2.94", 3.0, 0.05, False),
        ("3", 3, 0, True),
        ("x", 3.0, 9, False),
        ("nan", 3.0, 9, False),
        (["3"], 3.0, 9, False),
        ({"yes": ""}, "yes", 0, False),
        (None, 3.0, 9, False),
        ("true", "yes", 0, True),
        ("No", "yes", 0, False),
        ("off", "no", 0, True),
        ("Dot  product ", "dot product", 0, True),
        ("dot", "dot product", 0, False),
        ("13", 13.0, 0, True),
    ],
)
def test_an_answer_is_right_within_what_the_question_allows(answer, expected, within, right):
    assert answers._fits(answer, expected, within) is right


@pytest.mark.parametrize(
    ("calls", "own", "mine", "share"),
    [
        ({"attend": 3, "heads": 1}, [1.0, 2.0], ("attend", "heads"), 1.0),
        ({"attend": 3, "heads": 1}, [1.0, 2.0], ("attend",), 0.5),
        ({"attend": 3, "heads": 1}, [1.0, 2.0], (), 0.0),
        ({"attend": 3, "heads": 0}, [1.0, 2.0], ("attend", "heads"), 0.5),
        ({"attend": 3, "heads": 1}, [1.0, 9.0], ("attend", "heads"), 0.5),
        ({"attend": 3}, [1.0, 9.0], ("attend", "heads"), 0.25),
    ],
)
def test_a_runs_points_are_for_what_is_the_students_and_half_of_them_where_it_is_wrong(
    calls, own, mine, share, monkeypatch
):
    monkeypatch.setattr(verifying, "first_losses", lambda config: own)
    plan = SimpleNamespace(plug=("attend", "heads"), alike=True, source="", config=None)
    found = verifying._shared(verifying.Run(None), plan, mine, {"calls": calls, "losses": [1.0, 2.0]})
    assert found.share == share


@pytest.mark.parametrize(("mine", "share"), [((), 0.0), (("helper",), 0.0), (("attend",), 1.0)])
def test_a_run_of_the_suites_code_alone_earns_nothing_where_no_function_is_written(mine, share):
    found = verifying._shared(verifying.Run(None), SimpleNamespace(plug=()), mine, {"calls": {}})
    assert found.share == share
