"""Finished runs that answer requests."""

from __future__ import annotations

import io
import math
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2seq_suite import api
from seq2seq_suite.common.errors import UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import read_rows
from seq2seq_suite.common.shapes import PictureShape, SoundShape
from seq2seq_suite.config.unused_keys import why_unused
from seq2seq_suite.data.audio import Recording, as_wav
from seq2seq_suite.data.formats import BadRows
from seq2seq_suite.data.pictures import ImageFile
from seq2seq_suite.data.sources import EMBEDDED
from seq2seq_suite.inspection.decoding_trace import trace
from seq2seq_suite.inspection.report import inspect
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.report.outputs import split_name
from seq2seq_suite.report.run import report_page
from seq2seq_suite.runs.joint_directories import task_directories
from seq2seq_suite.serve.limits import MOST_INSPECTED, MOST_OUTPUTS, MOST_PIXELS, PICTURES, Refused
from seq2seq_suite.serve.schema import Asked
from seq2seq_suite.tasks.qa.passages import SEPARATOR
from seq2seq_suite.tasks.rows import open_split

_EXAMPLES, _LONGEST_EXAMPLE = 3, 300  # inputs to try, and most characters of one


class OpenRun:
    """A run with its weights read, and what a page needs to know of it.

    Args:
        run: a finished run, not a joint one.
        name: unlike those of the other open runs.
        folder: our own, for features of recordings; emptied after each of them.
    """

    def __init__(self, run: api.Run, name: str, folder: Path):
        self.run, self.name, self.folder, self.task = run, name, folder, run.task
        shape = self.task.shape().source
        self.takes = (
            "sound"
            if isinstance(shape, SoundShape)
            else "picture"
            if isinstance(shape, PictureShape)
            else "question"
            if self.task.presentation.drawing == "answer"
            else "text"
        )
        self.examples: list[str] = []  # texts; of a question both parts, of other inputs what they are called
        self.files: list[bytes] = []  # the same as files of sound or pictures
        with suppress(UserError, OSError):  # without its data a run has none
            self._find_examples()
        with suppress(UserError, Refused):  # the first prediction takes longer than all others
            if self.examples:
                self.answer(
                    self._file(self.files[0]) if self.files else self.run.example(self.examples[0]),
                    Asked.model_validate({"trace": True}),
                )

    def facts(self) -> dict[str, Any]:
        """For the list of runs."""
        config = self.run.config
        unused = {key: why_unused(config, f"search.{key}") for key in ("num_hypotheses", "beam_size", "sampling")}
        return {
            "name": self.name,
            "task": self.task.name,
            "takes": self.takes,
            "strategy": config.strategy.kind,
            "verb": self.task.presentation.verb or self.task.name,
            "drawing": self.task.presentation.drawing,
            "n_best": 1 if unused["num_hypotheses"] else MOST_OUTPUTS,
            "examples": self.examples,
            "controls": [key.removesuffix("_size") for key in ("beam_size", "sampling") if not unused[key]],
            "score": self._score(),
        }

    def _score(self) -> str:
        with suppress(UserError):
            summary = self.run.summary
            split, figures = next(iter(summary["splits"].items()), ("", {}))
            if (figure := figures.get(summary["primary_metric"])) is not None:
                return f"{metric_name(summary['primary_metric'])} {figure:.2f} on {split_name(split)}"
        return ""

    def report(self) -> str:
        """The page of the run, rendered again: a stored page could contain any script."""
        return report_page(self.run.path)

    def _opened(self, asked: Asked) -> LoadedRun:
        """The run with a request's search settings; raises ConfigError for settings without effect."""
        opened, settings = self.run.opened, asked.settings
        api.check_n_best(self.run.config, asked.n_best)
        if not settings:
            return opened
        if asked.beam is not None and "search.sampling" in settings:
            raise Refused(
                422,
                "a beam, and sampling by temperature, top_p or seed",
                expected="one of them",
                remedy="remove the beam or the others",
            )
        api.read_config(self.run.config, settings)
        options = opened.predictor.options.changed(
            **{key.removeprefix("search."): value for key, value in settings.items()}
        )
        return replace(opened, predictor=replace(opened.predictor, options=options, seed=asked.seed))

    def example(self, *, text: str | None, question: str | None, context: str | None) -> Example:
        """The input of a request in JSON.

        Raises:
            Refused: the run takes something else.
            DataError: the task does not take it.
        """
        if self.takes in ("sound", "picture"):  # a text would be the name of a file, which no request may open
            raise Refused(
                415,
                f"{self.name} takes a {self.takes}, not text",
                expected=f"the bytes of a {self.takes}",
                remedy="POST /api/predict/file",
            )
        if question is not None or context is not None:
            if self.takes != "question" or text is not None:
                either = "question and context, or text" if self.takes == "question" else "text"
                raise Refused(
                    422,
                    "question and context" + (" beside text" if text is not None else ""),
                    expected=f"for {self.name}: {either}",
                    remedy="leave the others out",
                )
            text = f"{question or ''} {SEPARATOR} {context or ''}"
        if text is None:
            raise Refused(
                422, "there is no text", expected="text, or question and context for questions", remedy="see /docs"
            )
        return self.run.example(text, file="request")

    def from_bytes(self, content: bytes) -> Example:
        """The input from a sound file or a picture; it is never stored under a name from the request.

        Raises:
            Refused: the run takes no files, or the file is too large once it is unpacked.
            DataError: it cannot be read.
        """
        if self.takes not in ("sound", "picture"):
            raise Refused(
                415, f"{self.name} takes text, not a file", expected="text in JSON", remedy="POST /api/predict"
            )
        if not content:  # without bytes the name would be opened
            raise Refused(422, "the file is empty", expected=f"the bytes of a {self.takes}", remedy="choose another")
        return self._file(content)

    def _file(self, content: bytes) -> Example:
        look = self._recording if self.takes == "sound" else self._picture
        return Example(self.task.source.check(look(content), {}), None, "request")

    def _recording(self, content: bytes) -> Recording:
        import soundfile

        found = Recording("the recording", content)
        with suppress(soundfile.LibsndfileError, RuntimeError, TypeError):  # its own message comes later
            header = soundfile.info(io.BytesIO(content))
            seconds, most = header.frames / header.samplerate, self.task.data.max_length / 100
            if seconds > most + 0.1:
                raise Refused(
                    413,
                    f"the recording is too long: {seconds:.1f} seconds",
                    expected=f"at most {most:.1f} for {self.name}",
                    remedy="cut it, or start the server with data.max_length=N, hundredths of a second",
                )
        return found

    def _picture(self, content: bytes) -> ImageFile:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(content), formats=PICTURES) as image:
                pixels = math.prod(image.size)
        except Image.DecompressionBombError:
            pixels = MOST_PIXELS + 1
        except Exception:  # each of Pillow's readers raises its own errors
            raise Refused(
                422, "the picture cannot be read", expected=f"one of {', '.join(PICTURES)}", remedy="convert it"
            ) from None
        if pixels > MOST_PIXELS:
            raise Refused(
                413, "the picture is too large", expected=f"at most {MOST_PIXELS:,} pixels", remedy="make it smaller"
            )
        return ImageFile("the picture", content)

    def answer(self, example: Example, asked: Asked) -> dict[str, Any]:
        """Outputs as `predict` gives them, and what a page shows beside them."""
        try:
            opened, views = self._opened(asked), self.task.presentation
            torch.manual_seed(asked.seed or 0)
            began = time.perf_counter()
            found = next(opened.predict([example], num_hypotheses=asked.n_best))[: asked.n_best]
            ended = time.perf_counter()
            answer = {
                "run": self.name,
                "task": self.task.name,
                "unknown": self.task.unknown(example),
                "source": views.source_data(example) if self.takes in ("text", "question") else {},
                "milliseconds": round(1000 * (ended - began), 3),
                "outputs": [
                    {
                        "text": self.task.to_text(value),
                        "score": score,
                        "drawn": views.for_terminal(value),
                        "shown": views.output_data(example, value),
                    }
                    for value, score in found
                ],
            }
            if asked.trace:
                torch.manual_seed(asked.seed or 0)  # the same samples
                answer["trace"] = trace(opened, example)
            if asked.inspect:
                torch.manual_seed(asked.seed or 0)
                answer["inspection"] = self._inspect(opened, example)
            return answer
        finally:
            self._forget()

    def _inspect(self, opened: LoadedRun, example: Example) -> dict[str, Any]:
        positions, most = len(self.task.encode([example])[0].source), MOST_INSPECTED[self.takes]
        if positions > most:
            raise Refused(
                413,
                f"{positions:,} positions are too many to be inspected",
                expected=f"at most {most:,}",
                remedy="cut the input, or ask without inspect",
            )
        return inspect(opened, [example])[0]

    def _forget(self) -> None:
        """Keep no input: features of recordings are kept in files, and what was read in memory."""
        self.task.source.forget()
        for entry in self.folder.iterdir():
            shutil.rmtree(entry, ignore_errors=True)

    def _find_examples(self) -> None:
        if self.takes in ("text", "question"):
            files = sorted(
                (self.run.path / "predictions").glob("*.jsonl"),
                key=lambda file: (not file.name.startswith("test"), file.name),
            )
            rows = islice((row for file in files for _, row in read_rows(file)), 200)
            texts = (str(row["source"]) for row in rows if row and row.get("source"))
            if not self.task.shape().source.symbols:  # a language model continues what it is given
                texts = (" ".join(text.split()[:4]) for text in texts)
            self.examples = list(
                islice(dict.fromkeys(text for text in texts if len(text) <= _LONGEST_EXAMPLE), _EXAMPLES)
            )
            return
        data = self.task.data
        if data.path == EMBEDDED or Path(data.path).expanduser().exists():  # not asking the Hub
            made = (self.task.example(row) for row in open_split(data, "test", BadRows(0), view=self.task.view))
            for example in islice((one for one in made if one is not None), _EXAMPLES):
                self.files.append((wav if self.takes == "sound" else png)(example.source))
                self.examples.append(self.task.source.to_text(example.source)[:_LONGEST_EXAMPLE])


def open_runs(
    directories: Sequence[Path], settings: Sequence[str], *, trust_code: bool, folder: Path
) -> dict[str, OpenRun]:
    """Runs by their names; a joint run as one for each of its tasks.

    Args:
        directories: of runs.
        settings: changes to their configurations.
        trust_code: run code that is in the directories.
        folder: our own, for what is kept while a request is answered.

    Raises:
        DataError: a directory is no run.
        ConfigError: a setting is wrong.
    """
    found: dict[str, OpenRun] = {}
    for path in dict.fromkeys(one for directory in directories for one in task_directories(directory) or [directory]):
        name = path.name if path.parent.name != "tasks" else f"{path.parent.parent.name}/{path.name}"
        if name in found:
            name = f"{path.resolve().parent.name}/{path.name}"
        if name in found:
            name = f"{name} ({sum(other.startswith(name) for other in found) + 1})"
        own = Path(tempfile.mkdtemp(dir=folder))
        run = api.load(path, settings=settings, trust_code=trust_code)
        if "audio" in run.config.own_sections:  # what is said to it is not kept in the folder for caches
            run = api.load(path, settings=[*settings, f"audio.cache={own}"], trust_code=trust_code)
        found[name] = OpenRun(run, name, own)
    return found


def wav(sound: Any) -> bytes:
    """A sound as a WAV file of 16 bits."""
    samples, rate = sound.samples()
    return as_wav((np.clip(samples, -1, 1) * 32767).astype("<i2"), rate)


def png(picture: Any) -> bytes:
    """A picture as a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture.pixels()).save(buffer, "PNG")
    return buffer.getvalue()
