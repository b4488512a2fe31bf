"""What a scene is made of: entities, their relations, events, time and place. No language in it.

Every string is the key of a concept in `lexicon`; each language has its own words for the keys. Where a language has
a choice of wording, the scene has what decides it: what the sentence is about, what is new, what is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class Amount:
    """How many: `relation` is exactly | more_than | fewer_than | at_least | about | almost."""

    number: int
    relation: str = "exactly"


@dataclass(frozen=True, slots=True)
class Relation:
    """How a thing stands to another: `kind` is a key of `lexicon.RELATIONS`.

    As the detail of an entity it says which one is meant; as the place of an event, where it happens.
    """

    kind: str
    entity: Entity


@dataclass(frozen=True, slots=True)
class Description:
    """An event that says which entity is meant; the entity fills `role` (agent | patient), empty in `event`."""

    role: str
    event: Event


@dataclass(frozen=True, slots=True)
class Entity:
    """Someone or something, or several of a kind.

    Args:
        kind: key of a kind or of a name.
        plural: more than one.
        reference: known | new | near | every | given (spoken of before, a pronoun will do) | named.
        family: key of a family name, for named people; empty for none.
        amount: how many, None if left open.
        attributes: keys of attributes in the order size, age, state, colour.
        linked: the two attributes are named side by side, as equals.
        intense: the one attribute holds to a high degree.
        owner: whose it is; it takes the place of `reference`.
        detail: a relation that says which one is meant.
        event: an event that says which one is meant.
        word: a noun or name of `lexicon_rich` for it, or another translator's word for its kind (`car/1`); or empty.
    """

    kind: str
    plural: bool = False
    reference: str = "known"
    family: str = ""
    amount: Amount | None = None
    attributes: tuple[str, ...] = ()
    linked: bool = False
    intense: bool = False
    owner: Entity | None = None
    detail: Relation | None = None
    event: Description | None = None
    word: str = ""

    @property
    def noun(self) -> str:
        """The key of its noun in the lexicons."""
        return self.word or self.kind


@dataclass(frozen=True, slots=True)
class Group:
    """Several entities together; `attributes` hold for all of them, `choice` means one or the other."""

    members: tuple[Entity, ...]
    attributes: tuple[str, ...] = ()
    choice: bool = False


Participant = Entity | Group


@dataclass(frozen=True, slots=True)
class Time:
    """When: `kind` is adverb | day | month | every | last | ago | occasion_after | occasion_before.

    `value` is the key of a time word, a day, a month, a unit or an occasion; `number` counts units for `ago`.
    """

    kind: str
    value: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Who does what to whom, or what is the case.

    Args:
        action: key of an action; `be` for what is the case, `exist` for what there is.
        tense: present | past | future.
        agent, patient, recipient: who takes part; for `be` the patient is what the agent is.
        instrument: the tool that is used.
        goal: where something goes, is put, is taken from or what is talked about.
        content: what is said, thought or asked.
        quality: attributes, for `be`.
        than: whom the agent is compared with, for `be`.
        place, time, manner, frequency: where, when, how, how often.
        modality: can | must, empty for a plain fact.
        negated: it is not so.
        about: agent | patient, the topic of the clause.
        new: theme | recipient, the participant that is news and comes late.
        time_first: the time sets the stage.
        verb: another translator's verb for the action (`see/1`), or empty.
        perfect: the past is in the perfect, where a language has it.
        place_first: the place sets the stage, in German.
        circumstances_first: how, with what and where come before the time or, in Chinese, in another order.
    """

    action: str
    tense: str = "present"
    agent: Participant | None = None
    patient: Participant | None = None
    recipient: Participant | None = None
    instrument: Entity | None = None
    goal: Relation | None = None
    content: Event | None = None
    quality: tuple[str, ...] = ()
    than: Entity | None = None
    place: Relation | None = None
    time: Time | None = None
    manner: str = ""
    frequency: str = ""
    modality: str = ""
    negated: bool = False
    about: str = "agent"
    new: str = "theme"
    time_first: bool = False
    verb: str = ""
    perfect: bool = False
    place_first: bool = False
    circumstances_first: bool = False

    @property
    def verb_key(self) -> str:
        """The key of its verb in the lexicons."""
        return self.verb or self.action


@dataclass(frozen=True, slots=True)
class Scene:
    """One event, or two and their link.

    Args:
        events: one or two.
        link: and | but | because | when | if; empty for one event. Two events of the very same agent, linked by
            `and`, form one sentence.
        second_first: the second clause comes first (because, when, if).
    """

    events: tuple[Event, ...]
    link: str = ""
    second_first: bool = False


def changed(one: _Part, **changes: Any) -> _Part:
    """As `dataclasses.replace` for a part of a scene, in half of its time: what is drawn is never checked again."""
    new = object.__new__(type(one))
    for name in type(one).__slots__:  # type: ignore[attr-defined]
        object.__setattr__(new, name, changes[name] if name in changes else getattr(one, name))
    return new


def is_plural(participant: Participant) -> bool:
    """Whether a verb agrees in the plural with it; a choice agrees with its last member.

    >>> is_plural(Entity("dog")), is_plural(Group((Entity("dog"), Entity("cat"))))
    (False, True)
    """
    if isinstance(participant, Entity):
        return participant.plural
    return is_plural(participant.members[-1]) if participant.choice else True


def has_event(participant: Participant | None) -> bool:
    """Whether an event describes it or something that belongs to it."""
    if participant is None:
        return False
    if isinstance(participant, Group):
        return any(has_event(member) for member in participant.members)
    return participant.event is not None or (participant.detail is not None and has_event(participant.detail.entity))


def parts_of(scene: Scene) -> tuple[list[Event], list[Participant]]:
    """All events and all participants of a scene, from the outside in.

    >>> events, participants = parts_of(Scene((Event("see", agent=Entity("dog"), patient=Entity("cat")),)))
    >>> [event.action for event in events], [participant.kind for participant in participants]
    (['see'], ['dog', 'cat'])
    """
    events: list[Event] = list(scene.events)
    participants: list[Participant] = []
    for event in events:  # grows while it is walked: events inside events come later
        if event.content is not None:
            events.append(event.content)
        todo: list[Participant | None] = [event.agent, event.patient, event.recipient, event.instrument, event.than]
        todo.extend(relation.entity for relation in (event.goal, event.place) if relation is not None)
        for participant in todo:
            if participant is None:
                continue
            participants.append(participant)
            if isinstance(participant, Group):
                todo.extend(participant.members)
                continue
            todo.append(participant.owner)
            if participant.detail is not None:
                todo.append(participant.detail.entity)
            if participant.event is not None:
                events.append(participant.event.event)
    return events, participants
