"""Laws of the rich world: what its knobs promise, by counting."""

import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice, product
from random import Random

import numpy as np
import pytest
from daily import daily

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.miniworld import VIEWS, rows, splits_of
from seq2seq_suite.miniworld.chinese import chinese
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.german import german_text
from seq2seq_suite.miniworld.held_out import kinds_of
from seq2seq_suite.miniworld.lexicon_german import NOUNS as GERMAN
from seq2seq_suite.miniworld.lexicon_rich import CLASSES, draw_noun, law, noun, weights
from seq2seq_suite.miniworld.pictures import CLUTTER, Crowded, Thing
from seq2seq_suite.miniworld.rich import (
    SPLITS,
    World,
    all_translations,
    annotated,
    draw_translator,
    has_role_gap,
    rich_scenes,
    role_gaps,
)
from seq2seq_suite.miniworld.rich_views import UNSEEN, cast
from seq2seq_suite.miniworld.semantic_roles import semantic_roles
from seq2seq_suite.miniworld.sentences import scenes
from seq2seq_suite.miniworld.speech import InRoom, Spoken
from seq2seq_suite.miniworld.splits import falls_in
from seq2seq_suite.miniworld.topics import LABELS
from seq2seq_suite.miniworld.translators import (
    GERMAN_NOUNS,
    apply_choices,
    by_habit,
    chinese_noun,
    german_noun,
    german_verb,
)
from seq2seq_suite.miniworld.world import parts_of

MANY = World(words=2000)
FOUR = World(ambiguity=4)
TRANSLATE = {"german": german_text, "chinese": chinese}


def test_the_first_translator_gives_the_texts_of_the_plain_world():
    for scene in scenes("test", sizes={"test": 300}):
        changed = apply_choices(scene, by_habit(0))
        assert (german_text(changed), chinese(changed)) == (german_text(scene), chinese(scene))
        assert english(changed) == english(scene)


@pytest.mark.parametrize(
    ("scope", "language"),
    daily(product(["sentence", "choice"], TRANSLATE), ("sentence", "german"), ("choice", "chinese")),
)
def test_what_is_drawn_is_one_of_the_right_texts_and_none_is_there_twice(language, scope):
    translate = TRANSLATE[language]
    world, rng, several = World(ambiguity=4, ambiguity_scope=scope), Random(1), 0
    for scene, _, _ in rich_scenes("test", world, sizes={"test": 120}):
        right = all_translations(scene, world, translate)
        drawn = translate(apply_choices(scene, draw_translator(rng, world)))
        assert len(set(right)) == len(right) and right[0] == translate(scene)
        assert drawn in right or len(right) == 64
        assert scope == "choice" or len(right) <= 4
        several += len(right) > 1
    assert several > 90


def test_tellers_tell_as_often_as_the_skew_says():
    rng, counted, size = Random(5), Counter(), 2000
    for _ in range(size):
        counted[draw_translator(rng, FOUR)("words", 4)] += 1
    for number, share in enumerate(FOUR.ambiguity_skew):
        assert abs(counted[number] - size * share) < 3 * math.sqrt(size * share * (1 - share))


def test_two_tellers_share_no_synonym_and_each_has_another_gender_for_invented_ones():
    keys = [key for key in GERMAN if key in GERMAN_NOUNS]
    words = [{german_noun(f"{key}/{translator}").singular for key in keys} for translator in (1, 2, 3)]
    words.append({GERMAN[key].singular for key in GERMAN})
    assert sum(map(len, words)) == len(set().union(*words)) and all(len(one) >= len(keys) for one in words)
    for key in keys:
        assert all(german_noun(f"{key}/{translator}").gender != GERMAN[key].gender for translator in (2, 3))
        assert len({chinese_noun(f"{key}/{translator}")[0] for translator in (1, 2, 3)}) == 3
    assert len({german_verb(f"{verb}/{number}").third for verb in ("see", "find", "eat") for number in (1, 2, 3)}) == 9


def test_no_two_nouns_share_a_form_and_laws_make_the_german_of_those_that_follow_them():
    forms: Counter[str] = Counter()
    for name in CLASSES:
        for rank in range(500):
            for key in (f"{name}:{rank}", f"{name}:{rank}+"):
                word = noun(key)
                forms.update({word.german.singular, word.german.plural, word.german.genitive})
                stem = next(
                    word.english.removesuffix(ending) for ending in ("kin", "er", "y") if word.english.endswith(ending)
                )
                lawful = word.german.singular.lower().startswith(law(stem))
                assert lawful == word.cognate, word
            forms.update({word.english, word.plural, word.chinese})
    assert max(forms.values()) == 1
    assert noun("animal:3").kind in CLASSES["animal"]


def test_ranks_follow_zipfs_law():
    rng, counted = Random(2), Counter()
    for _ in range(60_000):
        counted[draw_noun(rng, "dog", 2000, 0.5)] += 1
    for _ in range(60_000):
        counted[draw_noun(rng, "cat", 2000, 0.5)] += 1
    ranked = [(rank, count) for key, count in counted.items() if (rank := int(key.strip("+").partition(":")[2])) < 300]
    x = [math.log(rank + 1 + 2.7) for rank, _ in ranked]
    y = [math.log(count) for _, count in ranked]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    assert slope == pytest.approx(-1, abs=0.1)
    assert weights(3) == pytest.approx([1 / 3.7, 1 / 3.7 + 1 / 4.7, 1 / 3.7 + 1 / 4.7 + 1 / 5.7])


@pytest.fixture(scope="module")
def many():
    """All training scenes of the world with many words."""
    return [scene for scene, _, _ in rich_scenes("train", MANY)]


def test_an_eighth_of_the_nouns_of_the_test_are_in_no_training_sentence(many):
    def nouns(found):
        return [word for scene in found for one in parts_of(scene)[1] if ":" in (word := getattr(one, "word", ""))]

    known, asked = set(nouns(many)), nouns(scene for scene, _, _ in rich_scenes("test", MANY, sizes={"test": 500}))
    assert sum(word not in known for word in asked) / len(asked) == pytest.approx(0.12, abs=0.02)


def test_kinds_that_lack_a_role_in_training_have_the_other_one_there_often(many):
    seen = Counter(
        (role, kind)
        for scene in many
        for event in parts_of(scene)[0]
        for role, participant in (("agent", event.agent), ("patient", event.patient))
        for kind in set(kinds_of(participant))
    )
    for role, other in (("agent", "patient"), ("patient", "agent")):
        assert role_gaps(role)
        for kind in role_gaps(role):
            assert seen[role, kind] == 0 and seen[other, kind] >= 20, (kind, seen[other, kind])


@pytest.fixture(scope="module")
def training():
    """Training scenes of the default world."""
    return list(rich_scenes("train", World(), sizes={"train": 1500}))


@pytest.mark.parametrize("split", SPLITS)
def test_splits_share_no_sentence_and_gaps_are_gaps(split, training):
    known = {" ".join(tree.words()) for _, tree, _ in training}
    for scene, tree, _ in rich_scenes(split, World(), sizes={split: 60}):
        words = tree.words()
        assert split == "train" or " ".join(words) not in known
        if split in ("train", "validation", "test", "compositional"):
            assert not has_role_gap(scene) and len(words) <= 22
        if split == "roles":
            assert has_role_gap(scene)
        if split == "longer":
            assert 23 <= len(words) <= 40


def test_deeper_sentences_are_deeper_than_any_of_training(training):
    def depth(scene) -> int:
        events, people = parts_of(scene)
        reports = sum(event.content is not None for event in events)
        genitives = sum(getattr(one, "detail", None) is not None and one.detail.kind == "belonging" for one in people)
        return max(reports, genitives)

    assert max(depth(scene) for scene, _, _ in training) <= 2
    assert all(depth(scene) >= 3 for scene, _, _ in rich_scenes("deeper", World(), sizes={"deeper": 60}))


def test_doubtful_phrases_belong_to_the_verb_as_often_as_their_probability_says():
    world = World(attachment=4.0)
    rows = [(scene, tree, site) for scene, tree, site in rich_scenes("train", world, sizes={"train": 3000})]
    sites = [(scene, tree, site) for scene, tree, site in rows if site]
    assert abs(len(sites) - 1500) < 4 * math.sqrt(750)
    verb = sum(scene.events[0].instrument is not None for scene, _, _ in sites)
    mean, variance = sum(site.verb for *_, site in sites), sum(site.verb * (1 - site.verb) for *_, site in sites)
    assert abs(verb - mean) < 3 * math.sqrt(variance)
    assert 0.8 < sum(max(site.verb, 1 - site.verb) for *_, site in sites) / len(sites) < 0.9  # no parser does better
    for _, tree, site in sites[:100]:
        assert tree.words()[site.begin] == "with" and tree.words()[site.end] == "."


def test_annotators_leave_out_and_add_as_often_as_they_are_said_to():
    world, rng, true = World(disagreement=(0.1, 0.02)), Random(3), LABELS[:4]
    kept = added = 0
    for _ in range(3000):
        found = annotated(rng, true, LABELS, world)
        kept += len(set(found) & set(true))
        added += len(set(found) - set(true))
    assert kept / 12_000 == pytest.approx(0.9, abs=0.01)
    assert added / (3000 * (len(LABELS) - 4)) == pytest.approx(0.02, abs=0.004)


def test_another_process_draws_the_same():
    code = (
        "from itertools import islice; from seq2seq_suite.miniworld.rich import *; "
        "print([' '.join(t.words()) for _, t, _ in "
        "islice(rich_scenes('test', World(words=2000, attachment=4.0)), 20)])"
    )
    found = islice(rich_scenes("test", World(words=2000, attachment=4.0)), 20)
    here = str([" ".join(tree.words()) for _, tree, _ in found])
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    )
    assert other.stdout.strip() == here


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_the_columns_of_the_plain_world_and_its_own(view):
    world = World(words=200, ambiguity=2, attachment=4.0, disagreement=(0.1, 0.02))
    more = {
        "trees": {"sites"},
        "translations": {"de_references", "zh_references", "de_lawless"},
        "topics": {"true"},
    }.get(view, set())
    for split in splits_of(view, world):
        row = next(rows(view, split, size=1, world=world))
        assert set(row) - set(next(rows(view, "test", size=1))) <= more | {"oracle"}
    plain, rich = (set(next(rows(view, "test", size=1, world=one))) for one in (None, world))
    assert rich - {"oracle"} == plain | more
    with pytest.raises(DataError, match="no split 'deepest'"):
        rows(view, "deepest", world=world)


def test_a_source_that_names_its_teller_has_one_right_text():
    world = World(ambiguity=4, ambiguity_named=True)
    named = list(rows("translations", "test", size=200, world=world))
    assert {row["en"][:3] for row in named} == {"A: ", "B: ", "C: ", "D: "}
    assert all(row["de_references"] == [row["de"]] for row in named)


def test_no_summary_of_the_test_is_one_of_training():
    known = {row["summary"] for row in rows("summaries", "train", size=3000, world=MANY)}
    assert not any(row["summary"] in known for row in rows("summaries", "test", size=100, world=MANY))


@pytest.mark.parametrize("view", daily(("questions", "stories", "summaries"), "questions"))
def test_a_tenth_of_the_names_and_things_of_a_story_are_kept_from_training(view):
    def told(split: str, size: int) -> list[str]:
        found = rows(view, split, size=size, world=MANY)
        return [word for row in found for word in re.findall(r"\w+", " ".join(map(str, row.values())))]

    lexicon = {name for split in ("train", "test") for people in _cast(split, 400) for name in people}
    known, kept = set(told("train", 6000)), {word for word in lexicon if not falls_in(word, range(UNSEEN, 100))}
    assert kept and not kept & known
    asked = [word for word in told("test", 600) if word in lexicon]
    assert sum(word in kept for word in asked) / len(asked) == pytest.approx(0.1, abs=0.04)


def _cast(split: str, number: int) -> list[list[str]]:
    draw, rng = cast(split, MANY), Random(1)
    return [[text.split()[-1] for texts in draw(rng) for text in texts] for _ in range(number)]


def test_answers_of_the_test_have_names_that_training_lacks():
    answers = [row["answer"] for row in rows("questions", "test", size=3000, world=MANY) if row["type"] == "who has"]
    kept = [name for name in answers if not falls_in(name, range(UNSEEN, 100))]
    assert len(kept) / len(answers) == pytest.approx(0.1, abs=0.04)


def test_things_of_a_crowded_picture_hide_each_other_and_stand_among_others():
    found = [row["image"] for row in rows("pictures", "test", size=60, world=World())]
    assert all(len(one.visible_things()) >= 2 and len(one.things) <= 9 for one in found)
    assert sum(len(one.clutter) for one in found) > 60
    assert max(len(one.things) for one in found) > 6
    for one in found:
        assert [thing for thing in one.visible_things() if thing.label not in CLUTTER] == list(one.things)


def test_what_shows_of_a_thing_is_what_changes_the_picture():
    pytest.importorskip("PIL")
    pytest.importorskip("sklearn")
    back, front = Thing("circle", (10, 10, 30, 30), (220, 50, 47)), Thing("square", (8, 8, 40, 40), (38, 139, 210))
    half, mark = Thing("square", (30, 40, 50, 60), (133, 153, 0)), Thing("bar", (0, 60, 20, 80), (42, 161, 152))
    things = (
        back,
        half,
        Thing("square", (40, 40, 60, 60), (211, 54, 130)),
        front,
        Thing("star", (0, 60, 20, 80), (0, 0, 0)),
    )
    picture = Crowded("one", things, (240, 240, 240), 5, ((5, mark),))
    assert picture.shares_shown[:4] == (0.0, 0.5, 1.0, 1.0) and 0.0 < picture.shares_shown[4] < 1.0
    drawn = [picture, *(row["image"] for row in rows("pictures", "test", size=5, world=World()))]
    for one in drawn:
        for at, share in enumerate(one.shares_shown):
            clutter = tuple((place - (place > at), thing) for place, thing in one.clutter)
            without = replace(one, things=one.things[:at] + one.things[at + 1 :], clutter=clutter)
            assert (share > 0.01) == (not np.array_equal(one.pixels(), without.pixels()))


def test_a_room_adds_echo_and_another_voice_the_same_each_time():
    pytest.importorskip("espeakng_loader")
    said = InRoom("Anna sings.", "en+m1", 160, 50, 60.0, 3, 0.4, "The dog barks.", "en+f1", 60.0)
    dry = Spoken("Anna sings.", "en+m1", 160, 50, 60.0, 3).samples()[0]
    wet = said.samples()[0]
    assert wet.shape == dry.shape and np.array_equal(wet, said.samples()[0])
    loud = int(np.abs(dry).argmax())
    assert np.corrcoef(wet[loud - 500 : loud + 500], dry[loud - 500 : loud + 500])[0, 1] > 0.5
    assert 0.05 < np.square(wet - dry).mean() / np.square(dry).mean() < 1.0  # the echo, and hardly any other voice
    louder = replace(said, other_level=0.0).samples()[0]
    assert np.square(louder - wet).mean() == pytest.approx(np.square(dry).mean(), rel=1.0)


def test_semantic_roles_are_phrases_of_the_tree():
    world = World(words=500, attachment=3.0)
    for scene, tree, _ in rich_scenes("test", world, sizes={"test": 300}):
        if len(scene.events) > 1:
            continue
        tags = semantic_roles(scene.events[0])
        assert len(tags) == len(tree.words())
        phrases = {(first, last + 1) for first, last in tree.spans()} | {
            (at, at + 1) for at in range(len(tags))
        }  # adverbs of time are single words
        spans = [
            (at, next((end for end in range(at + 1, len(tags)) if not tags[end].startswith("I-")), len(tags)))
            for at, tag in enumerate(tags)
            if tag.startswith("B-")
        ]
        assert set(spans) <= phrases, (tree, tags)
        assert all(tags[begin][2:] == tags[at][2:] for begin, end in spans for at in range(begin, end))


def test_the_likelier_roles_give_a_doubtful_phrase_to_the_other_side():
    asked = list(rows("semantic_roles", "test", size=300, world=World(attachment=1.0)))
    likelier = [row for row in asked if "oracle" in row]
    assert 20 < len(likelier) < 60  # half of 300 have a doubtful phrase, a quarter of these the less likely reading
    for row in likelier:
        changed = [at for at, (tag, other) in enumerate(zip(row["tags"], row["oracle"], strict=True)) if tag != other]
        assert row["words"][changed[0]] == "with" and changed == list(range(changed[0], len(row["words"]) - 1))
        assert {row["tags"][changed[0]], row["oracle"][changed[0]]} == {"B-INSTRUMENT", "I-PATIENT"}
