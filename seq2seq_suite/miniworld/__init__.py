"""Embedded data: a small world of scenes, seen as each kind of data set that the suite reads.

`rows` is the only door, beside `version` and `start_voices`. What it yields has the columns that users' own data have,
so that no other module of the suite imports a generator. All of it is seeded: the same rows in every process and
version of Python.

>>> next(iter(rows("trees", "test", size=1)))["tree"].startswith("(TOP (S ")
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import DataError

if TYPE_CHECKING:
    from seq2seq_suite.miniworld.pictures import Drawn
    from seq2seq_suite.miniworld.rich import World
    from seq2seq_suite.miniworld.stories import Asked, Cast

_SCENES = ("train", "validation", "test", "compositional")
# View -> its splits. `compositional` holds combinations of parts that training lacks, `longer` longer stories.
VIEWS: dict[str, tuple[str, ...]] = {
    "trees": _SCENES,
    "translations": _SCENES,
    "speech": _SCENES,
    "topics": _SCENES,
    "questions": ("train", "validation", "test", "longer"),
    "stories": ("train", "validation", "test", "longer"),
    "pictures": ("train", "validation", "test"),
    "tags": _SCENES,
    "summaries": ("train", "validation", "test", "longer"),
    "semantic_roles": _SCENES,
}
# The rich world's further splits, which ask for what training lacks.
GAPS: dict[str, tuple[str, ...]] = dict.fromkeys(("trees", "translations", "tags"), ("roles", "deeper", "longer"))
GAPS |= {"topics": ("roles",), "semantic_roles": ("roles", "deeper")}
TEXTS = VIEWS.keys() - {"speech", "pictures"}  # views whose rows are texts alone


def rows(
    view: str, split: str, *, size: int = 0, languages: Collection[str] = (), world: World | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a split.

    Args:
        view: what is seen of the world, and so the columns:
            trees          tree: an English sentence with its tree, in brackets
            translations   en, de, zh: the same scene as text in three languages
            speech         audio: an English sentence, spoken; text, de, zh; translation, which is zh; speaker
            topics         text, labels
            questions      question, context, answer, type
            stories        text: the contexts of `questions`, each once
            pictures       image, objects: {bbox, categories}
            tags           words, tags: those of `trees`, without their brackets
            summaries      text, summary: a story, and where its people are at the end
            semantic_roles words, tags: who does what to whom in a sentence of one event, as spans in BIO
        split: one of `VIEWS[view]`; they share no sentence, story or handwritten digit.
        size: how many rows; 0 for the view's own number.
        languages: of translations, those that are wanted beside English; empty for all.
        world: the knobs of the rich world; None is the plain one. The rich one has further columns:
            trees          sites: [[begin, end, probability that it belongs to the verb]], of words; oracle: the
                           likelier tree, where that is another
            translations   de_references, zh_references: all right texts, where there is more than one translator;
                           de_lawless: nouns that cannot be translated without having been seen, their English and
                           their German forms
            speech         oracle: text and translations of the likelier scene that sounds the same, where that is
                           another
            topics         true: the labels without an annotator's mistakes
            semantic_roles oracle: the tags of the likelier reading, where that is another

    Raises:
        DataError: there is no such view or split.
    """
    for name, known, what in ((view, tuple(VIEWS), "view"), (split, splits_of(view, world), "split")):
        if name not in known:
            raise DataError(
                f"miniworld has no {what} '{name}'",
                expected=f"one of {', '.join(known)}",
                remedy=f"name one of these {what}s",
            )
    sizes = {split: size} if size else {}
    if world is not None:
        from seq2seq_suite.miniworld import rich_views

        return rich_views.rows(view, split, world, sizes, languages)
    return _translations(split, sizes, languages) if view == "translations" else _GENERATORS[view](split, sizes)


def rich_world(**knobs: Any) -> World:
    """The rich world with these knobs, see `rich.World`."""
    from seq2seq_suite.miniworld.rich import World

    return World(**knobs)


def splits_of(view: str, world: World | None = None) -> tuple[str, ...]:
    """The splits of a view; the rich world has gaps beside them."""
    return VIEWS.get(view, ()) + (GAPS.get(view, ()) if world is not None else ())


def version() -> str:
    """A hash of the code that generates, and so of the rows; what else changes them must not be kept under its name."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def start_voices(number: int) -> None:
    """Start the processes that speak, no more than these from now on: for a process that will lose the right to."""
    from seq2seq_suite.miniworld.speaker import SPEAKERS

    SPEAKERS.fix(number)


def _trees(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.sentences import scenes_with_trees

    return ({"tree": str(tree)} for _, tree in scenes_with_trees(split, sizes=sizes))


def _translations(split: str, sizes: dict[str, int], languages: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.chinese import chinese
    from seq2seq_suite.miniworld.german import german_text
    from seq2seq_suite.miniworld.sentences import scenes_with_trees
    from seq2seq_suite.miniworld.text import spaced

    writers = {"de": german_text, "zh": chinese}
    if set(languages) <= {"en", *writers}:
        writers = {language: write for language, write in writers.items() if language in languages} or writers
    # The grammar of two languages takes more examples than brackets do: 6,000 pairs were overfitted.
    for scene, tree in scenes_with_trees(split, sizes={"train": 20_000} | sizes):
        yield {"en": spaced(tree.words()), **{language: write(scene) for language, write in writers.items()}}


def _speech(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.chinese import chinese
    from seq2seq_suite.miniworld.german import german_text
    from seq2seq_suite.miniworld.speech import utterances

    for scene, spoken in utterances(split, sizes=sizes):
        translated = chinese(scene)
        yield {
            "audio": spoken,
            "text": spoken.text,
            "translation": translated,
            "de": german_text(scene),
            "zh": translated,
            "speaker": spoken.voice,
        }


def _topics(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.topics import texts

    return ({"text": text, "labels": list(labels)} for text, labels in texts(split, sizes=sizes))


def _questions(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.stories import questions

    return map(question_row, questions(split, sizes=sizes))


def question_row(asked: Asked) -> dict[str, Any]:
    """The row of a question."""
    return {"question": asked.question, "context": " ".join(asked.story), "answer": asked.answer, "type": asked.kind}


def story_rows(split: str, sizes: dict[str, int], cast: Cast | None = None) -> Iterator[dict[str, Any]]:
    """The stories of `questions`, each once; `cast` as there."""
    from seq2seq_suite.miniworld.stories import QUESTIONS, questions

    enough = {name: QUESTIONS * size for name, size in sizes.items()}
    stories = dict.fromkeys(" ".join(asked.story) for asked in questions(split, sizes=enough, cast=cast))
    return ({"text": story} for story in islice(stories, sizes.get(split)))


def _pictures(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.pictures import pictures

    return map(picture_row, pictures(split, sizes=sizes))


def picture_row(picture: Drawn) -> dict[str, Any]:
    """The row of a picture."""
    boxes = [[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in (thing.box for thing in picture.things)]
    return {"image": picture, "objects": {"bbox": boxes, "categories": [thing.label for thing in picture.things]}}


def _tags(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.sentences import scenes_with_trees

    return ({"words": tree.words(), "tags": tree.tags()} for _, tree in scenes_with_trees(split, sizes=sizes))


def _semantic_roles(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.rich_views import rows

    return rows("semantic_roles", split, rich_world(), sizes, ())


def _summaries(split: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    from seq2seq_suite.miniworld.stories import summaries

    return ({"text": text, "summary": summary} for text, summary in summaries(split, sizes=sizes))


_GENERATORS: dict[str, Callable[[str, dict[str, int]], Iterator[dict[str, Any]]]] = {
    "trees": _trees,
    "speech": _speech,
    "topics": _topics,
    "questions": _questions,
    "stories": story_rows,
    "pictures": _pictures,
    "tags": _tags,
    "summaries": _summaries,
    "semantic_roles": _semantic_roles,
}
