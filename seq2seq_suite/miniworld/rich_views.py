"""The views of the rich world, with the columns of the plain one and those that its knobs add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any

from seq2seq_suite.common.trees import Tree
from seq2seq_suite.miniworld import picture_row, question_row, story_rows
from seq2seq_suite.miniworld.chinese import chinese
from seq2seq_suite.miniworld.english import STATES, english
from seq2seq_suite.miniworld.german import german_text
from seq2seq_suite.miniworld.held_out import is_new_combination
from seq2seq_suite.miniworld.homophones import one_owner_each
from seq2seq_suite.miniworld.lexicon_rich import CLASSES, draw_name, draw_noun, noun
from seq2seq_suite.miniworld.parts import pick
from seq2seq_suite.miniworld.pictures import pictures
from seq2seq_suite.miniworld.rich import (
    GAPS,
    Site,
    World,
    all_translations,
    annotated,
    draw_translator,
    falls_in_split,
    has_role_gap,
    other_reading,
    rich_scenes,
    with_words,
)
from seq2seq_suite.miniworld.semantic_roles import semantic_roles
from seq2seq_suite.miniworld.sentences import SIZES as SENTENCES_OF
from seq2seq_suite.miniworld.speech import in_rooms
from seq2seq_suite.miniworld.splits import falls_in, size_of
from seq2seq_suite.miniworld.stories import COLOURS, Cast, questions, summaries
from seq2seq_suite.miniworld.text import english_text, spaced
from seq2seq_suite.miniworld.topics import LABELS, SENTENCES, SIZES, topics
from seq2seq_suite.miniworld.topics import draw_event as draw_topical
from seq2seq_suite.miniworld.translators import MOST, apply_choices
from seq2seq_suite.miniworld.world import Entity, Scene, parts_of

TRANSLATE: dict[str, Callable[[Scene], str]] = {"de": german_text, "zh": chinese}
NAMES = "ABCD"  # of the translators, in a source that names its translator
_PAIRS = {"train": 20_000}
LARGEST = 10**7  # sentences of a split
UNSEEN = 10  # of a hundred names and things of stories, those that training lacks


def rows(
    view: str, split: str, world: World, sizes: dict[str, int], languages: Collection[str]
) -> Iterator[dict[str, Any]]:
    """The rows of a split; see `miniworld.rows`."""
    match view:
        case "trees":
            for scene, tree, site in rich_scenes(split, world, sizes=sizes):
                row: dict[str, Any] = {"tree": str(tree), "sites": []}
                if site:
                    row["sites"] = [[site.begin, site.end, site.verb]]
                    if likelier := _likelier(scene, tree, site):
                        row["oracle"] = str(english(likelier))
                yield row
        case "tags":
            for _, tree, _ in rich_scenes(split, world, sizes=sizes):
                yield {"words": tree.words(), "tags": tree.tags()}
        case "semantic_roles":
            yield from _semantic_roles(split, world, sizes)
        case "topics":
            yield from _topics(split, world, sizes)
        case "translations":
            yield from _translations(split, world, _PAIRS | sizes, languages)
        case "speech":
            pairs = ((scene, tree) for scene, tree, _ in rich_scenes(split, world, sizes=sizes))
            for scene, spoken in in_rooms(pairs, split):
                row = {"audio": spoken, **_texts(scene, spoken.text), "speaker": spoken.voice}
                if "s' " in spoken.text and (likelier := one_owner_each(scene)) != scene:
                    row["oracle"] = _texts(likelier, english_text(likelier))
                yield row
        case "pictures":
            yield from map(picture_row, pictures(split, sizes=sizes, crowded=True))
        case "questions":
            yield from map(question_row, questions(split, sizes=sizes, cast=cast(split, world)))
        case "stories":
            yield from story_rows(split, sizes, cast(split, world))
        case "summaries":
            yield from (
                {"text": text, "summary": end} for text, end in summaries(split, sizes=sizes, cast=cast(split, world))
            )


def _texts(scene: Scene, text: str) -> dict[str, str]:
    """What is said, and its translations."""
    translated = chinese(scene)
    return {"text": text, "translation": translated, "de": german_text(scene), "zh": translated}


def cast(split: str, world: World) -> Cast | None:
    """Draws the people and things of a story from the rich lexicon; None without one.

    Training has 100,000 questions, in which no word would be missing by chance. A tenth of the words are kept from it.
    """
    if not world.words:
        return None
    kept = range(UNSEEN if split == "train" else 0, 100)

    def draw(rng: Random) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        return (
            _different(lambda: draw_name(rng, "anna", world.words), 2, kept),
            _different(lambda: draw_name(rng, "tom", world.words), 2, kept),
            _different(lambda: _thing(rng, world), 4, kept),
        )

    return draw


def _thing(rng: Random, world: World) -> str:
    word = noun(draw_noun(rng, pick(rng, CLASSES["thing"]), world.words, world.cognates)).english
    return f"{rng.choice(COLOURS)} {word}" if rng.random() < 0.3 else word


def _different(draw: Callable[[], str], number: int, kept: range) -> tuple[str, ...]:
    """As many texts, whose last words fall in these of a hundred shares."""
    found: dict[str, None] = {}
    while len(found) < number:
        if falls_in((text := draw()).split()[-1], kept):
            found[text] = None
    return tuple(found)


def _likelier(scene: Scene, tree: Tree, site: Site) -> Scene | None:
    """The other reading of a sentence with a doubtful phrase, if it is the likelier one and has the same words."""
    if (site.verb > 0.5) == (scene.events[0].instrument is not None):
        return None
    other = other_reading(scene)
    return other if english(other).words() == tree.words() else None


def _semantic_roles(split: str, world: World, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Sentences of one event that are no statements of what something is."""
    size, found = size_of(split, SENTENCES_OF | dict.fromkeys(GAPS, SENTENCES_OF["test"]), sizes), 0
    for scene, tree, site in rich_scenes(split, world, sizes={split: LARGEST}):
        if found == size:
            return
        event, *more = scene.events
        if more or event.action in STATES:
            continue
        found += 1
        row = {"words": tree.words(), "tags": semantic_roles(event)}
        likelier = site and _likelier(scene, tree, site)
        yield row | ({"oracle": semantic_roles(likelier.events[0])} if likelier else {})


def _translations(
    split: str, world: World, sizes: dict[str, int], languages: Collection[str]
) -> Iterator[dict[str, Any]]:
    wanted = [language for language in TRANSLATE if language in languages] or list(TRANSLATE)
    if not set(languages) <= {"en", *TRANSLATE}:
        wanted = list(TRANSLATE)
    rng = Random(f"tellers/{split}")
    for scene, tree, _ in rich_scenes(split, world, sizes=sizes):
        choose = draw_translator(rng, world)
        name = f"{NAMES[choose('words', MOST)]}: " if world.ambiguity_named else ""
        row: dict[str, Any] = {"en": name + spaced(tree.words())}
        row |= {language: TRANSLATE[language](apply_choices(scene, choose)) for language in wanted}
        if "de" in wanted and world.words and split != "train":
            row["de_lawless"] = lawless(scene)
        if world.ambiguity > 1 and split != "train":
            row |= {f"{language}_references": _right(scene, world, language, row[language]) for language in wanted}
        yield row


def lawless(scene: Scene) -> list[list[list[str]]]:
    """The nouns whose German no sound law gives: for each its English and its German forms."""
    keys = dict.fromkeys(
        entity.word for entity in parts_of(scene)[1] if isinstance(entity, Entity) and ":" in entity.word
    )
    words = [noun(key) for key in keys if not key.endswith("+")]
    return [
        [[word.english, word.plural], sorted({word.german.singular, word.german.plural, word.german.genitive})]
        for word in words
    ]


def _right(scene: Scene, world: World, language: str, drawn: str) -> list[str]:
    """The right texts, the drawn one first; it alone where the source names the translator."""
    if world.ambiguity_named:
        return [drawn]
    return list(dict.fromkeys([drawn, *all_translations(scene, world, TRANSLATE[language])]))


def _topics(split: str, world: World, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Texts of one to three scenes, with the labels of one annotator and, where they are not those, the true ones."""
    rng, scenes = Random(f"rich/topics/{split}"), _topical(split, world)
    for _ in range(size_of(split, SIZES | {"roles": 500}, sizes)):
        roll = rng.random()
        drawn = [next(scenes) for _ in range(next(number for number, share in SENTENCES if roll < share))]
        true = topics([scene for _, scene in drawn])
        row: dict[str, Any] = {
            "text": " ".join(sentence for sentence, _ in drawn),
            "labels": sorted(annotated(rng, true, LABELS, world)),
        }
        yield row | ({"true": list(true)} if any(world.disagreement) else {})


def _topical(split: str, world: World) -> Iterator[tuple[str, Scene]]:
    rng, seen = Random(f"rich/topics/scenes/{split}"), set[str]()
    while True:
        scene = Scene((draw_topical(rng),))
        if is_new_combination(scene) != (split == "compositional") or has_role_gap(scene) != (split == "roles"):
            continue
        scene = with_words(rng, scene, world)
        sentence = " ".join(english(scene).words())
        if sentence not in seen and falls_in_split(sentence, split):
            seen.add(sentence)
            yield sentence, scene
