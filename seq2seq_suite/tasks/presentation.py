"""How a task's examples and outputs are presented: on pages, in model cards, at terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.text import tokens_of

# Until 0.1.0 these were attributes of a task and of its target. Where a user's class still has one, it is used.
_OF_TASKS = {
    "drawing": "drawing",
    "length_unit": "length_unit",
    "baselines": "baselines",
    "paints": "draws",
    "judge": "judge",
    "length": "length",
    "facts": "facts",
    "shown_source": "source_data",
    "media": "media",
    "shown": "output_data",
    "panels": "charts",
    "paint": "draw",
}
_OF_TARGETS = {"show": "for_terminal", "nothing": "no_output"}


@dataclass(frozen=True)
class Judgement:
    """One output beside its reference.

    Args:
        equal: whether they are the same to the task: sets of labels, trees, answers without articles; never raw lines.
        kinds: of the errors, in words that a reader knows; empty where the output is right.
    """

    equal: bool
    kinds: tuple[str, ...] = ()


class Presentation:
    """How one task's examples and outputs are presented. The model and the metrics do not depend on it.

    Each attribute and method has a default, so that a task needs a class of its own only for what differs.

    Args:
        task: the task.
    """

    drawing: ClassVar[str] = "text"  # of an output on a page: text, tree, tags, answer, labels, sound, boxes, surprise
    length_unit: ClassVar[str] = "words"  # of `length`
    baselines: ClassVar[tuple[str, ...]] = ()  # names in `tasks.trivial.BASELINES`, listed beside the run's figures
    draws: ClassVar[bool] = False  # whether `draw` is defined
    no_output: ClassVar[str] = "(nothing)"  # an empty output at a terminal
    verb: ClassVar[str] = ""  # what the live page's button for the task says; empty: the task's name
    pipeline_tag: ClassVar[str] = "other"  # the Hub's name for the task
    input_text: ClassVar[str] = "The dog sleeps ."  # an input for the example in a model card

    def __init__(self, task: Any):
        self.task: Any = task
        for owner, names in ((task, _OF_TASKS), (task.target, _OF_TARGETS)):
            for former, name in names.items():
                if hasattr(type(owner), former):
                    setattr(self, name, getattr(owner, former))

    def judge(self, prediction: Any | None, reference: Any, example: Example) -> Judgement:
        """Whether an output is right, and if not, how it is wrong."""
        if prediction is None:
            return Judgement(False, ("malformed",))
        return Judgement(self.task.to_text(prediction) == self.task.to_text(reference))

    def length(self, example: Example) -> float:
        """The length of the source in `length_unit`."""
        return float(
            len(
                example.source
                if isinstance(example.source, tuple)
                else tokens_of(self.task.source.to_text(example.source))
            )
        )

    def facts(self, example: Example) -> dict[str, str | float]:
        """What else is known of an example, by names that a reader knows: the speaker, the kind of question."""
        return {}

    def source_data(self, example: Example) -> dict[str, Any]:
        """The source as plain data for the page's `drawing`."""
        return {"text": self.task.source.to_text(example.source)}

    def media(self, example: Example) -> dict[str, Any]:
        """What belongs to `source_data` and is too large to be stored for all examples, such as sound."""
        return {}

    def output_data(self, example: Example, prediction: Any | None) -> dict[str, Any]:
        """An output or a reference as plain data for the page's `drawing`."""
        return {"text": self.task.to_text(prediction)}

    def charts(self, examples: Sequence[Example], predictions: Sequence[Any | None]) -> list[dict[str, Any]]:
        """Charts of a split that only this task has, as `tasks.charts` makes them."""
        return []

    def for_terminal(self, prediction: Any | None) -> str:
        """A prediction for a person at a terminal; may span lines."""
        return self.task.to_text(prediction) or self.no_output

    def draw(self, example: Example, prediction: Any | None, path: Path) -> None:
        """Draw the prediction into the example's picture; the file's extension determines the format."""
        raise NotImplementedError
