"""Summarisation: from a text to a summary, scored by ROUGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.metrics.rouge import complaints, rouge
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.section import Section, Symbols
from seq2seq_suite.tasks.fields.text import Subwords, Text
from seq2seq_suite.tasks.options import TaskOptions
from seq2seq_suite.tasks.text_to_text import TextPresentation, TextToText

_JUDGED = 2000  # references that say whether the metric suits them


class SummarisationOptions(TaskOptions):
    """Options of summarisation."""

    text_column: str = "text"  # of the source
    summary_column: str = "summary"  # of the target
    subwords: Literal["bpe", "unigram", "characters", "imported"] = "bpe"  # imported: those of init_from
    vocabulary_size: Symbols = 4000  # of texts and summaries together, at most
    lowercase: bool = False  # texts and summaries are lower-cased


class SummarisationPresentation(TextPresentation):
    """Outputs are compared with the references word by word."""

    verb, pipeline_tag = "Summarise", "summarization"


class SummarisationTask(TextToText):
    """Text -> summary; both are pieces of one vocabulary, and share their embedding."""

    name = "summarisation"
    sections: ClassVar[Mapping[str, type[Section]]] = {"summarisation": SummarisationOptions}
    primary_metric = "rouge2"
    packages = ("rouge_score",)
    presented_by = SummarisationPresentation
    view, item, expected = "summaries", "text", "rows with a text and its summary"

    def __init__(self, options: SummarisationOptions, data: Data, **others: Any):
        super().__init__(options, data, **others)
        common = {"longest": data.max_length, "lower_case": options.lowercase, "pieces_from": self.pieces_from}
        kind, size = options.subwords, options.vocabulary_size
        self.source = Subwords(
            "pieces",
            kind,
            size,
            column=options.text_column,
            key="summarisation.text_column",
            what="text",
            shared=True,
            **common,
        )
        self.target = Text(
            "pieces",
            kind,
            size,
            column=options.summary_column,
            key="summarisation.summary_column",
            what="summary",
            **common,
        )

    def inspect(self, split: str, examples: Sequence[Example]) -> list[str]:
        """A warning about summaries that ROUGE-2 cannot judge."""
        return complaints([example.reference for example in islice(examples, _JUDGED)])

    def score(self, predictions: Sequence[str | None], *references: Sequence[str]) -> Score:
        """ROUGE-1, -2 and -L."""
        return rouge(predictions, *references)
