"""`predict` at a prompt, over long files, with beginnings and thresholds, and with several runs together."""

import json
import os
import pty
from itertools import count
from pathlib import Path

import pytest
from serving import train

import seq2seq_suite as s2s
from benchmarks.faults import commands
from seq2seq_suite.api import read_config
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.prediction import load_run as opening


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    found = {f"translation-{seed}": train(folder / f"t{seed}", task="translation", seed=seed) for seed in (1, 2)}
    found["parallel"] = train(folder / "parallel", task="translation", strategy={"kind": "ctc"})
    found["qa"] = train(folder / "qa", task="qa")
    found["detection"] = train(folder / "detection", task="detection", strategy={"kind": "slots"})
    return found


@pytest.fixture(scope="module")
def other_symbols(tmp_path_factory):
    return train(tmp_path_factory.mktemp("other") / "run", task="translation", translation={"vocabulary_size": 100})


def wrong(capsys, *arguments):
    assert cli.main(list(map(str, arguments))) == 2
    return capsys.readouterr().err


def test_a_terminal_asks_for_inputs_until_an_empty_line(runs, tmp_path):
    ours, theirs = pty.openpty()
    process = commands.start(
        cli.main, ["predict", str(runs["qa"])], tmp_path, limit=60.0, first=lambda: os.dup2(theirs, 0)
    )
    os.close(theirs)
    os.write(ours, b"Where is zyxw ? ||| Mary went home .\nno question\n\n")
    ended = process.wait()
    os.close(ours)
    assert ended.code == 0 and "Traceback" not in ended.err
    assert "Type an input and press Enter" in ended.err and "not in the training data: " in ended.err
    assert "input" in ended.err.split("zyxw")[1]  # what is no question is said, and it asks again
    expected = s2s.load(runs["qa"]).predict(["Where is zyxw ? ||| Mary went home ."])[0].text
    assert ended.out == f"{expected}\n"  # no prompt among the outputs


def test_unknown_words_are_said_once_and_outputs_stay_clean(runs, capsys):
    assert cli.main(["predict", str(runs["qa"]), *["Where is zyxw ? ||| Mary went to the qqq ."] * 2]) == 0
    found = capsys.readouterr()
    assert cli.main(["predict", str(runs["qa"]), "Who ? ||| " + "x" * 6000]) == 0
    assert max(map(len, capsys.readouterr().err.splitlines())) < 200
    assert found.err.count("zyxw") == 1 and "qqq" in found.err and "zyxw" not in found.out
    assert len(found.out.splitlines()) == 2


def test_a_file_is_read_as_it_is_predicted(runs, monkeypatch):
    """Of an endless input no more than a window is held."""
    monkeypatch.setattr(opening, "_WINDOW", 1)
    run = s2s.load(runs["translation-1"], settings=["search.batch_sentences=3"])
    read = []

    def endless():
        for number in count():
            read.append(number)
            yield "the cat sleeps ." if number % 2 else "a dog ."

    found = run.predictions(endless())
    first = [next(found)[0].text for _ in range(7)]
    assert len(read) == 9 and first == [first[0], first[1]] * 3 + [first[0]]
    assert first[:2] == [one.text for one in run.predict(["a dog .", "the cat sleeps ."])]


def test_what_stands_before_a_mistake_in_a_pipe_is_predicted(runs):
    run = s2s.load(runs["translation-1"])
    found = run.predictions(["the cat sleeps .", "a dog .", " ", "a cat ."])
    assert len([next(found), next(found)]) == 2
    with pytest.raises(DataError, match="inputs:3: the input is empty"):
        next(found)


def test_a_mistake_in_the_last_line_of_a_file_is_found_before_anything_is_predicted(runs, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("where ? ||| here .\n" * 9 + "no question\n")
    assert "in.txt:10: " in wrong(capsys, "predict", runs["qa"], "--input", tmp_path / "in.txt")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_output_begins_as_the_second_column_says(runs, capsys, tmp_path, beam_size):
    (tmp_path / "in.tsv").write_text("The cat sleeps .\tein Hund\nThe cat sleeps .\nThe cat sleeps .\t\n")
    assert (
        cli.main(
            [
                "predict",
                str(runs["translation-1"]),
                "--input",
                str(tmp_path / "in.tsv"),
                "--begin",
                f"search.beam_size={beam_size}",
            ]
        )
        == 0
    )
    begun, free, also = capsys.readouterr().out.splitlines()
    assert begun.startswith("ein Hund") and free == also
    assert (
        free
        == s2s.load(runs["translation-1"], settings=[f"search.beam_size={beam_size}"])
        .predict(["The cat sleeps ."])[0]
        .text
    )


@pytest.mark.parametrize("run", ["translation-1", "parallel"])
def test_a_beginning_that_cannot_be_written_is_refused_with_its_line(runs, capsys, tmp_path, run):
    (tmp_path / "in.tsv").write_text("The cat sleeps .\tein\nThe cat sleeps .\t\u0416\u0416 Hund\n")
    said = wrong(capsys, "predict", runs[run], "--input", tmp_path / "in.tsv", "--begin")
    if run == "parallel":
        assert "writes all symbols in parallel" in said
    else:
        assert "in.tsv:2: the beginning of an output has what the run cannot write: \u0416\u0416\n" in said


@pytest.mark.parametrize("text", ["a dog .\n\n \na cat .\n\n", "\na dog .\na cat .", "a dog .\n\na cat .\n"])
@pytest.mark.parametrize("n_best", [1, 2])
def test_a_blank_input_has_a_blank_output(runs, capsys, tmp_path, text, n_best):
    (tmp_path / "in.txt").write_text(text)
    command = [
        "predict",
        str(runs["translation-1"]),
        "--input",
        str(tmp_path / "in.txt"),
        "--n-best",
        str(n_best),
        f"search.beam_size={n_best}",
    ]
    assert cli.main(command) == 0
    found = capsys.readouterr()
    lines, inputs = found.out.split("\n")[:-1], text.removesuffix("\n").split("\n")
    assert [bool(line) for line in lines] == [bool(line.strip()) for line in inputs for _ in range(n_best)]
    blank = [str(number) for number, line in enumerate(inputs, 1) if not line.strip()]
    assert f"blank inputs have blank outputs: line {', '.join(blank)}\n" in found.err


def test_blank_rows_are_blank_outputs_and_blank_files_are_refused(runs, capsys, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"source": "a dog ."}\n\n{"source": " "}\n{"source": "a cat ."}\n')
    assert cli.main(["predict", str(runs["translation-1"]), "--input", str(tmp_path / "in.jsonl")]) == 0
    assert [bool(line) for line in capsys.readouterr().out.splitlines()] == [True, False, False, True]
    (tmp_path / "in.txt").write_text("\n\n")
    assert "the input is empty" in wrong(capsys, "predict", runs["translation-1"], "--input", tmp_path / "in.txt")
    assert "the input is empty" in wrong(capsys, "predict", runs["translation-1"], " ")


@pytest.mark.parametrize(
    ("run", "text"), [("translation-1", "The cat sleeps ."), ("qa", "Where is Mary ? ||| Mary went home .")]
)
def test_a_string_is_one_input(runs, run, text):
    opened = s2s.load(runs[run])
    assert opened.predict(text) == opened.predict([text]) and len(opened.predict(text)) == 1
    assert opened.predict(opened.example(text)) == opened.predict([text])
    for inputs in ({"question": "Where ?", "context": "Here ."}, [{"source": text}], [7]):
        with pytest.raises(DataError, match="inputs:1: the input is ") as caught:
            opened.predict(inputs)
        assert "a sentence or 'question ||| context'" in caught.value.expected
    picture = runs["detection"].with_name("data-detection") / "square.png"
    assert s2s.load(runs["detection"]).predict(picture) == s2s.load(runs["detection"]).predict([str(picture)])


def test_a_least_length_beyond_the_limit_is_refused(runs, capsys):
    limits = ["search.max_length_factor=0.1", "search.max_length_extra=6"]
    said = wrong(capsys, "predict", runs["translation-1"], "The cat .", "search.min_length=6", *limits)
    assert "search.min_length 6, but the output of the shortest source may have 5 symbols" in said
    assert cli.main(["predict", str(runs["translation-1"]), "The cat .", "search.min_length=5", *limits]) == 0
    config = {"task": "translation", "search": {"min_length": 300}, "data": {"size": 40}}
    with pytest.raises(ConfigError, match="the shortest source"):  # before anything is trained
        s2s.train(config, output=runs["qa"].with_name("never"), settings={"training.max_updates": 9})
    capsys.readouterr()


def test_rows_of_json_give_sources_and_beginnings(runs, capsys, tmp_path):
    rows = [{"source": "The cat sleeps .", "begin": "ein Hund", "reference": "-"}, {"source": "The cat sleeps ."}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main(["predict", str(runs["translation-1"]), "--input", str(tmp_path / "in.jsonl")]) == 0
    begun, free = capsys.readouterr().out.splitlines()
    run = s2s.load(runs["translation-1"])
    assert begun.startswith("ein Hund") and free == run.predict(["The cat sleeps ."])[0].text
    predictions = runs["translation-1"] / "predictions" / "test.jsonl"
    assert cli.main(["predict", str(runs["translation-1"]), "--input", str(predictions)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        json.loads(line)["prediction"] for line in predictions.read_text().splitlines()
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"}', "no text in source\n  expected: {"),
        ('{"source": "a", "begin": 3}', "no text in begin"),
        ("[1]", "no text in source"),
        ("The cat", "invalid JSON at column 1"),
    ],
)
def test_a_broken_row_of_inputs_is_named_with_its_line(runs, capsys, tmp_path, line, message):
    (tmp_path / "in.jsonl").write_text('{"source": "a cat"}\n' + line + "\n")
    said = wrong(capsys, "predict", runs["translation-1"], "--input", tmp_path / "in.jsonl")
    assert said.startswith(f"{tmp_path}/in.jsonl:2: {message}")


@pytest.mark.parametrize("text", ["runs/missing", "runs/missing/", "{folder}/t3", "{folder}", "und/他", "none/a.wav"])
def test_a_mistyped_run_is_no_input(runs, capsys, monkeypatch, text):
    monkeypatch.chdir(runs["qa"].parent)
    Path("und").mkdir(exist_ok=True)
    text = text.format(folder=runs["qa"].parent)
    said = wrong(capsys, "predict", runs["translation-1"], text, "The cat sleeps .")
    assert said.startswith(f"command line: {text} is neither a run nor a file")
    assert ("did you mean" in said) == text.endswith("/t3")


def test_a_run_is_mistyped_without_its_folder_too(runs, capsys, monkeypatch):
    monkeypatch.chdir(runs["qa"].parent)
    said = wrong(capsys, "predict", "t1", "paralel", "The cat .")
    assert "paralel is neither a run nor a file, did you mean parallel?\n  expected: runs, then inputs" in said
    assert cli.main(["predict", "t1", "cats", "他/她", "a / b", str(runs["qa"] / "summary.json")]) == 0


def test_a_beginning_is_refused_where_there_is_no_left_to_right_or_no_free_text(runs):
    with pytest.raises(ConfigError, match=r"strategy\.kind ctc writes all symbols in parallel"):
        s2s.load(runs["parallel"]).example("a", begin="b")
    with pytest.raises(DataError, match="the beginning of an output"):
        s2s.load(runs["detection"]).task.target.beginning("x", {})


def test_a_run_with_itself_predicts_as_it_does_alone(runs):
    texts = ["The cat sleeps .", "The dogs see a bird ."]
    alone, together = s2s.load(runs["translation-1"]), s2s.load(runs["translation-1"], runs["translation-1"])
    for settings in ((), ("search.beam_size=3",)):
        one, two = (run.predict(texts, settings=settings) for run in (alone, together))
        assert [found.text for found in one] == [found.text for found in two]
        assert [found.score for found in one] == pytest.approx([found.score for found in two], rel=1e-4)


def test_several_runs_predict_and_evaluate_together(runs, capsys):
    first, second = runs["translation-1"], runs["translation-2"]
    assert cli.main(["predict", str(first), str(second), "The cat sleeps ."]) == 0
    together = capsys.readouterr().out.strip()
    assert together == s2s.load(first, second).predict(["The cat sleeps ."])[0].text
    kept = (first / "predictions" / "test.jsonl").read_bytes()
    assert cli.main(["evaluate", str(first), str(second), "--json"]) == 0
    name = f"test-with-{second.name}"
    assert json.loads(capsys.readouterr().out)["splits"][name]["bleu"] >= 0
    assert (first / "predictions" / f"{name}.jsonl").is_file()
    assert (first / "predictions" / "test.jsonl").read_bytes() == kept


def test_notes_on_the_data_are_no_part_of_the_json(runs, tmp_path, capsys):
    rows = [{"question": asked, "context": "Tom sat.", "answer": "Tom"} for asked in ("Who sat?", "")]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        cli.main(["evaluate", str(runs["qa"]), "--data", str(tmp_path / "more.jsonl"), "data.max_bad_rows=1", "--json"])
        == 0
    )
    said = capsys.readouterr()
    assert [*json.loads(said.out)["splits"]] == ["test-more@data.max_bad_rows=1"] and "more.jsonl:2" in said.err


@pytest.mark.parametrize(("name", "message"), [("parallel", "strategy.kind ctc"), ("qa", "its task is qa")])
def test_runs_that_cannot_be_averaged_are_refused_by_name(runs, capsys, name, message):
    said = wrong(capsys, "predict", runs["translation-1"], runs[name], "The cat sleeps .")
    assert message in said and str(runs[name]) in said


@pytest.mark.parametrize("arguments", [["predict", "The cat sleeps ."], ["evaluate"]])
def test_runs_of_other_symbols_are_refused(runs, other_symbols, capsys, arguments):
    verb, *texts = arguments
    said = wrong(capsys, verb, runs["translation-1"], other_symbols, *texts)
    assert f"{other_symbols}: its vocabulary differs from that of {runs['translation-1']}\n  expected: " in said


def test_objects_below_the_threshold_are_left_out(runs):
    run, picture = s2s.load(runs["detection"]), str(runs["detection"].with_name("data-detection") / "square.png")
    every, usual, half = (run.predict([picture], threshold=least)[0].value for least in (0.0, None, 0.5))
    assert usual == half and len(every.boxes) > 0 and all(score >= 0.5 for score in half.scores)
    middle = sorted(every.scores)[len(every.scores) // 2]
    kept = run.predict([picture], threshold=middle)[0].value
    assert sorted(kept.scores) == sorted(score for score in every.scores if score >= middle)
    assert run.predict([picture])[0].value == usual  # the last call's threshold is not kept


def test_a_threshold_without_probabilities_is_refused(runs, capsys):
    said = wrong(capsys, "predict", runs["translation-1"], "The cat .", "--threshold", "0.3")
    assert "outputs of task translation have no probabilities" in said


def test_keys_of_free_text_are_refused_where_outputs_have_a_form(runs, capsys):
    said = wrong(capsys, "predict", runs["parallel"], "The cat .", "search.no_repeat_ngram=3")
    assert "search.no_repeat_ngram 3 has no effect with strategy.kind ctc" in said
    with pytest.raises(ConfigError, match=r"search\.min_length 3 has no effect with task parsing"):
        read_config({"task": "parsing"}, {"search.min_length": 3})
    assert cli.main(["predict", str(runs["translation-1"]), "The cat .", "search.min_length=4"]) == 0


def test_a_terminal_for_messages_shows_how_far_a_long_file_is(runs, tmp_path):
    (tmp_path / "in.txt").write_text("The cat sleeps .\n" * 40)
    ours, theirs = pty.openpty()
    ended = commands.start(
        cli.main,
        ["predict", str(runs["translation-1"]), "--input", str(tmp_path / "in.txt")],
        tmp_path,
        limit=60.0,
        environment={"TERM": "xterm"},
        first=lambda: os.dup2(theirs, 2),
    ).wait()
    os.close(theirs)
    said = os.read(ours, 65536)
    os.close(ours)
    assert ended.code == 0 and len(ended.out.splitlines()) == 40
    assert b"predicting" in said and b"100%" in said


def test_a_language_models_prompt_has_unknown_words_too(tmp_path, capsys):
    from seq2seq_suite.cli import predict as cli_predict
    from seq2seq_suite.common.examples import Example

    class Task:
        source = None

        def unknown(self, example):
            return [example.source]

    class Opened:
        task = Task()

    reader = cli_predict.Reader(Opened(), rows=False, begin=False)
    for word in ("wug", "wug", "dax"):
        reader.look(Example(word))
    reader.say()
    reader.say()
    assert capsys.readouterr().err == "not in the training data: wug, dax\n"
