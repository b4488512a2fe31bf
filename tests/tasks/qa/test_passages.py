"""Passages: where sentences end, and what of a long one is kept."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.tasks.qa.passages import JOINER, Passage, crop, sentences_of, symbols_of, text_of


def test_sentences_are_chosen_by_words_and_not_by_signs_or_case():
    passage = Passage.of("Where is MARY, today?", "Tom, Ann, Bob and Jim left today. Who sang? Mary is home.")
    assert " ".join(crop(passage, 11, keep="overlap").sentences[0]) == "Mary is home ."
    longer = Passage.of("Who left?", "One two three four five. Six. Seven.")
    assert crop(longer, 7, keep="first").sentences == (("One", "two", "three", "four"),)
    assert crop(longer, 6, keep="last").sentences == (("Seven", "."),)  # what does not fit ends the choice


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    room=st.integers(3, 30),
    keep=st.sampled_from(["first", "last", "overlap"]),
)
def test_a_cropped_passage_fits_and_keeps_whole_sentences_in_order_if_one_fits(lengths, room, keep):
    sentences = tuple(tuple(f"w{place}" for _ in range(length)) for place, length in enumerate(lengths))
    passage = Passage(("who", "?"), sentences)
    found = crop(passage, room, keep=keep)
    assert found.question == passage.question and 2 < len(found) <= room
    order = [int(sentence[0][1:]) for sentence in found.sentences]
    assert order == sorted(order)
    whole = all(sentence in sentences for sentence in found.sentences)
    assert whole or (len(found.sentences) == 1 and len(found) == room)


def test_sentences_end_at_stops_and_lines_but_not_inside_numbers():
    assert sentences_of(' One. "Two!" Three? 4.5 \n\n five ') == ["One.", '"Two!"', "Three?", "4.5", "five"]
    assert text_of([JOINER + ",", "a", JOINER + "."]) == ", a."
    assert text_of(symbols_of("s,s")) == "s,s" and symbols_of("s,s") == ("s", JOINER + ",", JOINER + "s")
