"""The baselines of question answering do what their names say, and the embedded stories are beyond them."""

import pytest

from benchmarks.qa_baselines import bag_of_words, copied_sentence, frequent_answer, nearest_sentence
from seq2seq_suite.common.examples import Example
from seq2seq_suite.metrics.answers import Gold, answer_scores
from seq2seq_suite.miniworld.stories import questions
from seq2seq_suite.tasks.qa.passages import Passage


def asked(question: str, context: str, answer: str = "") -> Example:
    return Example(Passage.of(question, context), Gold((answer,)))


TRAIN = [
    asked("Where is Tom?", "Tom is in the park.", "in the park"),
    asked("Where is Ann?", "x.", "in the park"),
    asked("Where is Ann?", "x.", "in the town"),
    asked("Who is here?", "x.", "Tom"),
    asked("Who is it?", "x.", "Ann"),
]


def test_the_frequent_answer_depends_on_the_questions_beginning():
    predict = frequent_answer(TRAIN)
    assert predict(asked("Where is Bob?", "Bob left.")) == "in the park"
    assert predict(asked("Who is Bob?", "Bob left.")) in ("Tom", "Ann")
    assert predict(asked("Why?", "Bob left.")) == "in the park"


def test_the_nearest_sentence_gives_its_last_known_answer_the_later_sentence_first():
    predict = nearest_sentence(TRAIN)
    assert predict(asked("Where is Tom?", "Tom ran to the park. Tom ran to the town. Ann sat.")) == "in the town"
    assert predict(asked("Where is Tom?", "Tom ran to the park, not the town. Ann sat.")) == "in the town"
    assert predict(asked("Who is Tom?", "Ann saw Tom.")) == "Ann"
    assert predict(asked("Where is Tom?", "Tom sat.")) == "in the park"


def test_the_copied_sentence_shares_rare_words_with_the_question():
    train = [asked("Who?", f"The man sat. The {name} left.") for name in ("cat", "dog", "bird")]
    predict = copied_sentence(train)
    assert predict(asked("What did the dog do?", "The man sat. The dog left. The man left.")) == "The dog left ."
    assert predict(asked("Who?", "Ann sat. Bob left.")) == "Ann sat ."  # of equals the first


def test_a_bag_of_words_learns_words_but_no_order():
    train = [
        asked("Who won?", f"{first} beat {second}.", first) for first, second in (("Ann", "Tom"), ("Tom", "Ann"))
    ] * 20
    predict = bag_of_words(train + [asked("Who sat?", "Bob sat.", "Bob")] * 20, epochs=30)
    assert predict(asked("Who sat?", "Bob sat.")) == "Bob"
    assert predict(asked("Who won?", "Ann beat Tom.")) == predict(asked("Who won?", "Tom beat Ann."))


@pytest.mark.slow
@pytest.mark.parametrize("learn", [frequent_answer, nearest_sentence, bag_of_words])
def test_the_embedded_stories_need_more_than_words(learn):
    def examples(split: str, size: int) -> list[Example]:
        return [
            asked(item.question, " ".join(item.story), item.answer) for item in questions(split, sizes={split: size})
        ]

    predict, test = learn(examples("train", 3000)), examples("test", 400)
    score = answer_scores([predict(example) for example in test], [example.reference for example in test])
    assert 5.0 < score.figures["exact_match"] < 70.0
