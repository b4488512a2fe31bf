"""Short stories of people who move, take, leave and give things, with questions about the resulting state.

The answers need the story's state: who moved last where, who holds what and where that one is, whom a pronoun means,
what did not happen. Most sentences of a story do not bear on its question.

>>> asked = questions("test", sizes={"test": 1})[0]
>>> len(asked.story) >= 5, asked.question.endswith("?")
(True, True)
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from seq2seq_suite.miniworld.splits import falls_in, size_of

SPLITS = ("train", "validation", "test", "longer")
SIZES = {"train": 100_000, "validation": 1000, "test": 2000, "longer": 1000}  # questions
STORIES = {"train": 30_000, "validation": 500, "test": 1000, "longer": 500}  # with their ends
QUESTIONS = 3  # of a story, each of another kind
LENGTHS = {"longer": (10, 13)}  # sentences; `longer` asks whether what was learned holds for longer stories
_LENGTH = (5, 8)
_SHARES = {"train": range(0, 80), "validation": range(80, 90), "test": range(90, 100)}  # of CRC-32 modulo 100

WOMEN = ("Anna", "Maria", "Lena", "Julia")
MEN = ("Tom", "Peter", "Paul", "David")
PLACES = ("kitchen", "garden", "office", "school", "park", "library", "station", "market")
THINGS = ("ball", "book", "letter", "key", "cup", "hat", "lamp", "apple")
COLOURS = ("red", "green", "blue")
NUMBERS = ("none", "one", "two", "three", "four")


@dataclass(frozen=True)
class Asked:
    """A question about a story.

    Args:
        story: its sentences.
        question, answer: text.
        kind: where, where thing, where before, who has, who is, who gave, to whom, what gave, what has, how many
            things, how many people, is in, has.
    """

    story: tuple[str, ...]
    question: str
    answer: str
    kind: str


@dataclass
class _World:
    """The state of a story, and its sentences so far."""

    people: list[str]
    places: list[str]
    things: list[str]
    where: dict[str, list[str]] = field(default_factory=dict)  # person -> places, the present one last
    holder: dict[str, str] = field(default_factory=dict)  # thing -> person
    lies: dict[str, str] = field(default_factory=dict)  # thing -> place
    gifts: list[tuple[str, str, str]] = field(default_factory=list)  # giver, thing, recipient
    women: tuple[str, ...] = WOMEN
    sentences: list[str] = field(default_factory=list)
    subject: tuple[str, ...] = ()  # of the last sentence
    mentioned: tuple[str, ...] = ()  # people and things in the last sentence

    def place_of(self, person: str) -> str:
        """Where a person is, empty if the story has not said so."""
        places = self.where.get(person)
        return places[-1] if places else ""

    def near(self, place: str) -> list[str]:
        """Who is in a place."""
        return [person for person in self.people if self.place_of(person) == place]

    def held_by(self, person: str) -> list[str]:
        """What a person has."""
        return [thing for thing in self.things if self.holder.get(thing) == person]


Cast = Callable[[Random], tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]  # two women, two men, four things


def questions(
    split: str, *, seed: int = 0, sizes: dict[str, int] | None = None, cast: Cast | None = None
) -> list[Asked]:
    """The questions of a split.

    A story decides by its CRC-32 between train, validation and test, so they share none, whatever their sizes and
    seeds; those of `longer` are longer than all others.

    Args:
        split: one of `SPLITS`.
        seed: the same seed gives the same questions in every process and version of Python.
        sizes: number of questions by split, where it is not that of `SIZES`.
        cast: draws who is in a story, and what; None draws from the few of this module.

    Raises:
        ValueError: there is no such split.
    """
    size = size_of(split, SIZES, sizes)
    rng = Random(f"stories/{seed}/{split}")
    kept: list[Asked] = []
    for world in _worlds(rng, split, cast):
        kept.extend(_ask(rng, world))
        if len(kept) >= size:
            break
    return kept[:size]


def summaries(
    split: str, *, sizes: dict[str, int] | None = None, cast: Cast | None = None
) -> Iterator[tuple[str, str]]:
    """The same stories as texts, each with where its people are at the end.

    >>> next(summaries("test"))[1]
    'David is in the library.'
    """
    stories = ((" ".join(world.sentences), _end(world)) for world in _worlds(Random(f"stories/0/{split}"), split, cast))
    if cast is not None:  # ends divide, too: no test asks for what training has word for word
        stories = ((story, end) for story, end in stories if split in LENGTHS or falls_in(end, _SHARES[split]))
    return islice(((story, end) for story, end in stories if end), size_of(split, STORIES, sizes))


def _worlds(rng: Random, split: str, cast: Cast | None) -> Iterator[_World]:
    """Worlds with different stories, those of a split."""
    seen: set[str] = set()
    while True:
        world = _generate(rng, rng.randint(*LENGTHS.get(split, _LENGTH)), cast)
        text = " ".join(world.sentences)
        if text in seen or not (split in LENGTHS or falls_in(text, _SHARES[split])):
            continue
        seen.add(text)
        yield world


def _end(world: _World) -> str:
    """Where people are, those in one place together."""
    there: dict[str, list[str]] = {}
    for person in world.where:
        there.setdefault(world.place_of(person), []).append(person)
    return " ".join(
        f"{', '.join(people[:-1])}{' and ' if people[1:] else ''}{people[-1]} "
        f"{'are' if people[1:] else 'is'} in the {place}."
        for place, people in there.items()
    )


# -- generation -----------------------------------------------------------------------------------------------------


def _generate(rng: Random, length: int, cast: Cast | None) -> _World:
    if cast is None:
        things = [f"{rng.choice(COLOURS)} {thing}" if rng.random() < 0.3 else thing for thing in rng.sample(THINGS, 4)]
        world = _World([*rng.sample(WOMEN, 2), *rng.sample(MEN, 2)], rng.sample(PLACES, 4), things)
    else:
        women, men, found = cast(rng)
        world = _World([*women, *men], rng.sample(PLACES, 4), list(found), women=women)
    while len(world.sentences) < length:
        _ACTIONS[bisect(_UP_TO, rng.random() * _UP_TO[-1])](rng, world)
    return world


def _someone(rng: Random, world: _World) -> str:
    """Often the one whom the last sentence was about, so that stories hang together."""
    if len(world.subject) == 1 and rng.random() < 0.45:
        return world.subject[0]
    return rng.choice(world.people)


def _say(rng: Random, world: _World, subject: tuple[str, ...], rest: str, *others: str) -> None:
    """Tell a sentence; `others` are the people and things in it besides its subject."""
    name = " and ".join(subject)
    start = name
    if subject == world.subject and rng.random() < 0.6:
        pronoun = "they" if subject[1:] else "she" if subject[0] in world.women else "he"
        rivals = [
            other
            for other in world.mentioned
            if other in world.people and other not in subject and (other in world.women) == (pronoun == "she")
        ]
        if pronoun == "they" or not rivals:
            start = rng.choice(("", "Then ", "After that ")) + pronoun
    thing = next((other for other in others if other in world.things), None)
    spoken_of = [other for other in world.mentioned if other in world.things]
    if thing is not None and spoken_of == [thing] and rng.random() < 0.6:
        rest = rest.replace(f"the {thing}", "it")
    sentence = f"{start} {rest}."
    world.sentences.append(sentence[0].upper() + sentence[1:])
    world.subject, world.mentioned = subject, (*subject, *others)


def _move(rng: Random, world: _World) -> None:
    subject: tuple[str, ...] = (_someone(rng, world),)
    if len(world.subject) == 2 and rng.random() < 0.4:
        subject = world.subject
    elif rng.random() < 0.25:
        subject = (subject[0], rng.choice([person for person in world.people if person != subject[0]]))
    left = [world.place_of(person) for person in subject]
    goals = [place for place in world.places if place not in left]
    if not goals:
        return
    # Gifts need two people in one place.
    there = [world.place_of(person) for person in world.people]
    peopled = [place for place in goals if place in there]
    goal = rng.choice(peopled if peopled and rng.random() < 0.5 else goals)
    for person in subject:
        world.where.setdefault(person, []).append(goal)
    _say(rng, world, subject, f"{rng.choice(('went', 'walked', 'ran', 'came'))} to the {goal}")


def _take(rng: Random, world: _World) -> None:
    person = _someone(rng, world)
    place = world.place_of(person)
    within_reach = [
        thing for thing in world.things if thing not in world.holder and world.lies.get(thing, place) == place
    ]
    if not place or not within_reach:
        return
    thing = rng.choice(within_reach)
    world.lies.pop(thing, None)
    world.holder[thing] = person
    _say(rng, world, (person,), f"{rng.choice(('took', 'picked up', 'found'))} the {thing}", thing)


def _leave(rng: Random, world: _World) -> None:
    person = _someone(rng, world)
    held = world.held_by(person)
    if not held:
        return
    thing = rng.choice(held)
    del world.holder[thing]
    world.lies[thing] = world.place_of(person)
    _say(rng, world, (person,), rng.choice((f"dropped the {thing}", f"left the {thing} there")), thing)


def _give(rng: Random, world: _World) -> None:
    holders, giver = set(world.holder.values()), _someone(rng, world)
    if not holders:
        return
    if giver not in holders:
        giver = rng.choice([person for person in world.people if person in holders])
    near = [person for person in world.near(world.place_of(giver)) if person != giver]
    if not near:
        return
    thing, recipient = rng.choice(world.held_by(giver)), rng.choice(near)
    world.holder[thing] = recipient
    world.gifts.append((giver, thing, recipient))
    gave = rng.choice((f"gave the {thing} to {recipient}", f"handed the {thing} to {recipient}"))
    _say(rng, world, (giver,), gave, thing, recipient)


def _deny(rng: Random, world: _World) -> None:
    """What did not happen."""
    person, thing = _someone(rng, world), rng.choice(world.things)
    if rng.random() < 0.6:
        _say(rng, world, (person,), f"did not go to the {rng.choice(world.places)}")
    elif thing not in world.holder:
        _say(rng, world, (person,), f"did not take the {thing}", thing)


_ACTIONS = (_move, _take, _give, _leave, _deny)
_UP_TO = (9, 15, 29, 32, 34)  # cumulated weights: a gift is tried most often, since it needs most


# -- asking --------------------------------------------------------------------------------------------------------


def _ask(rng: Random, world: _World) -> list[Asked]:
    """Questions of different kinds, as far as the story answers so many."""
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, question, answer in _facts(rng, world):
        found.setdefault(kind, []).append((question, answer))
    kinds = rng.sample(sorted(found), min(QUESTIONS, len(found)))
    return [Asked(tuple(world.sentences), *rng.choice(found[kind]), kind) for kind in kinds]


def _facts(rng: Random, world: _World) -> Iterator[tuple[str, str, str]]:
    """All that may be asked: (kind, question, answer)."""
    yield from _facts_of_places(rng, world)
    for thing in world.holder:
        holder = world.holder[thing]
        yield "where thing", f"Where is the {thing}?", f"in the {world.place_of(holder)}"
        yield "who has", f"Who has the {thing}?", holder
        person = holder if rng.random() < 0.6 else rng.choice(world.people)
        yield "has", f"Does {person} have the {thing}?", "yes" if person == holder else "no"
    for thing, place in world.lies.items():
        yield "where thing", f"Where is the {thing}?", f"in the {place}"
        yield "has", f"Does {rng.choice(world.people)} have the {thing}?", "no"
    story = " ".join(world.sentences)
    for person in world.people:
        held = world.held_by(person)
        if f"{person} " in story and (held or rng.random() < 0.3):
            yield "how many things", f"How many things does {person} have?", NUMBERS[len(held)]
        if len(held) == 1:
            yield "what has", f"What does {person} have?", f"the {held[0]}"
    for giver, thing, recipient in world.gifts:
        if sum(gift[1:] == (thing, recipient) for gift in world.gifts) == 1:
            yield "who gave", f"Who gave the {thing} to {recipient}?", giver
        if sum(gift[:2] == (giver, thing) for gift in world.gifts) == 1:
            yield "to whom", f"Who did {giver} give the {thing} to?", recipient
        if sum(gift[::2] == (giver, recipient) for gift in world.gifts) == 1:
            yield "what gave", f"What did {giver} give to {recipient}?", f"the {thing}"


def _facts_of_places(rng: Random, world: _World) -> Iterator[tuple[str, str, str]]:
    for person, places in world.where.items():
        yield "where", f"Where is {person}?", f"in the {places[-1]}"
        elsewhere = [place for place in world.places if place != places[-1]]
        asked = places[-1] if rng.random() < 0.5 else rng.choice(elsewhere)
        yield "is in", f"Is {person} in the {asked}?", "yes" if asked == places[-1] else "no"
        if len(places) > 1 and places.count(places[-1]) == 1:
            yield "where before", f"Where was {person} before the {places[-1]}?", f"in the {places[-2]}"
    if len(world.where) == len(world.people):  # where someone might be anywhere, nobody can be counted
        for place in dict.fromkeys(map(world.place_of, world.people)):
            there = world.near(place)
            yield "how many people", f"How many people are in the {place}?", NUMBERS[len(there)]
            if len(there) == 1:
                yield "who is", f"Who is in the {place}?", there[0]
