"""Sentences with the spaces of running text."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.world import Scene

_ATTACHED = (",", ".", "'s", "'")  # attached to the word before


def spaced(tokens: Sequence[str]) -> str:
    """Tokens as running text: no space before a comma, a full stop or a possessive sign.

    >>> spaced(["On", "Monday", ",", "Anna", "'s", "dog", "barks", "."])
    "On Monday, Anna's dog barks."
    """
    return "".join(token if at == 0 or token in _ATTACHED else " " + token for at, token in enumerate(tokens))


def english_text(scene: Scene) -> str:
    """The English sentence for a scene, as `english` builds it, in natural spacing.

    >>> from seq2seq_suite.miniworld.world import Entity, Event
    >>> mother = Entity("mother", owner=Entity("anna", reference="named"))
    >>> english_text(Scene((Event("see", tense="past", agent=mother, patient=Entity("dog")),)))
    "Anna's mother saw the dog."
    """
    return spaced(english(scene).words())
