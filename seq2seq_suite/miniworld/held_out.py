"""The rule that keeps combinations of known parts out of training, so that a test can ask for them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from seq2seq_suite.miniworld.world import Event, Group, Participant, Scene, has_event, parts_of

HELD_OUT_ONE_IN = 12


def combinations(scene: Scene) -> Iterator[str]:
    """The combinations that the rule looks at: attribute and kind, action and kind of patient.

    Names and pronouns combine with nothing: they do not show the kind.

    >>> from seq2seq_suite.miniworld.world import Entity, Event
    >>> chase = Event("chase", agent=Entity("dog", attributes=("big",)), patient=Entity("cat"))
    >>> list(combinations(Scene((chase,))))
    ['chase > cat', 'big dog']
    """
    return _combinations(*parts_of(scene))


def _combinations(events: list[Event], participants: list[Participant]) -> Iterator[str]:
    for event in events:
        yield from (f"{event.action} > {kind}" for kind in kinds_of(event.patient))
    for participant in participants:
        yield from (f"{attribute} {kind}" for kind in kinds_of(participant) for attribute in participant.attributes)


def kinds_of(participant: Participant | None) -> tuple[str, ...]:
    """The kinds of the entities of a participant; names and pronouns do not show theirs."""
    if participant is None:
        return ()
    members = participant.members if isinstance(participant, Group) else (participant,)
    return tuple(member.kind for member in members if member.reference not in ("named", "given"))


def is_new_combination(scene: Scene) -> bool:
    """Whether the scene belongs to the compositional split alone.

    It does if it holds one of these:

    - an attribute with a kind, or an action with a kind of patient, whose CRC-32 leaves no rest divided by
      `HELD_OUT_ONE_IN` (the text is `attribute kind` or `action > kind`);
    - a passive whose agent is described by an event (`is seen by the boy who sleeps`);
    - a describing event that gives something to a recipient who comes first (`the boy who gives the girl a ball`).
    """
    events, participants = parts_of(scene)
    for event in events:
        if event.about == "patient" and has_event(event.agent):
            return True
        if event.recipient is not None and event.agent is None and event.new == "theme":
            return True
    return any(
        zlib.crc32(combination.encode()) % HELD_OUT_ONE_IN == 0 for combination in _combinations(events, participants)
    )
