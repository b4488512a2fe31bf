"""Which of the embedded data: the section `miniworld` of a configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from seq2seq_suite.options.section import LARGEST, Section, ShareOrNone, refuse_if

Translators = Annotated[int, Field(ge=1, le=4)]
Nouns = Annotated[int, Field(ge=0, le=4000)]
Logits = Annotated[float, Field(ge=0.0, le=LARGEST)]
_SENTENCES = ("trees", "tags", "translations", "speech", "semantic_roles")
_WITH_WORDS = (*_SENTENCES, "topics", "questions", "stories", "summaries")
KNOBS = {  # knob -> the views that it changes
    "words": _WITH_WORDS,
    "cognates": _WITH_WORDS,
    "ambiguity": ("translations",),
    "ambiguity_skew": ("translations",),
    "ambiguity_scope": ("translations",),
    "ambiguity_named": ("translations",),
    "attachment": _SENTENCES,
    "disagreement": ("topics",),
}


class Miniworld(Section):
    """What makes the embedded data hard; `miniworld.rows` explains each key."""

    world: Literal["plain", "rich"] = "plain"  # rich: the keys below, more splits, noisier sound, crowded pictures
    words: Nouns = 0  # nouns of each of three classes, and first names, by Zipf's law; 0: the 75 of the plain world
    cognates: ShareOrNone = 0.5  # of the nouns whose German follows from the English by sound laws
    ambiguity: Translators = 1  # ways to translate a scene, each with words and word order of a translator
    ambiguity_skew: tuple[ShareOrNone, ...] = (0.55, 0.25, 0.12, 0.08)  # share of each translator
    ambiguity_scope: Literal["sentence", "choice"] = "sentence"  # one translator for a sentence, or one for each choice
    ambiguity_named: bool = False  # the source names its translator, so that the target is determined
    attachment: Logits = 0.0  # spread, in logits, of the preference of verbs and nouns for a phrase with `with`
    disagreement: tuple[ShareOrNone, ShareOrNone] = (0.0, 0.0)  # share of true labels that an annotator leaves out, and
    # of false ones that he adds

    @model_validator(mode="after")
    def _shares_are_enough(self) -> Miniworld:
        refuse_if(
            (
                len(self.ambiguity_skew) < self.ambiguity or not all(self.ambiguity_skew[: self.ambiguity]),
                f"miniworld.ambiguity {self.ambiguity} needs as many shares above 0 in miniworld.ambiguity_skew",
            )
        )
        return self

    def knobs(self) -> dict[str, Any] | None:
        """The arguments of the rich world; None for the plain one."""
        return {name: getattr(self, name) for name in KNOBS} if self.world == "rich" else None
