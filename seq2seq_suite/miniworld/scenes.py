"""Scenes and how they are drawn: `sample_scene` makes one from a seeded generator.

What a reader needs to bracket a sentence is in the scene and follows from the lexicon:

- a tool goes with the event if the action uses it, otherwise someone has it: one sees a man with a telescope,
  but strikes the man who has the telescope;
- a place goes with the event unless the action is a lasting state; then it belongs to the participant;
- nothing follows a participant that is described by an event, so what follows such an event belongs to it;
- an event that describes one of two nested entities is in the present, and the two differ in number;
- an attribute of a bare group of like kinds holds for all of them.

Only `Random.random` is drawn from: its numbers are the same in every version of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.lexicon import ACTION, AGENTS, GROUP_OF, GROUPS, PATIENTS, Action
from seq2seq_suite.miniworld.parts import (
    PEOPLE,
    draw_attributes,
    draw_detail,
    draw_name,
    draw_place,
    draw_simple,
    draw_support,
    draw_time,
    pick,
)
from seq2seq_suite.miniworld.world import (
    Amount,
    Description,
    Entity,
    Event,
    Group,
    Participant,
    Relation,
    Scene,
    Time,
    has_event,
    is_plural,
    parts_of,
)

__all__ = [
    "Amount",
    "Description",
    "Entity",
    "Event",
    "Group",
    "Participant",
    "Relation",
    "Scene",
    "Time",
    "draw_event",
    "has_event",
    "is_plural",
    "parts_of",
    "sample_scene",
]

_FRAME_WEIGHTS = {
    "transitive": 44,
    "intransitive": 11,
    "transfer": 12,
    "placing": 5,
    "carrying": 4,
    "motion": 5,
    "removal": 4,
    "telling": 3,
    "talking": 3,
    "report": 9,
    "be": 9,
    "exist": 3,
}


def _frame(rng: Random, allowed: Sequence[str]) -> str:
    at = rng.random() * sum(_FRAME_WEIGHTS[frame] for frame in allowed)
    for frame in allowed:
        at -= _FRAME_WEIGHTS[frame]
        if at < 0:
            return frame
    return allowed[-1]


def _entity(rng: Random, kinds: Sequence[str], *, governor: Action | None, described: bool) -> Entity:
    """An entity of one of the kinds; `described` allows an event to describe it."""
    kind = pick(rng, kinds)
    group = GROUP_OF[kind]
    if group == "person" and rng.random() < 0.28:
        return draw_name(rng)
    plural = rng.random() < 0.3 and group not in lexicon.SINGLE_GROUPS
    if rng.random() < (0.12 if group in ("person", "animal") else 0.05):
        return Entity(kind, plural, "given")
    if group == "relative":
        return _relative(rng, kind, plural, governor, described=described)
    attributes, linked, intense = draw_attributes(rng, kind)
    amount, owner, reference = None, None, "known"
    roll = rng.random()
    if roll < 0.3:
        reference = "new"
    elif roll < 0.36:
        reference = "near"
    elif roll < 0.4 and not plural:
        reference = "every"
    elif roll < 0.52 and group not in ("person", "building", "area"):
        owner = (
            draw_name(rng)
            if rng.random() < 0.4
            else Entity(pick(rng, GROUPS["person"]), rng.random() < 0.2, "given" if rng.random() < 0.6 else "known")
        )
    if plural and owner is None and rng.random() < 0.4:
        vague = reference == "new" and rng.random() < 0.6 and (governor is None or not governor.has_topic)
        relation = pick(rng, lexicon.AMOUNTS) if vague else "exactly"
        amount = Amount(pick(rng, lexicon.NUMBERS), relation)
    detail = event = None
    roll = rng.random()
    if roll < (0.5 if kind in lexicon.BOUND_FOR else 0.17):
        detail = draw_detail(rng, kind, governor, plural=plural)
    with_both = detail is not None and detail.kind == "carried" and roll < 0.05
    if described and (with_both or (detail is None and 0.17 <= roll < 0.27)):
        event = _description(rng, kind)
    if event is not None and event.role == "patient" and detail is not None:
        event = None  # `the man with the hat that Anna sees`: the hat or the man?
    return Entity(kind, plural, reference, "", amount, attributes, linked, intense, owner, detail, event)


def _relative(rng: Random, kind: str, plural: bool, governor: Action | None, *, described: bool) -> Entity:
    """Someone's friend, owner or mother; an event may describe either of the two, who then differ in number."""
    whose = pick(rng, GROUPS["animal"] if kind == "owner" else GROUPS["person"])
    if rng.random() < 0.35:
        return Entity(kind, plural, owner=draw_name(rng) if kind != "owner" else Entity(whose))
    attributes, linked, intense = draw_attributes(rng, kind)
    other_attributes = draw_attributes(rng, whose)
    if not described or rng.random() < 0.3:
        other = Entity(whose, rng.random() < 0.4, "known", "", None, *other_attributes)
        return Entity(kind, plural, "known", "", None, attributes, linked, intense, None, Relation("belonging", other))
    outer = rng.random() < 0.5
    event = _description(rng, kind if outer else whose, role="agent", tense="present")
    other = Entity(whose, not plural, "known", "", None, *other_attributes, event=None if outer else event)
    return Entity(
        kind,
        plural,
        "known",
        "",
        None,
        attributes,
        linked,
        intense,
        None,
        Relation("belonging", other),
        event if outer else None,
    )


def _description(rng: Random, kind: str, role: str = "", tense: str = "") -> Description | None:
    """An event in which an entity of this kind takes part."""
    by, on = lexicon.ACTIONS_BY_AGENT[kind], lexicon.ACTIONS_ON_PATIENT[kind]
    if not role:
        role = "agent" if by and (not on or rng.random() < 0.55) else "patient"
    options = by if role == "agent" else on
    if not options:
        return None
    tense = tense or ("past" if rng.random() < 0.5 else "present")
    action = pick(rng, options)
    return Description(role, draw_event(rng, action, tense=tense, gap=role, described=False))


def _participant(rng: Random, kinds: Sequence[str], *, governor: Action | None, described: bool) -> Participant:
    """An entity, or several together; only the last of a group has anything hanging on it."""
    roll = rng.random()
    if roll > 0.11:
        return _entity(rng, kinds, governor=governor, described=described)
    first, second = pick(rng, kinds), pick(rng, kinds)
    if first == second or "relative" in (GROUP_OF[first], GROUP_OF[second]):
        return _entity(rng, kinds, governor=governor, described=described)
    reference = "new" if rng.random() < 0.35 else "known"
    alike = GROUP_OF[first] == GROUP_OF[second]
    single = any(GROUP_OF[kind] in lexicon.SINGLE_GROUPS for kind in (first, second))
    shared = [key for key in lexicon.ATTRIBUTES_OF[first] if key in lexicon.ATTRIBUTES_OF[second]]
    if roll < 0.035 and alike and shared and not single:
        return Group((Entity(first, True, reference), Entity(second, True, reference)), (pick(rng, shared),))
    if roll < 0.055 and not alike and not single:
        attributes = draw_attributes(rng, first)[0][:1]
        return Group((Entity(first, True, reference, attributes=attributes), Entity(second, True, reference)))
    members = [
        draw_name(rng) if GROUP_OF[kind] == "person" and rng.random() < 0.4 else draw_simple(rng, kind)
        for kind in ((first,) if roll < 0.095 else (first, second))
    ]
    last = _entity(
        rng,
        [kind for kind in kinds if kind != first and GROUP_OF[kind] != "relative"] or [second],
        governor=governor,
        described=described,
    )
    if last.reference == "given" or last in members:
        last = Entity(second)
    return Group((*members, last), choice=governor is not None and rng.random() < 0.15)


def _goal(rng: Random, action: Action, *, described: bool) -> Relation:
    """Where something goes or comes from, or what is talked about."""
    match action.frame:
        case "placing":
            return draw_support(rng)
        case "motion" | "carrying":
            return Relation("origin" if action.key == "come" else "goal", draw_place(rng).entity)
        case "removal":
            if rng.random() < 0.5:
                return Relation("origin", draw_simple(rng, pick(rng, GROUPS["furniture"])))
            return Relation("origin", _entity(rng, GROUPS["person"], governor=action, described=described))
    return Relation(
        "topic", _entity(rng, (*GROUPS["animal"], *PEOPLE, *GROUPS["building"]), governor=action, described=described)
    )


def _has_hands(agent: Participant | None) -> bool:
    members = agent.members if isinstance(agent, Group) else (agent,)
    return all(member is not None and GROUP_OF[member.kind] != "animal" for member in members)


def draw_event(
    rng: Random,
    action: Action,
    *,
    tense: str,
    gap: str = "",
    agent: Participant | None = None,
    described: bool = True,
    timed: str = "",
) -> Event:
    """An event of this action.

    Args:
        gap: agent | patient, the role that the described entity fills, left empty.
        agent: who does it, if that is settled.
        described: participants after the action may be described by events.
        timed: free | late | empty: the event may say when, first or last; only last; not at all.
    """
    patient = recipient = goal = instrument = place = content = time = None
    about, manner, modality = "agent", "", ""
    new = "theme" if rng.random() < 0.5 else "recipient"
    passive = action.frame == "transitive" and gap != "agent" and agent is None and rng.random() < 0.2
    if agent is None and gap != "agent":
        agent = _participant(rng, AGENTS[action.key], governor=action if passive else None, described=described)
    two = action.frame in ("transfer", "placing", "carrying", "removal", "telling")
    if PATIENTS[action.key] and gap != "patient":
        last = not two or (action.frame == "transfer" and new == "theme")
        patient = _participant(
            rng, PATIENTS[action.key], governor=None if passive else action, described=described and last
        )
        if passive and not isinstance(patient, Entity):
            patient = patient.members[-1]
    if passive:
        about = "patient"
    if action.frame == "transfer":
        recipient = _entity(rng, GROUPS["person"], governor=action, described=described and new == "recipient")
        if new == "theme" and isinstance(patient, Entity) and patient.reference == "given":
            new = "recipient"
    elif action.frame not in ("intransitive", "transitive", "report"):
        goal = _goal(rng, action, described=described)
    if action.frame == "report":
        content = _clause(rng, reports=False, timed="late")
    ends_open = not any(map(has_event, (agent if passive else patient, recipient, goal and goal.entity)))
    ends_open = ends_open and content is None
    if ends_open and action.tools and _has_hands(agent) and rng.random() < 0.45:
        instrument = draw_simple(rng, pick(rng, action.tools))
    if ends_open and not action.stative and not goal and rng.random() < (0.08 if instrument else 0.24):
        place = draw_place(rng)
    elif ends_open and action.key in lexicon.WITH_MANNER and not gap and rng.random() < 0.15:
        manner = pick(rng, lexicon.MANNERS)
    must_be_first = not ends_open or action.stative  # `likes the concert on Monday`: the concert is on Monday
    if timed and not (must_be_first and timed == "late") and rng.random() < 0.3:
        time = draw_time(rng, tense)
    first = time is not None and timed == "free" and (must_be_first or rng.random() < 0.4)
    frequency = pick(rng, lexicon.FREQUENCIES) if tense == "present" and not time and rng.random() < 0.1 else ""
    if tense == "present" and not gap and not frequency and not time and rng.random() < 0.1:
        modality = "can" if rng.random() < 0.5 else "must"
    negated = not frequency and not gap and rng.random() < 0.07
    return Event(
        action.key,
        tense,
        agent,
        patient,
        recipient,
        instrument,
        goal,
        content,
        (),
        None,
        place,
        time,
        manner,
        frequency,
        modality,
        negated,
        about,
        new,
        first,
    )


def _state(rng: Random, tense: str) -> Event:
    """Something has a quality, is somewhere, is a kind of thing or is more than another."""
    kinds = (*PEOPLE, *GROUPS["animal"], *GROUPS["thing"], *GROUPS["vehicle"], *GROUPS["building"])
    agent = _participant(rng, kinds, governor=None, described=True)
    kind = (agent if isinstance(agent, Entity) else agent.members[-1]).kind
    negated = rng.random() < 0.1
    roll = rng.random()
    options = lexicon.ATTRIBUTES_OF.get(kind) or lexicon.ATTRIBUTES_OF["man"]
    if roll < 0.5:
        first, second = pick(rng, options), pick(rng, options)
        quality = (first, second) if first != second and rng.random() < 0.35 else (first,)
        return Event("be", tense, agent, quality=quality, negated=negated)
    if roll < 0.7 and isinstance(agent, Entity):
        fitting = [key for key in lexicon.COMPARABLE if key in options]
        if fitting:
            than = draw_simple(rng, pick(rng, [other for other in kinds if GROUP_OF[other] != "relative"]))
            return Event("be", tense, agent, quality=(pick(rng, fitting),), than=than, negated=negated)
    if roll < 0.85 and isinstance(agent, Entity) and agent.reference == "named":
        job = Entity(pick(rng, ("teacher", "doctor", "farmer", "student", "artist")), reference="new")
        return Event("be", tense, agent, job, negated=negated)
    return Event("be", tense, agent, place=draw_place(rng), negated=negated)


def _clause(
    rng: Random,
    *,
    reports: bool = True,
    described: bool = True,
    agent: Participant | None = None,
    tense: str = "",
    timed: str = "free",
) -> Event:
    """An event or a state that can stand alone."""
    roll = rng.random()
    tense = tense or ("past" if roll < 0.42 else "future" if roll < 0.5 else "present")
    frames = [frame for frame in _FRAME_WEIGHTS if reports or frame != "report"]
    if agent is not None:
        frames = [frame for frame in frames if frame not in ("be", "exist")]
    frame = _frame(rng, frames)
    if frame == "be":
        return _state(rng, "past" if tense == "past" else "present")
    if frame == "exist":
        kind = pick(rng, (*GROUPS["animal"], *GROUPS["thing"], *GROUPS["person"]))
        plural = rng.random() < 0.4
        amount = Amount(pick(rng, lexicon.NUMBERS), "exactly") if plural and rng.random() < 0.6 else None
        there = Entity(kind, plural, "new", amount=amount, attributes=draw_attributes(rng, kind)[0][:1])
        place = draw_support(rng) if GROUP_OF[kind] == "thing" else draw_place(rng)
        return Event("exist", "past" if tense == "past" else "present", patient=there, place=place)
    options = lexicon.ACTIONS_WITH_FRAME[frame]
    if agent is not None:
        able = [
            action
            for action in options
            if isinstance(agent, Entity) and ("boy" if agent.reference == "named" else agent.kind) in AGENTS[action.key]
        ]
        options = able or (ACTION["sleep"],)
    return draw_event(rng, pick(rng, options), tense=tense, agent=agent, described=described, timed=timed)


def sample_scene(rng: Random) -> Scene:
    """Draw a scene.

    >>> sample_scene(Random(3)) == sample_scene(Random(3))
    True
    """
    roll = rng.random()
    if roll < 0.86:
        return Scene((_clause(rng),))
    if roll < 0.93:
        agent = _entity(
            rng, PEOPLE if rng.random() < 0.7 else GROUPS["animal"], governor=None, described=rng.random() < 0.5
        )
        tense = "past" if rng.random() < 0.5 else "present"
        first = _clause(rng, reports=False, described=False, agent=agent, tense=tense, timed="late")
        second = _clause(rng, reports=False, agent=agent, tense=tense, timed="late")
        return Scene((first,)) if first.action == second.action else Scene((first, second), "and")
    if roll < 0.97:
        first = _clause(rng, reports=False)
        return Scene((first, _clause(rng, reports=False, timed="late")), "and" if rng.random() < 0.7 else "but")
    first = _clause(rng, reports=False, described=False, timed="late")
    second = _clause(rng, reports=False, timed="late")
    return Scene((first, second), pick(rng, ("because", "when", "if")), rng.random() < 0.4)
