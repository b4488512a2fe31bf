"""What holds for the small world in German and in Chinese, sentence by sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise

import pytest

from benchmarks.translation_baselines import dictionary
from seq2seq_suite.common.examples import Example
from seq2seq_suite.metrics.bleu import score_translations
from seq2seq_suite.miniworld import lexicon
from seq2seq_suite.miniworld.chinese import chinese
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.german import german, german_text
from seq2seq_suite.miniworld.lexicon import ACTIONS, AGENTS, GROUPS, PATIENTS
from seq2seq_suite.miniworld.sentences import scenes
from seq2seq_suite.miniworld.text import english_text, spaced
from seq2seq_suite.miniworld.world import Amount, Description, Entity, Event, Relation, Scene, Time

SPLITS = {"train": 1500, "test": 1000, "compositional": 1000}
LANGUAGES: tuple[Callable[[Scene], str], ...] = (german_text, chinese)
SAME_IN_BOTH = {  # names, and words that English and German share
    "anna",
    "maria",
    "lena",
    "tom",
    "peter",
    "paul",
    "weber",
    "novak",
    "rossi",
    "berlin",
    "paris",
    "new",
    "york",
    "ball",
    "bus",
    "hammer",
    "park",
    "radio",
    "radios",
    "student",
    "sang",
    "an",
    "in",
    ".",
    ",",
}


@pytest.fixture(scope="module")
def world() -> list[Scene]:
    return [scene for split, size in SPLITS.items() for scene in scenes(split, sizes={split: size})]


def event_of(action: lexicon.Action, agent: Entity, patient: Entity | None, **fields: object) -> Event:
    """An event of the action with all that its frame asks for."""
    event = Event(action.key, agent=agent, patient=patient, **fields)  # type: ignore[arg-type]
    man, table = Entity("man"), Entity("table")
    match action.frame:
        case "transfer":
            return replace(event, recipient=man)
        case "placing":
            return replace(event, goal=Relation("on", table))
        case "removal":
            return replace(event, goal=Relation("origin", table))
        case "carrying" | "motion":
            return replace(event, goal=Relation("origin" if action.key == "come" else "goal", Entity("park")))
        case "telling" | "talking":
            return replace(event, goal=Relation("topic", man))
        case "report":
            return replace(event, content=Event("sleep", agent=man))
    return event


def every_action(reference: str = "known") -> Iterator[Scene]:
    """Each action with each of its agents and each of its patients, one or several."""
    for action in ACTIONS:
        patients = [Entity(kind, plural, reference) for kind in PATIENTS[action.key] for plural in (False, True)]
        for patient in patients or [None]:
            yield Scene((event_of(action, Entity(AGENTS[action.key][0]), patient),))
        for kind in AGENTS[action.key]:
            for plural in (False, True):
                yield Scene((event_of(action, Entity(kind, plural, reference), patients[0] if patients else None),))


def every_other_concept() -> Iterator[Scene]:
    """Each kind, name, attribute, relation, number, amount, time, manner and frequency."""

    def sleeps(agent: Entity, **fields: object) -> Scene:
        return Scene((Event("sleep", agent=agent, **fields),))  # type: ignore[arg-type]

    apart = ("first_name", "family_name", "city", "day", "month", "unit", "day_part")
    for kind in (kind for group, kinds in GROUPS.items() if group not in apart for kind in kinds):
        for reference in ("known", "new", "near", "every", "given"):
            for plural in (False, True)[: 2 - (reference == "every")]:
                yield sleeps(Entity(kind, plural, reference))
        for part in lexicon.PARTS.get(kind, ()):
            yield sleeps(Entity(kind, detail=Relation("part", Entity(part, attributes=("big",)))))
        for attribute in lexicon.ATTRIBUTES_OF[kind]:
            yield sleeps(Entity(kind, attributes=(attribute,)))
            yield Scene((Event("be", agent=Entity(kind), quality=(attribute,)),))
        for attribute in lexicon.COMPARABLE:
            yield Scene((Event("be", agent=Entity(kind), quality=(attribute,), than=Entity("dog")),))
    for name in GROUPS["first_name"]:
        yield from (sleeps(Entity(name, reference="named", family=family)) for family in ("", *GROUPS["family_name"]))
    for kind, where in lexicon.PLACE_RELATIONS.items():
        place = Entity(kind, reference="named" if kind in GROUPS["city"] else "known")
        yield sleeps(Entity("man"), place=Relation(where, place))
        for relation in ("origin", "goal"):
            yield Scene((Event("go", agent=Entity("man"), goal=Relation(relation, place)),))
    for kind in GROUPS["furniture"]:
        yield from (sleeps(Entity("cat", detail=Relation(where, Entity(kind)))) for where in lexicon.SUPPORT_RELATIONS)
    for kind in lexicon.CARRIED:
        yield sleeps(Entity("man", detail=Relation("carried", Entity(kind))))
    for number in lexicon.NUMBERS:
        for relation in ("exactly", *lexicon.AMOUNTS):
            yield sleeps(Entity("man", True, "new", amount=Amount(number, relation)))
    for day in GROUPS["day"]:
        yield sleeps(Entity("party", detail=Relation("day", Entity(day, reference="named"))))
    times = [
        *(("day", day) for day in GROUPS["day"]),
        *(("month", month) for month in GROUPS["month"]),
        *(("every", unit) for unit in (*GROUPS["unit"], *GROUPS["day_part"])),
        *(("last", unit) for unit in GROUPS["unit"]),
        *(("ago", unit) for unit in GROUPS["unit"]),
        *((kind, what) for kind in ("occasion_after", "occasion_before") for what in GROUPS["occasion"]),
        *(("adverb", word) for word in ("yesterday", "today", "tomorrow", "now", "soon")),
    ]
    yield from (sleeps(Entity("man"), time=Time(kind, value, 2)) for kind, value in times)
    yield from (sleeps(Entity("man"), manner=manner) for manner in lexicon.MANNERS)
    yield from (sleeps(Entity("man"), frequency=frequency) for frequency in lexicon.FREQUENCIES)
    yield from (sleeps(Entity("man"), modality=modality) for modality in ("can", "must"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_concept_has_words(language: Callable[[Scene], str]) -> None:
    translated = {language(scene) for scene in (*every_action(), *every_other_concept())}
    assert len(translated) > 2000 and all(len(sentence) > 2 for sentence in translated)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_action_has_all_its_forms(language: Callable[[Scene], str]) -> None:
    for action in ACTIONS:
        patient = Entity(PATIENTS[action.key][0]) if PATIENTS[action.key] else None
        event = event_of(action, Entity(AGENTS[action.key][0]), patient)
        forms = [
            replace(event, tense=tense, negated=negated)
            for tense in ("present", "past", "future")
            for negated in (False, True)
        ]
        forms += [
            replace(event, modality=modality, negated=negated)
            for modality in ("can", "must")
            for negated in (False, True)
        ]
        if action.frame == "transitive":
            forms += [replace(form, about="patient") for form in forms]
        assert len({language(Scene((form,))) for form in forms}) == len(forms), action.key


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_kinds_names_or_actions_share_their_words(language: Callable[[Scene], str]) -> None:
    apart = ("first_name", "family_name", "city", "day", "month", "unit", "day_part")
    things = [kind for group, kinds in GROUPS.items() if group not in apart for kind in kinds]
    translated = [language(Scene((Event("be", agent=Entity(kind), quality=("big",)),))) for kind in things]
    translated += [
        language(Scene((Event("sleep", agent=Entity(name, reference="named")),)))
        for name in (*GROUPS["first_name"], *GROUPS["city"])
    ]
    actions = [
        language(Scene((event_of(action, Entity("man"), Entity("cup") if PATIENTS[action.key] else None),)))
        for action in ACTIONS
    ]
    assert len(set(translated)) == len(translated) and len(set(actions)) == len(actions)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_english_has_the_same_translation_whatever_a_pronoun_stands_for(
    language: Callable[[Scene], str],
) -> None:
    translations: dict[str, set[str]] = defaultdict(set)
    count = 0
    for scene in every_action("given"):
        translations[english_text(scene)].add(language(scene))
        count += 1
    assert count > 3 * len(translations)
    assert {text: found for text, found in translations.items() if len(found) > 1} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_english_leaves_out_of_a_participle_changes_nothing(language: Callable[[Scene], str]) -> None:
    def translated(**fields: str) -> tuple[str, str]:
        event = Event("watch", agent=Entity("king"), about="patient", **fields)  # type: ignore[arg-type]
        scene = Scene((Event("sleep", agent=Entity("dog", event=Description("patient", event))),))
        return english_text(scene), language(scene)

    assert len({translated(tense="present"), translated(tense="past"), translated(frequency="often")}) == 1


def with_other_news(part: object) -> Iterator[object]:
    """The same with the news swapped in one event, wherever it is."""
    if isinstance(part, Event):
        yield replace(part, new="theme" if part.new == "recipient" else "recipient")
    if isinstance(part, tuple):
        for at, item in enumerate(part):
            yield from ((*part[:at], other, *part[at + 1 :]) for other in with_other_news(item))
    elif is_dataclass(part):
        for field in fields(part):
            yield from (
                replace(part, **{field.name: other})  # type: ignore[type-var]
                for other in with_other_news(getattr(part, field.name))
            )


@pytest.fixture(scope="module")
def with_news(world: list[Scene]) -> list[tuple[Scene, list[tuple[Scene, bool]]]]:
    """Each scene, and those with other news, with whether their English is the same."""
    found = []
    for scene in world:
        others, text = list(with_other_news(scene)), english_text(scene)
        assert all(isinstance(other, Scene) for other in others)
        found.append((scene, [(other, english_text(other) == text) for other in others]))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_news_changes_a_translation_only_if_it_changes_the_english(
    with_news: list[tuple[Scene, list[tuple[Scene, bool]]]], language: Callable[[Scene], str]
) -> None:
    translated = left_out = 0
    for scene, others in with_news:
        text = language(scene)
        for other, in_same_english in others:
            if in_same_english:
                left_out += 1
                assert language(other) == text
            else:
                translated += language(other) != text
    assert left_out > 3000 and translated > 50


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_share_a_translation_only_if_they_are_made_of_the_same_words(
    world: list[Scene], language: Callable[[Scene], str]
) -> None:
    translated: dict[str, set[str]] = defaultdict(set)
    for scene in world:
        translated[language(scene)].add(" ".join(sorted(english(scene).words())))
    assert len(translated) > 0.99 * len(world)
    assert [sentences for sentences in translated.values() if len(sentences) > 1] == []


def test_other_processes_tell_the_same() -> None:
    command = (
        "from seq2seq_suite.miniworld.sentences import scenes\n"
        "from seq2seq_suite.miniworld.chinese import chinese\n"
        "from seq2seq_suite.miniworld.german import german\n"
        "for scene in scenes('test', sizes={'test': 50}): print(ascii((german(scene), chinese(scene))))"
    )
    translated = {
        subprocess.run(
            [sys.executable, "-c", command],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": salt},
        ).stdout
        for salt in ("1", "2")
    }
    here = "".join(f"{(german(scene), chinese(scene))!a}\n" for scene in scenes("test", sizes={"test": 50}))
    assert translated == {here}


def test_no_english_word_is_left_in_german(world: list[Scene]) -> None:
    def words(tokens: Callable[[Scene], list[str]]) -> set[str]:
        return {word.lower() for scene in world for word in tokens(scene)}

    assert words(german) & words(lambda scene: english(scene).words()) == SAME_IN_BOTH


def test_chinese_is_characters_with_full_width_punctuation_and_no_spaces(world: list[Scene]) -> None:
    for scene in world:
        assert re.fullmatch(r"[\u4e00-\u9fff·、，]+。", chinese(scene)), chinese(scene)
        assert not re.search("[·、，]{2}|[·、，]。|的的|了了|不不|正在在", chinese(scene)), chinese(scene)


def test_german_ends_in_its_only_full_stop_and_never_doubles_a_comma(world: list[Scene]) -> None:
    for scene in world:
        tokens = german(scene)
        assert tokens[0][0].isupper() and tokens[-1] == "." and tokens.count(".") == 1
        assert not any(left == "," and right in (",", ".") for left, right in pairwise(tokens))
        assert not any(" " in token or not token for token in tokens)


def test_text_is_spaced_as_it_is_printed() -> None:
    friends = Entity("friend", owner=Entity("girl", plural=True))
    scene = Scene((Event("sing", agent=friends, time=Time("day", "friday"), time_first=True),))
    assert english_text(scene) == "On Friday, the girls' friend sings."
    assert german_text(scene) == "Am Freitag singt die Freundin der Mädchen."
    assert spaced([]) == ""


@pytest.mark.parametrize(
    "write, languages, tokenizer",
    [(german_text, ("en", "de"), "13a"), (chinese, ("en", "zh"), "zh")],
    ids=["german", "chinese"],
)
def test_a_word_by_word_dictionary_fails(write, languages: tuple[str, str], tokenizer: str) -> None:
    def pairs(split: str, size: int) -> list[Example]:
        return [Example(english_text(scene), write(scene)) for scene in scenes(split, sizes={split: size})]

    translate, test = dictionary(pairs("train", 1000), languages), pairs("test", 200)
    output = translate([example.source for example in test])
    score = score_translations(output, [example.reference for example in test], tokenizer=tokenizer)
    assert 5 < score.figures["bleu"] < 35
