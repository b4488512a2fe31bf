"""The verbs `predict` and `evaluate`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from seq2seq_suite.cli.arguments import (
    PROGRAM,
    Inputs,
    check_drawing,
    check_targets,
    in_columns,
    opened,
    refuse_paths,
    runs_and_texts,
    texts_and_overrides,
)
from seq2seq_suite.cli.completion import runs_and_keys, splits
from seq2seq_suite.cli.parameters import Json, OneTask, TrustCode
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError, truncate
from seq2seq_suite.metrics.names import numbered
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.terminal.tables import print_json, print_rows, print_summary

if TYPE_CHECKING:
    from seq2seq_suite.api import Prediction, Run
    from seq2seq_suite.common.examples import Example

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN... [TEXT...]",
        show_default=False,
        autocompletion=runs_and_keys,
        help=(
            "A directory that `run` wrote; several are an ensemble. Then inputs, and changes such as "
            "search.beam_size=4; without inputs, lines are read from standard input."
        ),
    ),
]
_MOST_UNKNOWN = 10  # words named in one line


def predict(
    arguments: Runs,
    source: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="FILE",
            show_default=False,
            help=(
                "A file with an input on each line, or .jsonl with columns source and (optional) begin; - reads "
                "standard input."
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help=("Where to write; by default standard output.")),
    ] = None,
    n_best: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, metavar="N", help=("Print the N best outputs of each input, each as score, tab, output.")
        ),
    ] = 1,
    begin: Annotated[
        bool,
        typer.Option(
            "--begin",
            help=("Each input is followed by a tab and the beginning of its output (free text, autoregressive)."),
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="P",
            show_default=False,
            help=(
                "Drop objects (default 0.5) or labels (default: tuned on validation) below this probability; labels of "
                "runs that score each label."
            ),
        ),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="PICTURE",
            show_default=False,
            help=("Also draw the detected objects into the input, as .png or .jpg; takes one input."),
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=(
                "Engine of the search: pytorch; for text to text also ctranslate2 (faster, same outputs) or "
                "ctranslate2-int8 (extra `ctranslate2`)."
            ),
        ),
    ] = "pytorch",
    task: OneTask = None,
    trust_code: TrustCode = False,
) -> None:
    """Predict a line for each input.

    A terminal asks for inputs and draws the outputs.
    Several runs of one vocabulary predict together: the mean of their probabilities.

    \b
    Examples:
      python -m seq2seq_suite predict runs/parsing "the cat sleeps" "a dog barks"
      python -m seq2seq_suite predict runs/parsing
      python -m seq2seq_suite predict runs/qa "Where is the ball? ||| Anna went to the park. She found the ball."
      python -m seq2seq_suite predict runs/parsing --input sentences.txt --output trees.txt search.beam_size=4
      python -m seq2seq_suite predict runs/translation --engine ctranslate2 --input sentences.txt
      python -m seq2seq_suite predict runs/seed-1 runs/seed-2 --input sentences.txt
      python -m seq2seq_suite predict runs/detection picture.png --draw detected.png --threshold 0.3
    """
    check_targets({"--output": output, "--draw": draw})
    plain, overrides = texts_and_overrides(arguments)
    directories, texts = runs_and_texts(plain)
    refuse_paths(texts, directories[0])
    inputs = Inputs.of(texts, source)
    with redirect_stdout(sys.stderr), preparing(f"loading {directories[0]}"):
        from seq2seq_suite import api

        run = api.load(*directories, task=task, settings=overrides, trust_code=trust_code, engine=engine)

    reader = Reader(run, rows=(source or "").endswith(".jsonl"), begin=begin)
    predictions = partial(run.predictions, n_best=n_best, threshold=threshold)
    with opened(output) as file:
        if inputs is None:
            for found in _asked(reader, predictions):
                _write(found, file, run, n_best)
        else:
            _predict_all(inputs, reader, predictions, file, n_best, draw)


def _predict_all(
    inputs: Inputs,
    reader: Reader,
    predictions: Callable[..., Iterator[list[Prediction]]],
    file: TextIO,
    n_best: int,
    draw: Path | None,
) -> None:
    """Write the predictions for inputs that are given, not typed."""
    run, blank = reader.run, Blank(inputs, reader.columns)
    if inputs.again:  # a mistake in the last line should not be found after hours
        for text, place in blank.left_out():
            reader.example(text, place)
    if draw is not None:
        inputs = Inputs([text for text, _ in inputs], None, ends=True).look()
        check_drawing(run.task, [reader.example(text, place) for text, place in inputs])
        blank.inputs = inputs
    read = (reader.look(reader.example(text, place)) for text, place in blank.left_out())
    for found in _shown(predictions(read), inputs.count):
        blank.write(file, n_best)
        _write(found, file, run, n_best)
        if draw is not None:
            run.task.presentation.draw(reader.example(*next(iter(inputs))), found[0].value, draw)
    blank.write(file, n_best)
    blank.say()
    reader.say()


def _write(found: list[Prediction], file: TextIO, run: Run, n_best: int) -> None:
    presentation = run.task.presentation
    for prediction in found:
        text = presentation.for_terminal(prediction.value) if file.isatty() and n_best == 1 else prediction.text
        print(f"{prediction.score:.6g}\t{text}" if n_best > 1 else text, file=file, flush=file.isatty())


def _asked(reader: Reader, predictions: Callable[..., Iterator[list[Prediction]]]) -> Iterator[list[Prediction]]:
    """Predictions for typed inputs, until an empty line."""
    with suppress(ImportError):  # history and editing, where Python was built with them
        import readline  # noqa: F401
    print("Type an input and press Enter; an empty line or Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            if not sys.stdout.isatty():  # `input` would write it among the outputs
                print("> ", end="", file=sys.stderr, flush=True)
            text = input("> " if sys.stdout.isatty() else "")
        except EOFError:
            print(file=sys.stderr)
            return
        if not text.strip():
            return
        try:
            found = reader.look(reader.example(text, ("input", 0)))
            reader.say()
            yield next(predictions(iter([found])))
        except DataError as error:
            print(error, file=sys.stderr)


class Blank:
    """Blank inputs, whose outputs are blank lines, so that lines stay aligned.

    Args:
        inputs: all of them.
        columns: the source and the beginning in a line.
    """

    def __init__(self, inputs: Inputs, columns: Callable[[str, tuple[str, int]], tuple[str, str]]):
        self.inputs, self.columns = inputs, columns
        self._order, self._lines = deque[bool](), list[int]()

    def left_out(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """The others; all of them if there are none or they are typed, for a message."""
        self._order.clear()
        self._lines.clear()
        text, place = "", ("", 0)
        for text, place in self.inputs:
            is_blank = not self.inputs.texts and not self.columns(text, place)[0].strip()
            self._order.append(is_blank)
            self._lines += [place[1]] * is_blank
            if not is_blank:
                yield text, place
        if all(self._order):
            yield text, place

    def write(self, file: TextIO, lines: int) -> None:
        """What comes before the next output, `lines` lines for each."""
        while self._order and self._order.popleft():
            print("\n" * (lines - 1), file=file)

    def say(self) -> None:
        """Which lines were blank."""
        if self._lines:
            lines = numbered([line - 1 for line in self._lines])
            print(f"blank inputs have blank outputs: line {lines}", file=sys.stderr)


class Reader:
    """Reads inputs as examples; reports, once each, words that the run did not see in training and tokenised text.

    Args:
        run: that predicts.
        rows: whether lines are of .jsonl, with columns.
        begin: whether a tab and the beginning of the output may follow an input.
    """

    def __init__(self, run: Run, *, rows: bool, begin: bool):
        self.run, self.rows, self.begin = run, rows, begin
        self.seen, self.new, self.tokenised = set[str](), list[str](), ""

    def columns(self, text: str, place: tuple[str, int]) -> tuple[str, str]:
        """The source and the beginning of the output in a line."""
        if self.rows:
            return in_columns(text, place)
        source, _, beginning = text.partition("\t") if self.begin else (text, "", "")
        return source, beginning

    def example(self, text: str, place: tuple[str, int]) -> Example:
        """The example of a line; reports the first text that was no tokens."""
        from seq2seq_suite.tasks.fields.text import Words

        text, beginning = self.columns(text, place)
        found, source = self.run.example(text, file=place[0], line=place[1], begin=beginning), self.run.task.source
        if not self.tokenised and isinstance(source, Words) and source.tokenised_from(found.source, text):
            self.tokenised = source.to_text(found.source)
            print(f"tokenised as the training data are: {truncate(self.tokenised)}", file=sys.stderr)
        return found

    def look(self, example: Example) -> Example:
        """Keep the example's unknown words."""
        for word in self.run.task.unknown(example):
            if word not in self.seen:
                self.seen.add(word)
                self.new.append(word)
        return example

    def say(self) -> None:
        """Report the unknown words that were not reported yet."""
        if self.new:
            more = len(self.new) - _MOST_UNKNOWN
            print(
                f"not in the training data: {', '.join(map(truncate, self.new[:_MOST_UNKNOWN]))}"
                + (f" and {more:,} more words" if more > 0 else ""),
                file=sys.stderr,
            )
            self.new.clear()


def _shown(found: Iterator[list[Prediction]], count: int) -> Iterable[list[Prediction]]:
    """The same; a terminal for messages shows how many are done, and the time that is left."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        return found
    from rich.console import Console
    from rich.progress import track

    return track(found, "predicting", total=count or None, console=Console(stderr=True))


def evaluate(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... [KEY=VALUE...]",
            show_default=False,
            autocompletion=runs_and_keys,
            help=(
                "A directory that `run` wrote; several are an ensemble. Then changes such as search.beam_size=4, or "
                "search.beam_size=1,4 for each of several."
            ),
        ),
    ],
    split: Annotated[str, typer.Option(metavar="NAME", autocompletion=splits, help="The split to decode.")] = "test",
    data: Annotated[str | None, typer.Option(metavar="PATH", show_default=False, help="Other data to score.")] = None,
    task: OneTask = None,
    trust_code: TrustCode = False,
    json: Json = False,
) -> None:
    """Decode and score a split with a run's best checkpoint.

    Predictions and figures go to the run's directory. Those of other settings stand beside the run's own, under a name
    that has the settings: test@beam_size=4. Where keys have several values, search.beam_size=1,4, every combination is
    decoded, and has a row in the run's summary.
    Those of other data have the data's name: test-more. Of these only the predictions are kept.

    Several runs of one vocabulary predict together: the mean of their probabilities.

    \b
    Examples:
      python -m seq2seq_suite evaluate runs/parsing
      python -m seq2seq_suite evaluate runs/parsing search.beam_size=4 --split validation --json
      python -m seq2seq_suite evaluate runs/seed-1 runs/seed-2 runs/seed-3
      python -m seq2seq_suite evaluate runs/blocks search.order=left search.block=2,4,8 search.threshold=0.6,0.9
    """
    from seq2seq_suite.config.config_file import is_override

    changes = [one for one in arguments if is_override(one)]
    directories, others = runs_and_texts([one for one in arguments if one not in changes])
    if others:
        raise ConfigError(
            others[0],
            file=COMMAND_LINE,
            expected="a run, or key=value",
            remedy=f"such as {PROGRAM} evaluate runs/parsing search.beam_size=4",
        )
    with redirect_stdout(sys.stderr) if json else nullcontext():  # notes on the data are no JSON
        with preparing("loading PyTorch"):
            from seq2seq_suite.experiments import verbs
            from seq2seq_suite.prediction import load_run as opening
            from seq2seq_suite.studies.sweep import combinations

        grid, chosen = combinations(changes), [opening.choose_task(directory, task) for directory in directories]
        summary = verbs.evaluate_all(*chosen, split=split, data=data, combinations=grid)
    print_json(summary) if json else print_summary(summary) if len(grid) == 1 else print_rows(summary)
