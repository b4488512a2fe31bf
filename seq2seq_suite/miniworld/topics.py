"""Short texts of one to three scenes, and labels that are true of them.

Only main clauses count. Who acts and who is affected follows from word order, voice and subordination, not from the
words alone: in `The cat that the dog chased sees Anna` an animal acts and a person is affected, and nothing chases.
The scenes are drawn so that people, animals and named people take every part; a bag of words cannot decide which, and
`benchmarks/multilabel_baselines.py` measures how far it comes.

>>> from seq2seq_suite.miniworld.world import Entity, Event, Scene
>>> chase = Event("chase", "past", agent=Entity("dog"), patient=Entity("boy"), about="patient")
>>> topics([Scene((chase,))])
('animal_acts', 'person_affected', 'pursuit')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.held_out import is_new_combination
from seq2seq_suite.miniworld.lexicon import (
    ACTION,
    AGENTS,
    ATTRIBUTES_OF,
    CARRIED,
    GENDERS,
    GROUP_OF,
    GROUPS,
    PATIENTS,
    Action,
)
from seq2seq_suite.miniworld.parts import draw_name, draw_place, pick
from seq2seq_suite.miniworld.sentences import belongs
from seq2seq_suite.miniworld.splits import size_of
from seq2seq_suite.miniworld.world import (
    Description,
    Entity,
    Event,
    Group,
    Participant,
    Relation,
    Scene,
    is_plural,
)

SIZES = {"train": 20000, "validation": 500, "test": 1000, "compositional": 500}
SENTENCES = ((1, 0.6), (2, 0.9), (3, 1.0))  # how many, up to which share
_PEOPLE = ("person", "relative")
_KINDS = {
    "see": "perception",
    "watch": "perception",
    "find": "perception",
    "chase": "pursuit",
    "catch": "pursuit",
    "like": "thought",
    "know": "thought",
    "remember": "thought",
    "strike": "",
    "paint": "",
    "visit": "",
}
LABELS = (
    "person_acts",
    "animal_acts",
    "name_acts",
    "several_act",
    "person_affected",
    "animal_affected",
    "object_affected",
    "name_affected",
    "several_affected",
    "perception",
    "pursuit",
    "thought",
    "tool",
    "negation",
)
_OBJECTS = (*GROUPS["thing"], *GROUPS["vehicle"], *GROUPS["furniture"])
_TENSES = (("past", 0.45), ("present", 0.85), ("future", 1.0))


def texts(split: str, *, seed: int = 0, sizes: dict[str, int] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    """(text, labels) of a split. The splits share no sentence, and `compositional` holds new combinations, as in
    `miniworld.scenes`.

    Args:
        split: one of `miniworld.SPLITS`.
        seed: the same seed gives the same texts in every process.
        sizes: number of texts by split, where it is not that of `SIZES`.

    Raises:
        ValueError: there is no such split.

    >>> text, labels = texts("test", sizes={"test": 3})[1]
    >>> text.count(".") in (1, 2, 3) and set(labels) <= set(LABELS)
    True
    """
    size = size_of(split, SIZES, sizes)
    rng, scenes = Random(f"topics/{seed}/{split}"), _scenes(split, seed)
    found = []
    for _ in range(size):
        roll = rng.random()
        drawn = [next(scenes) for _ in range(next(number for number, share in SENTENCES if roll < share))]
        found.append((" ".join(sentence for sentence, _ in drawn), topics([scene for _, scene in drawn])))
    return found


def _scenes(split: str, seed: int) -> Iterator[tuple[str, Scene]]:
    """Scenes of a split with their sentences, each another one."""
    rng = Random(f"topics/scenes/{seed}/{split}")
    seen: set[str] = set()
    while True:
        scene = Scene((draw_event(rng),))
        if is_new_combination(scene) != (split == "compositional"):
            continue
        sentence = " ".join(english(scene).words())
        if sentence not in seen and belongs(sentence, split):
            seen.add(sentence)
            yield sentence, scene


def draw_event(rng: Random) -> Event:
    """Someone does something to someone or something; the one that the sentence is about may be described."""
    action = ACTION[pick(rng, tuple(_KINDS))]
    roll = rng.random()
    tense = next(tense for tense, share in _TENSES if roll < share)
    about = "patient" if rng.random() < 0.35 else "agent"
    described = rng.random() < 0.4
    agent = _someone(rng, AGENTS[action.key], action, described=described and about == "agent")
    patient = _someone(rng, PATIENTS[action.key], action, described=described and about == "patient", objects=True)
    tool = place = None
    if action.tools and GROUP_OF[agent.kind] != "animal" and rng.random() < 0.3:
        tool = Entity(pick(rng, action.tools))
    elif not action.stative and rng.random() < 0.25:
        place = draw_place(rng)
    negated = rng.random() < 0.12
    return Event(action.key, tense, agent, patient, instrument=tool, place=place, negated=negated, about=about)


def _someone(
    rng: Random, able: Sequence[str], action: Action, *, described: bool = False, objects: bool = False
) -> Entity:
    """A being, or a thing if `objects` may be; people may have a tool that is of no use for the action."""
    sorts = [GROUPS["person"], GROUPS["animal"], *[_OBJECTS] * objects]
    fitting = [kinds for sort in sorts if (kinds := [kind for kind in sort if kind in able])]
    kinds = pick(rng, fitting)
    if kinds[0] in GROUPS["person"] and rng.random() < 0.35:
        return draw_name(rng)
    kind, plural = pick(rng, kinds), rng.random() < 0.3
    attributes = (pick(rng, ATTRIBUTES_OF[kind]),) if rng.random() < 0.3 else ()
    description = _description(rng, kind) if described else None
    detail = None
    if kind in GROUPS["person"] and description is None and rng.random() < 0.25:
        detail = Relation("carried", Entity(pick(rng, [tool for tool in CARRIED if tool not in action.tools])))
    return Entity(
        kind, plural, "known" if rng.random() < 0.7 else "new", attributes=attributes, detail=detail, event=description
    )


def _description(rng: Random, kind: str) -> Description | None:
    """`that Anna saw` or `who chases a cat`, of which nothing counts."""
    role = "patient" if rng.random() < 0.5 else "agent"
    fitting = [key for key in _KINDS if kind in (PATIENTS if role == "patient" else AGENTS)[key]]
    if not fitting:
        return None
    key, tense = pick(rng, fitting), "past" if rng.random() < 0.5 else "present"
    if role == "patient":
        return Description(role, Event(key, tense, agent=_someone(rng, AGENTS[key], ACTION[key])))
    return Description(
        role,
        Event(key, tense, patient=_someone(rng, PATIENTS[key], ACTION[key], objects=True), negated=rng.random() < 0.3),
    )


def topics(scenes: Sequence[Scene]) -> tuple[str, ...]:
    """The labels that are true of the main clauses of some scenes, in alphabetical order."""
    return tuple(sorted({label for scene in scenes for event in main_events(scene) for label in _labels(event)}))


def main_events(scene: Scene) -> tuple[Event, ...]:
    """The events of the main clauses: not those after `because`, `when` or `if`, nor reports and descriptions."""
    return scene.events if scene.link in ("", "and", "but") else scene.events[:1]


def _labels(event: Event) -> Iterator[str]:
    if _KINDS.get(event.action):
        yield _KINDS[event.action]
    if event.action not in ("be", "exist"):
        yield from (f"{sort}_acts" for sort in _sorts(event.agent) if sort != "object")
        yield from (f"{sort}_affected" for sort in _sorts(event.patient))
        if event.agent is not None and is_plural(event.agent):
            yield "several_act"
        if event.patient is not None and is_plural(event.patient):
            yield "several_affected"
    if event.instrument is not None:
        yield "tool"
    if event.negated:
        yield "negation"


def _sorts(participant: Participant | None) -> set[str]:
    """What someone is, if the words show it: `it` and `they` may be anything."""
    if participant is None:
        return set()
    if isinstance(participant, Group):
        return set().union(*map(_sorts, participant.members))
    if participant.reference == "named":
        return {"person", "name"}
    if participant.reference == "given" and (participant.plural or participant.kind not in GENDERS):
        return set()
    group = GROUP_OF[participant.kind]
    return {"person" if group in _PEOPLE else "animal" if group == "animal" else "object"}
