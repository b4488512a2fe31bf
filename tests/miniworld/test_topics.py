"""Texts of the small world and the labels that are true of them."""

import pytest

from seq2seq_suite.miniworld.sentences import SPLITS
from seq2seq_suite.miniworld.topics import LABELS, texts, topics
from seq2seq_suite.miniworld.world import Description, Entity, Event, Group, Scene

DOG, BOY, ANNA = Entity("dog"), Entity("boy"), Entity("anna", reference="named")


def labels_of(*events: Event, link: str = "") -> set[str]:
    return set(topics([Scene(events, link)]))


def test_roles_not_words_decide_who_acts_and_who_is_affected():
    assert labels_of(Event("chase", agent=DOG, patient=BOY)) == {"animal_acts", "person_affected", "pursuit"}
    assert labels_of(Event("chase", agent=BOY, patient=DOG)) == {"person_acts", "animal_affected", "pursuit"}
    assert labels_of(Event("chase", agent=BOY, patient=DOG, about="patient")) == {
        "person_acts",
        "animal_affected",
        "pursuit",
    }


def test_what_describes_someone_or_is_reported_or_subordinate_does_not_count():
    chasing = Event("chase", patient=Entity("cat"))
    seen = Entity("man", event=Description("agent", chasing))
    assert labels_of(Event("see", agent=ANNA, patient=seen)) == {
        "name_acts",
        "person_acts",
        "person_affected",
        "perception",
    }
    said = Event("say", agent=BOY, content=Event("bark", agent=DOG, negated=True))
    assert labels_of(said) == {"person_acts"}
    both = (Event("sleep", agent=BOY), Event("bark", agent=DOG))
    assert labels_of(*both, link="because") == {"person_acts"}
    assert labels_of(*both, link="but") == {"person_acts", "animal_acts"}


def test_the_labels_of_a_text_are_those_of_all_its_scenes():
    several = Scene((Event("sleep", agent=Group((BOY, DOG)), negated=True),))
    tool = Scene((Event("strike", agent=ANNA, patient=Entity("ball", True), instrument=Entity("hammer")),))
    assert set(topics([several, tool])) == {
        "person_acts",
        "animal_acts",
        "several_act",
        "negation",
        "name_acts",
        "object_affected",
        "several_affected",
        "tool",
    }


def test_a_pronoun_that_may_be_anything_gives_no_sort():
    it, she = Entity("cat", reference="given"), Entity("girl", reference="given")
    assert labels_of(Event("find", agent=she, patient=it)) == {"person_acts", "perception"}
    assert labels_of(Event("find", agent=Entity("girl", True, "given"), patient=DOG)) == {
        "several_act",
        "animal_affected",
        "perception",
    }


@pytest.mark.parametrize("split", SPLITS)
def test_every_text_of_every_split_has_known_labels_in_order(split):
    drawn = texts(split, sizes={split: 40})
    assert len(drawn) == 40
    assert all(labels and set(labels) <= set(LABELS) and list(labels) == sorted(labels) for _, labels in drawn)
    assert {text.count(" .") for text, _ in drawn} == {1, 2, 3}


def test_a_seed_settles_the_texts_and_splits_share_no_sentence():
    assert texts("test", sizes={"test": 5}) == texts("test", sizes={"test": 5})
    assert texts("test", seed=1, sizes={"test": 5}) != texts("test", sizes={"test": 5})
    train, test = (
        {sentence.strip() for text, _ in texts(split, sizes={split: 300}) for sentence in text.split(" .") if sentence}
        for split in ("train", "test")
    )
    assert len(test) > 300 and not train & test


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="choose from"):
        texts("holdout")
