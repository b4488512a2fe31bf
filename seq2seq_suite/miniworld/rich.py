"""The rich world: the scenes of `scenes` with many words, several translators, ambiguous attachments and training gaps.

Every knob of `World` makes one thing hard that a method may be good at; with all of them off the rows are of the plain
world's kind. A scene is drawn as there, then changed, then expressed.

>>> world = World(words=2000)
>>> scene, tree, _ = next(rich_scenes("train", world))
>>> len(tree.words()) <= 22
True
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.held_out import is_new_combination, kinds_of
from seq2seq_suite.miniworld.lexicon_rich import CLASS_OF, draw_name, draw_noun
from seq2seq_suite.miniworld.parts import draw_simple, pick
from seq2seq_suite.miniworld.scenes import draw_event, sample_scene
from seq2seq_suite.miniworld.sentences import MAX_WORDS, SIZES
from seq2seq_suite.miniworld.splits import falls_in, size_of
from seq2seq_suite.miniworld.translators import Choice, all_choices, apply_choices, by_habit
from seq2seq_suite.miniworld.world import Entity, Event, Group, Participant, Relation, Scene, changed, parts_of

GAPS = ("roles", "deeper", "longer")
SPLITS = (*SIZES, *GAPS)
_SHARES = {"train": range(0, 80), "validation": range(80, 88), "test": range(88, 100)}  # of CRC-32 modulo 100
_LONGER = (MAX_WORDS + 1, 40)  # words
_ROLES_ONE_IN = 10  # kinds that training has never as a patient, and never as an agent


@dataclass(frozen=True)
class World:
    """What makes the rich world hard.

    Args:
        words: nouns of each of three classes, and first names, by Zipf's law; 0: the 75 nouns and 6 names of `lexicon`.
        cognates: share of the nouns whose German follows from the English by sound laws.
        ambiguity: translators, and so right translations of a text; 1 is one.
        ambiguity_skew: the share of each of them.
        ambiguity_scope: `sentence`: one translator a sentence; `choice`: every choice is made by itself.
        ambiguity_named: the source names its translator, so that nothing is left to choose.
        attachment: standard deviation, in logits, of what verbs and nouns prefer a `with` phrase to belong to, in half
            of the sentences; 0: the verb decides.
        disagreement: share of true labels that an annotator leaves out, and of false ones that he adds.
    """

    words: int = 0
    cognates: float = 0.5
    ambiguity: int = 1
    ambiguity_skew: tuple[float, ...] = (0.55, 0.25, 0.12, 0.08)
    ambiguity_scope: str = "sentence"
    ambiguity_named: bool = False
    attachment: float = 0.0
    disagreement: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Site:
    """A phrase that may belong to the verb or to the noun before it.

    Args:
        begin, end: its words, from 0, the end not among them.
        verb: probability that it belongs to the verb.
    """

    begin: int
    end: int
    verb: float


def rich_scenes(
    split: str, world: World, *, seed: int = 0, sizes: dict[str, int] | None = None
) -> Iterator[tuple[Scene, Tree, Site | None]]:
    """The scenes of a split, each with its English sentence's tree and its doubtful phrase, if it has one.

    As in `sentences.scenes_with_trees`, a sentence's CRC-32 divides train, validation and test, and `compositional`
    has what training does not combine. Of the gaps, `roles` has kinds in a role in which training lacks them,
    `deeper` three reports or genitives within each other, `longer` sentences of 23 to 40 words.

    Raises:
        ValueError: there is no such split.
    """
    size = size_of(split, dict.fromkeys(SPLITS, SIZES["test"]) | SIZES, sizes)
    rng = Random(f"rich/{seed}/{split}")
    seen: set[str] = set()
    doubtful = bool(world.attachment) and rng.random() < 0.5
    while len(seen) < size:
        scene = _drawn(rng, split) if not doubtful else _doubtful(rng)
        if scene is None or is_new_combination(scene) != (split == "compositional"):
            continue
        if has_role_gap(scene) != (split == "roles") and split not in GAPS[1:]:
            continue
        verb = None
        if doubtful:
            scene, verb = _with_site(rng, scene, world.attachment)
        scene = with_words(rng, scene, world)
        tree = english(scene)
        words = tree.words()
        sentence = " ".join(words)
        shortest, longest = _LONGER if split == "longer" else (0, MAX_WORDS + 8 * (split == "deeper"))
        if not shortest <= len(words) <= longest or sentence in seen or not falls_in_split(sentence, split):
            continue
        seen.add(sentence)
        doubtful = bool(world.attachment) and rng.random() < 0.5
        yield scene, tree, None if verb is None else Site(*_last_phrase(words), verb)


def falls_in_split(sentence: str, split: str) -> bool:
    """Whether a sentence may be in a split; every one may in those that ask for what training lacks."""
    return split not in _SHARES or falls_in(sentence, _SHARES[split])


def _drawn(rng: Random, split: str) -> Scene | None:
    """A scene for a split; None where what was drawn will not do."""
    scene = sample_scene(rng)
    if split == "longer":
        second = sample_scene(rng)
        if scene.events[1:] or second.events[1:] or second.events[0].time_first:
            return None
        return Scene((scene.events[0], second.events[0]), "and" if rng.random() < 0.7 else "but")
    if split == "deeper":
        return _deeper(rng, scene)
    return scene


def _deeper(rng: Random, scene: Scene) -> Scene | None:
    """What someone says that someone thinks that someone asked, or the friend of the mother of the owner of a cat."""
    event = scene.events[0]
    if len(scene.events) > 1 or event.content is not None:
        return None
    if rng.random() < 0.5:
        if event.time_first:
            return None
        for _ in range(3):
            action, tense = pick(rng, ("say", "think", "ask")), "past" if rng.random() < 0.5 else "present"
            event = Event(action, tense, agent=draw_simple(rng, pick(rng, lexicon.GROUPS["person"])), content=event)
        return Scene((event,))
    agent = event.agent
    if (
        not isinstance(agent, Entity)
        or agent.reference in ("named", "given")
        or event.about == "patient"
        or agent.detail is not None
        or agent.event is not None
        or agent.owner is not None
    ):
        return None
    owner = Entity(agent.kind, attributes=agent.attributes, linked=agent.linked, intense=agent.intense)
    for _ in range(3):
        owner = Entity(pick(rng, lexicon.GROUPS["relative"]), rng.random() < 0.3, detail=Relation("belonging", owner))
    return Scene((changed(event, agent=owner),)) if event.action in _OF_PEOPLE else None


_OF_PEOPLE = frozenset(action.key for action in lexicon.ACTIONS if "friend" in lexicon.AGENTS[action.key])


def has_role_gap(scene: Scene) -> bool:
    """Whether a kind stands in a role in which training never has it: `roles` alone may have that."""
    events, _ = parts_of(scene)
    return any(
        kind in role_gaps(role)
        for event in events
        for role, participant in (("agent", event.agent), ("patient", event.patient))
        for kind in kinds_of(participant)
    )


@cache
def role_gaps(role: str) -> frozenset[str]:
    """One kind in ten that can be both agent and patient: by the CRC-32 of its name."""
    rest = ("agent", "patient").index(role)
    both = [kind for kind in lexicon.GROUP_OF if lexicon.ACTIONS_BY_AGENT[kind] and lexicon.ACTIONS_ON_PATIENT[kind]]
    return frozenset(kind for kind in both if zlib.crc32(kind.encode()) % _ROLES_ONE_IN == rest)


# -- words ---------------------------------------------------------------------------------------------------------


def with_words(rng: Random, scene: Scene, world: World) -> Scene:
    """The scene with a noun of its kind for each entity, the same for all of a kind, and with other first names."""
    if not world.words:
        return scene
    drawn: dict[str, str] = {}

    def word(entity: Entity) -> str:
        if entity.kind not in drawn:
            named = lexicon.GROUP_OF[entity.kind] == "first_name"
            drawn[entity.kind] = (
                draw_name(rng, entity.kind, world.words)
                if named
                else draw_noun(rng, entity.kind, world.words, world.cognates)
            )
        return drawn[entity.kind]

    return changed(scene, events=tuple(_with_words(event, word) for event in scene.events))


def _with_words(event: Event, word: Callable[[Entity], str]) -> Event:
    def participant(one: Participant | None) -> Participant | None:
        if isinstance(one, Group):
            return changed(one, members=tuple(map(entity, one.members)))
        return None if one is None else entity(one)

    def entity(one: Entity) -> Entity:
        if one.reference == "given":
            return one
        described = one.event
        if described is not None:
            described = changed(described, event=_with_words(described.event, word))
        return changed(
            one,
            word=word(one),
            owner=None if one.owner is None else entity(one.owner),
            detail=relation(one.detail),
            event=described,
        )

    def relation(one: Relation | None) -> Relation | None:
        return None if one is None else Relation(one.kind, entity(one.entity))

    patient = event.patient if event.action == "be" else participant(event.patient)  # what someone is has a word
    return changed(
        event,
        agent=participant(event.agent),
        patient=patient,
        recipient=participant(event.recipient),
        instrument=participant(event.instrument),
        than=participant(event.than),
        goal=relation(event.goal),
        place=relation(event.place),
        content=None if event.content is None else _with_words(event.content, word),
    )


# -- attachment ----------------------------------------------------------------------------------------------------


_TRANSITIVE = tuple(action for action in lexicon.ACTIONS_WITH_FRAME["transitive"] if not action.stative)
_COMPANIONS = tuple(kind for kind in lexicon.CARRIED if kind in CLASS_OF)


def _doubtful(rng: Random) -> Scene:
    """A scene in which a verb and the noun after it may both have a phrase with `with`."""
    while True:
        roll = rng.random()
        event = draw_event(rng, pick(rng, _TRANSITIVE), tense="past" if roll < 0.5 else "present", timed="free")
        patient = event.patient
        if event.about == "agent" and isinstance(patient, Entity) and patient.reference not in ("named", "given"):
            return Scene((event,))


def _with_site(rng: Random, scene: Scene, spread: float) -> tuple[Scene, float]:
    """The scene with a phrase that belongs to the verb or to its patient, and the probability that it is the verb."""
    event = scene.events[0]
    companion = draw_simple(rng, pick(rng, _COMPANIONS))
    assert isinstance(event.patient, Entity)
    patient = changed(event.patient, detail=None, event=None)
    verb = preference(event.action, patient.kind, companion.kind, spread)
    event = changed(event, manner="", place=None, time=event.time if event.time_first else None)
    if rng.random() < verb:
        return Scene((changed(event, patient=patient, instrument=companion),)), verb
    patient = changed(patient, detail=Relation("carried", companion))
    return Scene((changed(event, patient=patient, instrument=None),)), verb


def other_reading(scene: Scene) -> Scene:
    """A scene of `_with_site` with its phrase at the other place; its sentence has the same words."""
    (event,) = scene.events
    assert isinstance(event.patient, Entity)
    if event.instrument is not None:
        patient = changed(event.patient, detail=Relation("carried", event.instrument))
        return Scene((changed(event, patient=patient, instrument=None),))
    assert event.patient.detail is not None
    return Scene((changed(event, patient=changed(event.patient, detail=None), instrument=event.patient.detail.entity),))


def preference(action: str, patient: str, companion: str, spread: float) -> float:
    """Probability that a phrase belongs to the verb: a logistic function of what verb, noun and companion prefer.

    Half of the variance is the verb's, a fifth each the noun's and the companion's, a tenth that of verb and companion
    together.
    """
    parts = ((0.5, action), (0.2, f"{patient} ."), (0.2, f". {companion}"), (0.1, f"{action} {companion}"))
    logit = spread * sum(math.sqrt(share) * _normal(key) for share, key in parts)
    return 1 / (1 + math.exp(-logit))


@cache
def _normal(key: str) -> float:
    """A normal deviate that belongs to a key, by Box and Muller's formula."""
    rng = Random(f"attachment/{key}")
    return math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())


def _last_phrase(words: Sequence[str]) -> tuple[int, int]:
    """Where the last phrase with `with` begins and ends."""
    begin = max(at for at, word in enumerate(words) if word == "with")
    return begin, len(words) - 1  # the full stop


# -- translators -------------------------------------------------------------------------------------------------------


def draw_translator(rng: Random, world: World) -> Choice:
    """The choices of a translator drawn by the skew; in the scope `choice`, each choice is drawn when first needed."""
    if world.ambiguity_scope == "sentence":
        return by_habit(_by_skew(rng, world.ambiguity_skew[: world.ambiguity]))
    made: dict[str, int] = {}

    def choose(what: str, options: int) -> int:
        if what not in made:
            made[what] = _by_skew(rng, world.ambiguity_skew[: min(options, world.ambiguity)])
        return made[what]

    return choose


def _by_skew(rng: Random, skew: tuple[float, ...]) -> int:
    at = rng.random() * sum(skew)
    for option, share in enumerate(skew):
        at -= share
        if at < 0:
            return option
    return len(skew) - 1


def all_translations(scene: Scene, world: World, translate: Callable[[Scene], str], most: int = 64) -> list[str]:
    """All different right texts, the first translator's first; at most `most` where choices are independent."""
    if world.ambiguity_scope == "sentence":
        return list(
            dict.fromkeys(translate(apply_choices(scene, by_habit(number))) for number in range(world.ambiguity))
        )
    return all_choices(lambda choose: translate(apply_choices(scene, choose)), world.ambiguity, most)


# -- annotators ----------------------------------------------------------------------------------------------------


def annotated(rng: Random, labels: tuple[str, ...], known: tuple[str, ...], world: World) -> tuple[str, ...]:
    """The labels of one annotator: of the true ones some are left out, of the others some are added; never none."""
    dropped, added = world.disagreement
    while True:
        found = tuple(
            label for label in known if (rng.random() >= dropped if label in labels else rng.random() < added)
        )
        if found or not labels:
            return found
