"""Features of entities that follow from the words of a sentence. A pronoun does not reveal its noun."""

from __future__ import annotations

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.world import Entity, Group, Participant

PEOPLE = ("person", "relative", "first_name")


def pronoun_gender(entity: Entity) -> str:
    """The pronoun that stands for it: male | female | neuter | plural.

    >>> pronoun_gender(Entity("queen")), pronoun_gender(Entity("dog")), pronoun_gender(Entity("dog", plural=True))
    ('female', 'neuter', 'plural')
    """
    return "plural" if entity.plural else lexicon.GENDERS.get(entity.kind, "neuter")


def is_person(entity: Entity) -> bool:
    """Whether a person is named, or meant by `he`, `she` or `they`."""
    if entity.reference == "given":
        return pronoun_gender(entity) != "neuter"
    return lexicon.GROUP_OF[entity.kind] in PEOPLE


def is_living(entity: Entity) -> bool:
    """Whether a person or an animal is named, or a person meant by a pronoun.

    >>> is_living(Entity("dog")), is_living(Entity("dog", reference="given"))
    (True, False)
    """
    return is_person(entity) or (entity.reference != "given" and lexicon.GROUP_OF[entity.kind] == "animal")


def is_definite(participant: Participant | None) -> bool:
    """Whether a participant is definite: the hearer can identify it."""
    if isinstance(participant, Group):
        return all(map(is_definite, participant.members))
    return participant is not None and (participant.reference != "new" or participant.owner is not None)


def can_be_none(participant: Participant | None) -> bool:
    """Whether it can be negated by `no`: indefinite, and not counted."""
    if isinstance(participant, Group):
        return all(map(can_be_none, participant.members))
    return participant is not None and not is_definite(participant) and participant.amount is None


def is_vehicle(participant: Participant | None) -> bool:
    """Whether what goes somewhere are vehicles alone; of all that goes, only they are `it`."""
    if isinstance(participant, Group):
        return all(map(is_vehicle, participant.members))
    if participant is None or participant.reference == "given":
        return participant is not None and pronoun_gender(participant) == "neuter"
    return lexicon.GROUP_OF[participant.kind] == "vehicle"
