"""The base of all tasks' options, and their effect on the rest of a configuration."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from seq2seq_suite.options.section import Section, Use, unused

_TRANSCRIBES = "a task that transcribes speech"  # whose outputs are what the CTC head predicts
NO_SEARCH_BY_CTC = (
    unused(("search.ctc_weight",), _TRANSCRIBES),
    Use(("search.drafter",), "task", _TRANSCRIBES, lambda task: False, lambda config: config.search.drafter == "ctc"),
)
NO_TRANSCRIPT = (*NO_SEARCH_BY_CTC, unused(("strategy.ctc_weight",), "a task that reads speech"))
Zoom = Annotated[float, Field(ge=0.1, le=10.0)]


class TaskOptions(Section):
    """A task's own section of a configuration, and its consequences for the rest."""

    target: ClassVar[str] = "text"  # what a strategy must be able to write: free text; structures, such as trees, of
    # symbols under a constraint; labels (a set); objects; continuations. See `strategies.targets_of`
    constrained: ClassVar[bool] = False  # an automaton keeps outputs well-formed
    reads_symbols: ClassVar[bool] = True  # the source is a row of words or pieces
    numbered: ClassVar[bool] = True  # positions of source and output are numbered, and need room in the backbone

    uses: ClassVar[tuple[Use, ...]] = NO_TRANSCRIPT  # what the rest's keys need, to have an effect in this task

    def check(self, config: Any) -> None:
        """Whether the rest of the configuration suits these options; raises ValueError, which names the keys."""

    def source_positions(self, config: Any) -> int:
        """Most positions that the encoder reads; 0 where those of the source alone are not numbered."""
        return config.data.max_length + 2  # with a sentinel at each end

    def target_symbols(self, config: Any) -> int:
        """The longest output, END included."""
        return int((config.data.max_length + 2) * config.search.max_length_factor) + config.search.max_length_extra


def left_to_right(config: Any) -> bool:
    """Whether a configuration's outputs are decoded from left to right."""
    return not config.in_parallel
