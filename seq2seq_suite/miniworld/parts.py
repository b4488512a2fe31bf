"""The small parts that scenes are drawn from: attributes, names, places, details, times."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.lexicon import ATTRIBUTES, GROUP_OF, GROUPS, Action
from seq2seq_suite.miniworld.world import Entity, Relation, Time

T = TypeVar("T")
PEOPLE = (*GROUPS["person"], *GROUPS["relative"])
_PLACES = tuple(lexicon.PLACE_RELATIONS)
_ORDER = tuple(ATTRIBUTES)
_SMALL_THINGS = ("thing", "text", "wearable", "food", "tool", "device")


def pick(rng: Random, options: Sequence[T]) -> T:
    return options[int(rng.random() * len(options))]


def draw_attributes(rng: Random, kind: str) -> tuple[tuple[str, ...], bool, bool]:
    """Attributes for an entity of this kind, whether they are linked, whether the one is intense."""
    options = lexicon.ATTRIBUTES_OF[kind]
    roll = rng.random()
    if roll < 0.62 or not options:
        return (), False, False
    first = pick(rng, options)
    if roll < 0.9:
        return (first,), False, ATTRIBUTES[first][0] != lexicon.COLOUR and rng.random() < 0.15
    second = pick(rng, options)
    if ATTRIBUTES[first][0] == ATTRIBUTES[second][0]:
        return (first,), False, False
    coloured = lexicon.COLOUR in (ATTRIBUTES[first][0], ATTRIBUTES[second][0])
    return tuple(sorted((first, second), key=_ORDER.index)), roll > 0.95 and not coloured, False


def draw_name(rng: Random) -> Entity:
    family = pick(rng, GROUPS["family_name"]) if rng.random() < 0.35 else ""
    return Entity(pick(rng, GROUPS["first_name"]), reference="named", family=family)


def draw_place(rng: Random) -> Relation:
    """A place where events happen; cities go by their names."""
    kind = pick(rng, _PLACES)
    relation = lexicon.PLACE_RELATIONS[kind]
    if GROUP_OF[kind] == "city":
        return Relation(relation, Entity(kind, reference="named"))
    return Relation(relation, draw_simple(rng, kind, attributes=rng.random() < 0.3))


def draw_simple(rng: Random, kind: str, *, attributes: bool = True, plural: bool = False) -> Entity:
    """A known or new entity with nothing hanging on it."""
    chosen, linked, intense = draw_attributes(rng, kind) if attributes else ((), False, False)
    return Entity(
        kind, plural, "new" if rng.random() < 0.25 else "known", attributes=chosen, linked=linked, intense=intense
    )


def draw_support(rng: Random) -> Relation:
    return Relation(pick(rng, lexicon.SUPPORT_RELATIONS), draw_simple(rng, pick(rng, GROUPS["furniture"])))


def _part(rng: Random, kind: str, *, plural: bool) -> Relation:
    """A part with an attribute: that something has a door is no information."""
    part = pick(rng, lexicon.PARTS[kind])
    attribute = pick(rng, lexicon.ATTRIBUTES_OF[part])
    reference = "new" if rng.random() < 0.3 else "known"
    return Relation("part", Entity(part, plural or part in lexicon.PAIRED_PARTS, reference, attributes=(attribute,)))


def draw_detail(rng: Random, kind: str, governor: Action | None, *, plural: bool) -> Relation | None:
    """What singles the entity out, so that no reader can take it for a part of the event.

    Args:
        governor: the action whose words come before the entity; None if the entity comes before the action.
    """
    group = GROUP_OF[kind]
    options = ["part"] if kind in lexicon.PARTS else []
    if group == "person":
        options += ["carried", "carried", "origin"]
    if group in ("person", "animal", "vehicle", "building") and (governor is None or governor.stative):
        options += ["place", "place"]
    if group in _SMALL_THINGS and (governor is None or governor.frame != "placing"):
        options.append("support")
    if group == "text":
        options.append("topic")
    if kind in lexicon.BOUND_FOR:
        options += ["goal"] * 5
    if group == "occasion" and (governor is None or governor.stative):
        options.append("day")
    match pick(rng, options) if options else "":
        case "part":
            return _part(rng, kind, plural=plural)
        case "carried":
            tools = governor.tools if governor else ()
            carried = [thing for thing in lexicon.CARRIED if thing not in tools]
            return Relation("carried", draw_simple(rng, pick(rng, carried)))
        case "origin" | "goal" as relation:
            return Relation(relation, Entity(pick(rng, GROUPS["city"]), reference="named"))
        case "place":
            place = draw_place(rng)
            return None if place.entity.kind == kind else place
        case "support":
            return draw_support(rng)
        case "topic":
            subject = pick(rng, (*GROUPS["animal"], *PEOPLE))
            return Relation("topic", draw_simple(rng, subject, plural=rng.random() < 0.7))
        case "day":
            return Relation("day", Entity(pick(rng, GROUPS["day"]), reference="named"))
    return None


def draw_time(rng: Random, tense: str) -> Time:
    """A time that goes with the tense."""
    roll = rng.random()
    if roll < 0.22:
        return Time("day", pick(rng, GROUPS["day"]))
    if roll < 0.32:
        return Time("month", pick(rng, GROUPS["month"]))
    if roll < 0.45:
        return Time("occasion_after" if rng.random() < 0.5 else "occasion_before", pick(rng, GROUPS["occasion"]))
    if tense == "past":
        if roll < 0.65:
            return Time("adverb", "yesterday")
        if roll < 0.8:
            return Time("last", pick(rng, ("week", "month", "year")))
        return Time("ago", pick(rng, GROUPS["unit"]), pick(rng, lexicon.NUMBERS))
    if tense == "future":
        return Time("adverb", "tomorrow" if roll < 0.75 else "soon")
    if roll < 0.75:
        return Time("every", pick(rng, (*GROUPS["day_part"], "day", "week", "year")))
    return Time("adverb", "now" if roll < 0.88 else "today")
