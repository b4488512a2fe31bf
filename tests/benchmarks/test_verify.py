"""Each figure of the front pages has a row with a command; a rerun outside the range is noticed."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from small_run import in_forks, small_config, start, write_trees

from benchmarks import verify
from seq2seq_suite.config import config_file

ROOT = Path(__file__).parents[2]
FIGURES = verify.read_figures(verify.FIGURES)
PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "benchmarks/README.md")}
RESULTS = ("figure on test", "without learning", "at best", "result", "for comparison")
NUMBER = re.compile(r"(?<![\w.=-])\d+(?:\.\d+)?(?!\w)(?!\.\d)")
YEAR = re.compile(r"(19|20)\d\d")


def cells(page: str) -> dict[str, list[str]]:
    """First cell of each row -> its cells of results and comparisons, without code and links' targets."""
    rows, wanted = {}, []
    for line in PAGES[page].splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            wanted = []
        elif places := [place for place, name in enumerate(row) if name in RESULTS]:
            wanted = places
        elif wanted and not set(line) <= set("|- "):
            rows[row[0].replace("`", "")] = [re.sub(r"`[^`]*`|\]\([^)]*\)", "", row[place]) for place in wanted]
    return rows


def numbers(figure: verify.Figure) -> list[float]:
    return [figure.value, *(figure.interval or ()), *figure.each, *figure.counts]


def has(figure: verify.Figure, number: str) -> bool:
    """Whether the figure, rounded, is this number."""
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return any(abs(float(number) - one) <= half + 1e-9 for one in numbers(figure))


def spans(text: str, words: str) -> list[re.Match]:
    return list(re.finditer(r"(?<![\d.])" + re.escape(words) + r"(?!\d)(?!\.\d)", text))


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_the_tables_has_a_row(page):
    rows = cells(page)
    assert len(rows) >= 10
    without = []
    for first, texts in rows.items():
        quotes = [
            (figure, words)
            for figure in FIGURES.figures.values()
            for at, row, words in figure.quoted()
            if at == page and row and first.startswith(row)
        ]
        for text in texts:
            for number in NUMBER.finditer(text):
                covered = any(
                    span.start() <= number.start() and number.end() <= span.end() and has(figure, number[0])
                    for figure, words in quotes
                    for span in spans(text, words)
                )
                if not covered and not YEAR.fullmatch(number[0]):
                    without.append(f"{first}: {number[0]} in {text!r}")
    assert not without, without


@pytest.mark.parametrize("name", FIGURES.figures)
def test_every_quote_is_on_its_page(name):
    figure = FIGURES.figures[name]
    for page, row, words in figure.quoted():
        texts = [" ".join(PAGES[page].split())]
        if row:
            texts = [text for first, found in cells(page).items() if first.startswith(row) for text in found]
        found = [span[0] for text in texts for span in spans(text, words)]
        assert found, (page, row, words)
        around = [number for text in texts for span in spans(text, words) for number in NUMBER.findall(span[0] + " ")]
        assert any(has(figure, number) for number in around), (words, around)


def test_a_figure_that_was_added_or_changed_without_its_row_is_noticed(monkeypatch):
    _, _, old = next(FIGURES.figures["parsing-f1"].quoted())
    for new in (re.sub(r"[\d.]+ ", "12.3 ", old, count=1), f"{old}, 12.3 in French"):
        page = PAGES["README.md"].replace(old, new)
        assert page != PAGES["README.md"]
        monkeypatch.setitem(PAGES, "README.md", page)
        with pytest.raises(AssertionError):
            test_every_number_of_the_tables_has_a_row("README.md")
        monkeypatch.undo()


def test_commits_are_in_the_history():
    def git(*words: str, given: str = "") -> SimpleNamespace:
        return subprocess.run(["git", *words], cwd=ROOT, input=given, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no whole git history here")
    found = git("cat-file", "--batch-check", given="\n".join(one.commit for one in FIGURES.commands.values())).stdout
    assert found and not [line for line in found.splitlines() if " commit " not in line]


@pytest.mark.parametrize("name", FIGURES.commands)
def test_every_command_has_a_preset_and_keys_that_exist(name, tmp_path):
    runs = verify.Runs(tmp_path, FIGURES)
    words = runs.words(name, FIGURES.commands[name].seeds[0])
    program, *rest = words
    assert "{" not in " ".join(rest).replace("qa.repeats={}", "")
    if program == "seq2seq_suite" and rest[0] == "run":
        keys = [word for word in rest[2:] if "=" in word and not word.startswith("init_from=")]
        config_file.load(ROOT / rest[1], keys)
    else:
        assert (program, rest[0]) == ("seq2seq_suite", "evaluate") or (
            ROOT / f"{program.replace('.', '/')}.py"
        ).is_file()
    assert all((ROOT / word).is_file() for word in words if word.startswith("tasks/"))


def test_every_figure_that_is_read_from_a_summary_has_a_metric_that_exists_and_a_split_of_its_run(tmp_path):
    runs = verify.Runs(tmp_path, FIGURES)
    metrics = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "seq2seq_suite/metrics").glob("*.py"))
    for name, figure in FIGURES.figures.items():
        words = runs.words(figure.command, 1) if figure.command else []
        if words and "(" not in figure.read:
            split, metric = figure.read.removeprefix("100 - ").split(".")
            if split in verify.BETWEEN:
                split, metric = metric, "f1"
            assert f'"{metric}"' in metrics, name
            known = config_file.load(ROOT / words[2]).data.test_splits if words[1] == "run" else ["test"]
            assert split in {*known, "validation"}, name


@pytest.mark.parametrize("sample", [1, 2, 3])
def test_a_sample_fits_into_the_minutes_and_counts_what_it_leaves_out(sample, monkeypatch):
    monkeypatch.setattr(verify, "lacking", lambda commands: "")
    seeds, left = verify.choose(FIGURES, (), 20.0, sample)
    commands = {one for name in seeds for one in FIGURES.line_of_runs(FIGURES.figures[name].command)}
    assert 10.0 < sum(FIGURES.commands[one].minutes for one in commands) <= 20.0
    assert len(seeds) + left.total() == len(FIGURES.figures) and left["that do not fit into the minutes"] > 20
    assert all(seed in FIGURES.commands[FIGURES.figures[name].command].seeds for name, seed in seeds.items())
    assert (seeds, left) == verify.choose(FIGURES, (), 20.0, sample)
    assert verify.choose(FIGURES, (), 20.0, sample + 10)[0] != seeds
    shared = ("speech-translation", "asr-wer", "asr-wer-baseline")  # the first begins from the run of the others
    minutes = FIGURES.commands["speech_translation"].minutes + FIGURES.commands["asr"].minutes
    assert set(verify.choose(FIGURES, shared, minutes, sample)[0]) == set(shared)
    assert "speech-translation" not in verify.choose(FIGURES, shared, minutes - 0.1, sample)[0]


def test_the_tolerance_of_three_seeds_is_the_prediction_interval_of_one_more():
    """Student's t of 2 degrees of freedom at 97.5 %: 4.3027."""
    seeds = [96.22, 95.81, 96.74]  # embedded.md; mean 96.26, 95 % interval 95.11 to 97.41
    mean = sum(seeds) / 3
    deviation = (sum((one - mean) ** 2 for one in seeds) / 2) ** 0.5
    expected = 4.3027 * deviation * (1 + 1 / 3) ** 0.5
    assert FIGURES.figures["parsing-f1"].margin == pytest.approx(expected, abs=0.02)
    row = {"metric": "", "value": mean, "quotes": ["a | b"], "source": "x", "tolerance": "seeds"}
    assert verify.Figure(**row, deviation=deviation).margin == pytest.approx(expected, rel=1e-3)


def write_figures(folder: Path, recall: float) -> Path:
    """A file of four figures of one small run, one of them wrong, and one of another run that takes hours."""
    config = small_config(folder / "trees", max_updates=30, learning_rate=1e-2)
    (folder / "small.yaml").write_text(config_file.dump(config), encoding="utf-8")
    row = {"command": "small", "metric": "test", "quotes": ["README.md | 1"], "value": round(recall, 2)}
    figures = {
        "same": {**row, "read": "test.recall"},
        "complement": {**row, "read": "100 - test.recall", "value": round(100 - recall, 2)},
        "printed": {**row, "read": r"^recall +([\d.]+)"},
        "other": {**row, "read": "test.recall", "value": round(recall, 2) + 3.0, "tolerance": 2.9, "why": "one seed"},
        "slow": {**row, "command": "slow", "read": "test.recall"},
    }
    command = f"seq2seq_suite run {shlex.quote(str(folder / 'small.yaml'))}"
    commands = {
        name: {"command": command, "minutes": minutes, "seeds": [config.seed], "commit": "0"}
        for name, minutes in (("small", 0.1), ("slow", 300))
    }
    file = folder / "figures.yaml"
    file.write_text(yaml.safe_dump({"commands": commands, "figures": figures}), encoding="utf-8")
    return file


def rows_of(out: str) -> dict[str, list[str]]:
    return {
        row[0]: row[1:]
        for row in (
            [cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("| ")
        )
    }


@pytest.mark.slow
def test_a_rerun_is_within_or_outside_and_is_kept(tmp_path, monkeypatch, capfd):
    config = small_config(write_trees(tmp_path / "trees"), max_updates=30, learning_rate=1e-2)
    recall = start(config, tmp_path / "first")["splits"]["test"]["recall"]
    assert recall > 0.0
    small = write_figures(tmp_path, recall)
    monkeypatch.setattr(verify, "subprocess", in_forks(tmp_path))
    command = ["--figures", str(small), "--output", str(tmp_path / "kept"), "--minutes", "5"]
    assert verify.main(command) == 1
    out = capfd.readouterr().out
    rows = rows_of(out)
    assert {name: row[3] for name, row in rows.items() if row[3] in ("yes", "NO")} == {
        "same": "yes",
        "complement": "yes",
        "printed": "yes",
        "other": "NO",
    }
    assert "3 of 4 figures within their tolerance; 1 left out, 1 that do not fit into the minutes" in out

    monkeypatch.setattr(verify, "subprocess", SimpleNamespace(run=None))  # nothing may be started
    (tmp_path / "kept/small-1/summary.json").write_text('{"splits": {}}')  # as a later evaluation of the run may
    assert verify.main([*command, "--only", "same", "complement"]) == 0
    assert all(
        row[-1].startswith("kept, ")
        for name, row in rows_of(capfd.readouterr().out).items()
        if name in ("same", "complement")
    )


@pytest.mark.slow
def test_a_run_that_was_stopped_is_resumed_and_one_that_fails_is_said(tmp_path, monkeypatch, capfd):
    small, started = write_figures(tmp_path, 50.0), []

    def fail(words: list[str], **others: object) -> SimpleNamespace:
        started.append(words)
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(verify, "subprocess", SimpleNamespace(run=fail))
    (tmp_path / "kept/small-1/checkpoints").mkdir(parents=True)
    command = ["--figures", str(small), "--output", str(tmp_path / "kept"), "--only", "same", "other"]
    assert verify.main(command) == 1
    assert len(started) == 1 and started[0][-1] == "--resume" and (tmp_path / "kept/small-1/checkpoints").is_dir()
    assert rows_of(capfd.readouterr().out)["same"][3] == "failed, see small-1.txt"


def test_mistakes_end_in_one_line_and_exit_code_2(tmp_path, capsys):
    small = write_figures(tmp_path, 50.0)

    def says(*words: str) -> str:
        assert verify.main(["--figures", str(small), *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "no figure is named parsing-f2" in says("--only", "same", "parsing-f2")
    assert "--minutes: got -1" in says("--minutes", "-1")
    assert "nothing to rerun: 1 left out, 1 that do not fit" in says("--only", "slow", "--minutes", "20")
    rows = yaml.safe_load(small.read_text())
    rows["figures"]["same"]["tolerence"] = 1
    small.write_text(yaml.safe_dump(rows))
    assert "figures.same.tolerence" in says("--list")
    for pattern, what in (("(a", "unterminated"), ("(a)(b)", "2 groups, expected one")):
        rows["figures"]["same"] = {**rows["figures"]["other"], "read": pattern}
        small.write_text(yaml.safe_dump(rows))
        assert what in says("--list")
    rows["figures"]["same"] = {**rows["figures"]["other"], "command": "nothing"}
    small.write_text(yaml.safe_dump(rows))
    assert "figures.same: no command is named nothing" in says("--list")
    small.write_text("figures: [")
    assert str(small) in says("--list")
    small.unlink()
    assert "No such file" in says("--list")


def test_an_evaluation_is_read_from_what_it_printed(tmp_path):
    runs = verify.Runs(tmp_path, FIGURES)
    shown = json.dumps({"splits": {"test": {"wer": 3.5}}}, indent=1)
    runs.place("an4-letters", 1, ".txt").write_text(f"reading {{it}}\n{shown}\nthe end", encoding="utf-8")
    assert runs.read(FIGURES.figures["an4-letters-wer"], 1) == 3.5
    assert runs.read(FIGURES.figures["an4-letters-cer"], 1) is None
