"""Who does what to whom in a sentence, as spans of words."""

from __future__ import annotations

from seq2seq_suite.miniworld.english import STATES, clause_parts, complements
from seq2seq_suite.miniworld.tree_parts import length
from seq2seq_suite.miniworld.world import Event


def semantic_roles(event: Event) -> list[str]:
    """The semantic roles in the sentence of one event, in the scheme BIO: a tag for each word of `english`'s tree.

    A role's phrase has its preposition and whatever describes it. States have none.

    >>> from seq2seq_suite.miniworld.world import Entity
    >>> dog, anna = Entity("dog"), Entity("anna", reference="named")
    >>> semantic_roles(Event("see", agent=anna, patient=dog))
    ['B-AGENT', 'O', 'B-PATIENT', 'I-PATIENT', 'O']
    >>> semantic_roles(Event("see", agent=anna, patient=dog, about="patient"))
    ['B-PATIENT', 'I-PATIENT', 'O', 'O', 'B-AGENT', 'I-AGENT', 'O']
    """
    *before, phrase = clause_parts(event)
    if event.action in STATES:
        return ["O"] * (sum(map(length, (*before, phrase))) + 1)
    first = 2 * (event.time is not None and event.time_first)  # a time and its comma
    names = [""] * len(before)
    names[first] = "PATIENT" if event.about == "patient" else "AGENT"
    if first:
        names[0] = "TIME"
    after = complements(event)
    verb = length(phrase) - sum(length(one) for _, one in after)
    spans = [
        *zip(names, map(length, before), strict=True),
        ("", verb),
        *((role, length(one)) for role, one in after),
        ("", 1),
    ]
    return [f"{'I' if at else 'B'}-{role}" if role else "O" for role, words in spans for at in range(words)]
