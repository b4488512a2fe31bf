"""Language modelling: predicts texts symbol by symbol, and continues prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import regex

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.examples import Encoded, Example, Score
from seq2seq_suite.common.shapes import SourceShape
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.subwords import clean_text
from seq2seq_suite.metrics.likelihood import score_likelihood
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Positive, Section, Symbols, Use, unused
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.charts.common import one_series, range_of, ranges, rates
from seq2seq_suite.tasks.fields.base import Place, Source
from seq2seq_suite.tasks.fields.text import Text
from seq2seq_suite.tasks.options import NO_TRANSCRIPT, TaskOptions
from seq2seq_suite.tasks.presentation import Presentation
from seq2seq_suite.tasks.rows import place_of, text_in

_PLACES = (4, 8, 16, 32, 64, 128)  # last symbols of the ranges by which surprise is charted


class LogProbability(float):
    """A text's log-probability in nats; `pieces` has those of its symbols, where they are known."""

    pieces: tuple[tuple[str, float], ...] = ()


Judged = str | float  # a continuation, or a text's log-probability


class LanguageModelOptions(TaskOptions):
    """Options of language modelling, by a decoder-only model."""

    text_column: str = "text"  # of the text
    subwords: Literal["bpe", "unigram", "characters"] = "bpe"
    vocabulary_size: Symbols = 4000  # at most
    lowercase: bool = False  # metrics are then of lower-cased texts
    window: Positive = 1000  # context in characters; longer texts are cut at spaces

    target: ClassVar[str] = "continuations"
    reads_symbols: ClassVar[bool] = False
    numbered: ClassVar[bool] = False  # there is no source; the texts' are checked below
    uses: ClassVar[tuple[Use, ...]] = (
        *NO_TRANSCRIPT,
        unused(("search.rescorer", "search.drafter", "search.max_length_factor"), "a task with a source"),
        unused(("search.risk",), "a task whose metric compares outputs"),
    )

    def check(self, config: Any) -> None:
        """There is no source: options of an encoder must be unset."""
        backbone = config.backbone
        if backbone.decoder == "rnn":
            raise ValueError("task language_model needs backbone.decoder=transformer")
        if backbone.encoder not in ("self_attention", "none") or backbone.encoder_kernel or backbone.encoder_steps > 1:
            raise ValueError(
                "task language_model has no encoder: leave backbone.encoder, backbone.encoder_kernel and "
                "backbone.encoder_steps alone"
            )
        longest = self.target_symbols(config)
        if longest > backbone.max_positions:
            raise ValueError(
                f"a text with what continues it may be {longest} symbols long (language_model.window + "
                f"search.max_length_extra + 1), but backbone.max_positions is {backbone.max_positions}"
            )

    def target_symbols(self, config: Any) -> int:
        """A text, what continues it, and END."""
        return self.window + config.search.max_length_extra + 1


class Nothing(Source):
    """No source: a decoder-only model."""

    def encode(self, value: Any, place: Place) -> np.ndarray:
        """(0,)."""
        return np.zeros(0, dtype=np.int64)

    def shape(self) -> SourceShape:
        return SourceShape()


class Windows(Text):
    """Windows of texts, and log-probabilities of them."""

    def to_text(self, prediction: Judged | None) -> str:
        """A text on one line, or a log-probability."""
        return f"{prediction:.6f}" if isinstance(prediction, float) else str(prediction or "")


class LanguageModelPresentation(Presentation):
    """A text with the surprise of each symbol, or a continuation."""

    verb, pipeline_tag, drawing, no_output = "Continue", "text-generation", "surprise", ""
    input_text, baselines = "The dog", ("frequency of each letter",)

    def output_data(self, example: Example, prediction: Judged | None) -> dict[str, Any]:
        """A judged text with the surprise of each of its symbols in bits."""
        if not isinstance(prediction, LogProbability):
            return super().output_data(example, prediction)
        return {
            "bits": round(-prediction / math.log(2), 2),
            "pieces": [[name, round(-value / math.log(2), 2)] for name, value in prediction.pieces],
        }

    def charts(self, examples: Sequence[Example], predictions: Sequence[Judged | None]) -> list[dict[str, Any]]:
        """Surprise by place in the text."""
        shares: list[dict[str, tuple[float, float]]] = []
        for found in predictions:
            shares.append({})
            pieces: Sequence[tuple[str, float]] = getattr(found, "pieces", ())
            for place, (_, value) in enumerate(pieces, 1):
                bits, count = shares[-1].get(range_of(place, _PLACES), (0.0, 0))
                shares[-1][range_of(place, _PLACES)] = (bits - value / math.log(2), count + 1)
        points = rates(shares, ranges(_PLACES), scale=1.0)
        return (
            [
                one_series(
                    "dots",
                    "Surprise by place",
                    "Does what came before help?",
                    points,
                    x="symbol of the text",
                    y="bits a symbol ↓",
                )
            ]
            if points
            else []
        )


class LanguageModelTask(Task[Nothing, Windows]):
    """Texts, the longer ones cut into windows that are read independently.

    There is no source. A window without a reference is a prompt, which the model continues; one with a reference is
    scored by its probability, including that of its END. Embedded texts have no ceiling: it would be their generator's
    entropy, and a text's probability is a sum over all ways in which a story may come to the same words.
    """

    name, presented_by = "language_model", LanguageModelPresentation
    sections: ClassVar[Mapping[str, type[Section]]] = {"language_model": LanguageModelOptions}
    primary_metric = "bits_per_character"
    has_ceiling = False
    higher_is_better = False
    streams = True
    view, item = "stories", "text"

    def __init__(self, options: LanguageModelOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        self.expected = f"rows with {options.text_column}"
        self.source, self.target = Nothing(), Windows("pieces", options.subwords, options.vocabulary_size, what="text")

    # -- data ---------------------------------------------------------------------------------------------------

    def examples(self, row: Row) -> list[Example]:
        """The windows of a row."""
        return [Example(window, window, row.origin) for window in self.windows(self.example(row).source)]

    def fit(self, examples: Iterable[Example]) -> None:
        """Pieces of the windows."""
        self.target.fit(example.reference for example in examples)

    def example(self, row: Row) -> Example:
        """A whole text."""
        text = text_in(row, self.options.text_column, "language_model.text_column")
        return Example(self._clean(self.target.check(text, row.place)), None, row.origin)

    def _clean(self, text: str) -> str:
        return clean_text(text.lower() if self.options.lowercase else text)

    def windows(self, text: str) -> list[str]:
        """The text in parts of at most `window` characters, cut at spaces where there are any."""
        parts, size = [], self.options.window
        while len(text) > size:
            cut = text.rfind(" ", 1, size + 1)
            whole = size + 1 - len(regex.findall(r"\X", text[: size + 1])[-1])  # signs with their marks
            parts.append(text[: cut if cut > 0 else whole or size])
            text = text[cut + 1 if cut > 0 else whole or size :]
        return [*parts, text]

    def from_text(self, text: str, *, origin: str = "") -> Example:
        """A prompt to continue; after an empty one any text may follow."""
        beginning = self._clean(text)
        if len(beginning) > self.options.window:
            raise DataError(
                f"a prompt of {len(beginning)} characters",
                **place_of(origin),
                expected=f"at most {self.options.window}",
                remedy="give only its last part",
            )
        return Example(beginning, None, origin)

    # -- symbols ------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Windows as targets without a source; a prompt is given, and has no END."""
        encoded = []
        for index, example in enumerate(examples):
            ids = self.target.pieces.encode(example.source)
            given = example.reference is None
            target = np.array(ids if given else [*ids, END], dtype=np.int64)
            encoded.append(Encoded(np.zeros(0, dtype=np.int64), target, index=index, given=np.full(len(target), given)))
        return encoded

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> Judged:
        """A text's log-probability, or a prompt with its continuation."""
        if example.reference is not None:
            found, each = LogProbability(hypothesis.score), hypothesis.details.get("log_probs", ())
            found.pieces = tuple(zip(self.target.names(hypothesis.symbols)[-len(each) :], each, strict=True))
            return found
        return self.target.pieces.decode([*self.target.pieces.encode(example.source), *hypothesis.symbols])

    def unknown(self, example: Example) -> list[str]:
        return self.target.unknown(example.source)

    def score(self, predictions: Sequence[Judged | None], references: Sequence[str]) -> Score:
        """Bits per character and perplexity of words."""
        judged = [_logarithm(number, value) for number, value in enumerate(predictions, 1)]
        return score_likelihood(judged, references, context=f"{self.options.window} characters")


def _logarithm(number: int, value: Judged | None) -> float | None:
    """A log-probability, also as `read_references` gives it; raises DataError with the prediction's number."""
    try:
        found = float(value) if value not in (None, "") else None
    except ValueError:
        found = math.nan
    if found is None or found <= 0:
        return found
    raise DataError(
        f"prediction {number} is {repr_short(value)}",
        expected="the natural logarithm of a text's probability",
        remedy="write one on each line, such as -12.5, in the order of the texts",
    )
