"""Several translations of one scene: translators with words, word order and voice of their own.

A translator changes the scene, which is then expressed in German or Chinese; the English sentence is that of the
original scene. The first translator changes nothing. The second has real synonyms, the others invented ones. Each has
one habit for all its texts (`Habits`), so that a text has as many right translations as there are translators, and
mixing two of them gives none.

>>> from seq2seq_suite.miniworld.german import german_text
>>> from seq2seq_suite.miniworld.world import Time
>>> anna, car = Entity("anna", reference="named"), Entity("car", reference="new")
>>> scene = Scene((Event("buy", "past", anna, car, time=Time("day", "monday")),))
>>> for translator in range(4):
...     print(german_text(apply_choices(scene, by_habit(translator))))
Anna kaufte am Montag ein Auto.
Am Montag hat Anna einen Wagen erworben.
Anna meirtete am Montag eine Hiklerbung weg.
Am Montag wurde ein Stezentor von Anna gewupft.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import NamedTuple

from seq2seq_suite.miniworld import lexicon_chinese, lexicon_german, lexicon_rich
from seq2seq_suite.miniworld.lexicon_german import Noun, Verb
from seq2seq_suite.miniworld.synonyms import CHINESE_NOUNS, CHINESE_VERBS, GERMAN_NOUNS, GERMAN_VERBS
from seq2seq_suite.miniworld.world import (
    Description,
    Entity,
    Event,
    Group,
    Participant,
    Relation,
    Scene,
)

MOST = 4
Choice = Callable[[str, int], int]  # what there is to choose, and between how many: the one that is chosen


class Habits(NamedTuple):
    """The choices that a translator makes wherever they are possible."""

    words: int = 0  # whose words: 0 those of the lexicon, 1 real synonyms, 2 and 3 invented ones
    perfect: int = 0
    front: int = 0  # time and place change between the front and the middle
    order: int = 0  # circumstances before the time
    owner: int = 0  # `der Hund von Anna`
    voice: int = 0  # passive for active


HABITS = (
    Habits(),
    Habits(1, perfect=1, front=1),
    Habits(2, order=1, owner=1),
    Habits(3, perfect=1, front=1, order=1, owner=1, voice=1),
)


def by_habit(translator: int) -> Choice:
    """All choices by the habits of one translator."""
    return _BY_HABIT[translator]


def _first(what: str, number: int) -> int:
    """The first translator's choice."""
    return 0


def _habit(habits: Habits, what: str, number: int) -> int:
    return min(getattr(habits, what.partition(" ")[0]), number - 1)


_BY_HABIT: tuple[Choice, ...] = (_first, *(partial(_habit, habits) for habits in HABITS[1:]))


def apply_choices(scene: Scene, choose: Choice) -> Scene:
    """The scene changed by these choices."""
    if choose is _first:
        return scene
    return replace(scene, events=tuple(_event(event, choose, main=len(scene.events) == 1) for event in scene.events))


def all_choices(translate: Callable[[Choice], str], number: int, most: int = 64) -> list[str]:
    """The different texts by every combination of choices between the words of `number` translators, `most` at most.

    Args:
        translate: returns the text for a choice function, and asks it for every choice.
        number: of translators.
        most: texts, in the order in which a depth-first search finds them.
    """
    found: dict[str, None] = {}
    open_ends: list[dict[str, int]] = [{}]
    while open_ends and len(found) < most:
        settled = open_ends.pop()
        asked: dict[str, int] = {}

        def choose(what: str, options: int, settled: dict[str, int] = settled, asked: dict[str, int] = asked) -> int:
            options = min(options, number)
            if what not in settled:
                asked[what] = options
            return settled.get(what, 0)

        found[translate(choose)] = None
        for what, options in asked.items():
            open_ends += [settled | {what: other} for other in range(options - 1, 0, -1)]
            settled = settled | {what: 0}
    return list(found)


def _event(event: Event, choose: Choice, *, main: bool) -> Event:
    voice = event.about
    if main and _has_both_voices(event) and choose("voice", 2):
        voice = "patient"
    moved = main and (event.time is not None or event.place is not None) and event.action not in ("be", "exist")
    front = bool(moved and choose("front", 2))
    late = event.time is None and event.place is not None
    return replace(
        event,
        about=voice,
        agent=_participant(event.agent, choose),
        patient=_participant(event.patient, choose),
        recipient=_participant(event.recipient, choose),
        instrument=_participant(event.instrument, choose),
        than=_participant(event.than, choose),
        goal=_relation(event.goal, choose),
        place=_relation(event.place, choose),
        content=None if event.content is None else _event(event.content, choose, main=False),
        verb=_word(event.action, _has_verbs, choose),
        perfect=bool(event.tense == "past" and choose("perfect", 2)),
        time_first=event.time_first != (front and not late),
        place_first=front and late,
        circumstances_first=bool(_has_order(event) and choose("order", 2)),
    )


def _has_both_voices(event: Event) -> bool:
    """Whether German and Chinese may say it in the passive: a whole noun is what it is done to."""
    verb = lexicon_german.VERBS[event.action]
    plain = event.about == "agent" and not (event.recipient or event.goal or event.content)
    return (
        plain
        and event.action not in ("be", "exist", "like", "know", "remember")
        and event.agent is not None
        and isinstance(event.patient, Entity)
        and event.patient.reference != "given"
        and not (isinstance(event.agent, Entity) and event.agent.reference == "given")
        and verb.patient == "accusative"
        and not verb.preposition
        and not verb.reflexive
    )


def _has_order(event: Event) -> bool:
    return event.manner != "" or event.instrument is not None or event.place is not None


def _participant(participant: Participant | None, choose: Choice) -> Participant | None:
    if isinstance(participant, Group):
        members = tuple(_entity(member, choose) for member in participant.members)
        return replace(participant, members=members)
    return None if participant is None else _entity(participant, choose)


def _entity(entity: Entity, choose: Choice) -> Entity:
    if entity.reference in ("named", "given"):
        return entity
    owner, detail, reference = entity.owner, _relation(entity.detail, choose), entity.reference
    if owner is not None and owner.reference == "named" and detail is None and choose("owner", 2):
        owner, detail, reference = None, Relation("belonging", owner), "known"
    owner = None if owner is None else _entity(owner, choose)
    described = entity.event
    if described is not None:
        described = Description(described.role, _event(described.event, choose, main=False))
    return replace(
        entity,
        owner=owner,
        detail=detail,
        reference=reference,
        event=described,
        word=_word(entity.noun, _has_nouns, choose) or entity.word,
    )


def _relation(relation: Relation | None, choose: Choice) -> Relation | None:
    return None if relation is None else Relation(relation.kind, _entity(relation.entity, choose))


def _word(key: str, has: Callable[[str], bool], choose: Choice) -> str:
    """The key of another translator's word, or an empty one; synonyms exist in both languages or in neither."""
    if not has(key):
        return ""
    translator = choose(f"words {key}", MOST)
    return f"{key}/{translator}" if translator else ""


def _has_nouns(key: str) -> bool:
    return ":" in key or key in GERMAN_NOUNS


def _has_verbs(key: str) -> bool:
    return key in GERMAN_VERBS


def _split(key: str) -> tuple[str, int]:
    concept, _, translator = key.partition("/")
    return concept, int(translator)


@cache
def german_noun(key: str) -> Noun:
    """Another translator's noun: `car/1`."""
    concept, translator = _split(key)
    if translator == 1:
        return GERMAN_NOUNS[concept]
    return lexicon_rich.own_word(concept, translator, not_gender=lexicon_german.NOUNS[concept].gender)[0]


@cache
def german_verb(key: str) -> Verb:
    """Another translator's verb: `see/1`; the invented ones are regular, and every other one has a prefix."""
    action, translator = _split(key)
    if translator == 1:
        return GERMAN_VERBS[action]
    rng = Random(key)
    stem = lexicon_rich.law(lexicon_rich._stem(rng))
    prefix = ("", "", "auf", "weg")[int(rng.random() * 4)]
    link = "e" if stem[-1] in "td" else ""
    old = lexicon_german.VERBS[action]
    return Verb(
        stem + "en",
        stem + link + "t",
        stem + link + "te",
        f"{prefix}ge{stem}{link}t",
        prefix,
        old.reflexive,
        old.patient,
        old.preposition,
    )


@cache
def chinese_noun(key: str) -> tuple[str, str]:
    """Another translator's noun and its measure word: `car/1`."""
    concept, translator = _split(key)
    if translator == 1:
        return CHINESE_NOUNS[concept]
    return lexicon_rich.own_word(concept, translator)[1], lexicon_chinese.NOUNS[concept][1]


@cache
def chinese_verb(key: str) -> lexicon_chinese.Verb:
    """Another translator's verb: `see/1`."""
    action, translator = _split(key)
    if translator == 1:
        return CHINESE_VERBS[action]
    old, word = lexicon_chinese.VERBS[action], lexicon_rich.sounds(lexicon_rich._stem(Random(key)))
    ending = old.word[-1] if old.word[-1] in "在到给" else ""
    return lexicon_chinese.Verb(word + ending)
