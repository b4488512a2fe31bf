"""Stories are consistent: a second reader, who knows English and not the generator, finds the same answers."""

import re
import zlib

import pytest

from seq2seq_suite.miniworld import stories
from seq2seq_suite.miniworld.stories import MEN, NUMBERS, WOMEN, Asked

NAMES = WOMEN + MEN


class Reader:
    """Reads a story's text sentence by sentence and keeps who is where and who has what."""

    def __init__(self, story: tuple[str, ...]):
        self.where, self.holder, self.lies, self.gifts = {}, {}, {}, []
        subject, thing = [], ""
        for sentence in story:
            words = re.sub(r"^(Then|After that) ", "", sentence).rstrip(".")
            if re.match(r"(?i)(she|he|they) ", words):
                pronoun = words.split()[0].lower()
                assert len(subject) == (2 if pronoun == "they" else 1)
                assert pronoun == "they" or subject[0] in (WOMEN if pronoun == "she" else MEN)
                rest = words.split(" ", 1)[1]
            else:
                subject, rest = re.match(r"((?:\w+ and )?\w+) (.*)", words).groups()
                subject = subject.split(" and ")
            assert set(subject) <= set(NAMES)
            rest = re.sub(r"\bit\b", f"the {thing}", rest)
            thing = self.follow(subject, rest) or thing

    def follow(self, subject: list[str], rest: str) -> str:
        """Apply the sentence to the state; returns the thing that it mentions."""
        person = subject[0]
        if found := re.fullmatch(r"did not take the (.*)", rest):
            return found[1]
        if rest.startswith("did not"):
            return ""
        if found := re.fullmatch(r"(?:went|walked|ran|came) to the (\w+)", rest):
            for mover in subject:
                assert self.where.get(mover, [""])[-1] != found[1]
                self.where.setdefault(mover, []).append(found[1])
            return ""
        if found := re.fullmatch(r"(?:took|picked up|found) the (.*)", rest):
            assert found[1] not in self.holder
            assert self.lies.pop(found[1], self.where[person][-1]) == self.where[person][-1]
            self.holder[found[1]] = person
        elif found := re.fullmatch(r"(?:dropped|left) the (.*?)(?: there)?", rest):
            assert self.holder.pop(found[1]) == person
            self.lies[found[1]] = self.where[person][-1]
        else:
            found = re.fullmatch(r"(?:gave|handed) the (.*) to (\w+)", rest)
            assert self.holder[found[1]] == person and self.where[person][-1] == self.where[found[2]][-1]
            self.holder[found[1]] = found[2]
            self.gifts.append((person, found[1], found[2]))
        return found[1]

    def answer(self, question: str) -> str:
        """The answer to a question, by its wording."""
        held = lambda person: [thing for thing in self.holder if self.holder[thing] == person]  # noqa: E731
        inside = lambda place: [person for person in self.where if self.where[person][-1] == place]  # noqa: E731
        patterns = {
            r"Where is (\w+)\?": lambda x: f"in the {self.where[x][-1]}" if x in NAMES else None,
            r"Where is the (.*)\?": lambda x: "in the " + (self.lies.get(x) or self.where[self.holder[x]][-1]),
            r"Where was (\w+) before the (\w+)\?": lambda x, y: f"in the {self.where[x][self.where[x].index(y) - 1]}",
            r"Who has the (.*)\?": lambda x: self.holder[x],
            r"Does (\w+) have the (.*)\?": lambda x, y: "yes" if self.holder.get(y) == x else "no",
            r"Is (\w+) in the (\w+)\?": lambda x, y: "yes" if self.where[x][-1] == y else "no",
            r"How many things does (\w+) have\?": lambda x: NUMBERS[len(held(x))],
            r"How many people are in the (\w+)\?": lambda x: NUMBERS[len(inside(x))],
            r"What does (\w+) have\?": lambda x: "the {}".format(*held(x)),
            r"Who is in the (\w+)\?": lambda x: "{}".format(*inside(x)),
            r"Who gave the (.*) to (\w+)\?": lambda x, y: next(g for g, t, r in self.gifts if (t, r) == (x, y)),
            r"Who did (\w+) give the (.*) to\?": lambda x, y: next(r for g, t, r in self.gifts if (g, t) == (x, y)),
            r"What did (\w+) give to (\w+)\?": lambda x, y: next(
                f"the {t}" for g, t, r in self.gifts if (g, r) == (x, y)
            ),
        }
        for pattern, answer in patterns.items():
            if found := re.fullmatch(pattern, question):
                return answer(*found.groups())
        raise AssertionError(question)


@pytest.fixture(scope="module")
def asked() -> dict[str, list[Asked]]:
    return {split: stories.questions(split, sizes={split: 1000}) for split in stories.SPLITS}


def test_a_reader_of_the_text_finds_every_answer(asked):
    for split in stories.SPLITS:
        for item in asked[split]:
            assert Reader(item.story).answer(item.question) == item.answer, item


def test_every_kind_of_question_is_asked_and_no_answer_is_always_right(asked):
    by_kind: dict[str, set[str]] = {}
    for item in asked["train"]:
        by_kind.setdefault(item.kind, set()).add(item.answer)
    assert set(by_kind) == {
        "where",
        "where thing",
        "where before",
        "who has",
        "who is",
        "who gave",
        "to whom",
        "what gave",
        "what has",
        "how many things",
        "how many people",
        "is in",
        "has",
    }
    assert all(len(answers) >= 2 for answers in by_kind.values())
    for kind in ("is in", "has"):
        answers = [item.answer for item in asked["train"] if item.kind == kind]
        assert 0.35 < answers.count("yes") / len(answers) < 0.65


def test_splits_share_no_story_and_longer_stories_are_longer(asked):
    seen = {split: {item.story for item in items} for split, items in asked.items()}
    for split in stories.SPLITS:
        for other in stories.SPLITS:
            assert split == other or not seen[split] & seen[other]
    assert {len(story) for story in seen["train"]} == {5, 6, 7, 8}
    assert {len(story) for story in seen["longer"]} == {10, 11, 12, 13}


def test_a_storys_own_number_says_in_which_split_it_stands(asked):
    stories = {
        split: {zlib.crc32(" ".join(item.story).encode()) % 100 for item in items} for split, items in asked.items()
    }
    assert stories["train"] == set(range(80)) and stories["validation"] == set(range(80, 90))
    assert stories["test"] == set(range(90, 100)) and len(stories["longer"]) > 80  # which differ by their length


def test_the_same_seed_gives_the_same_stories_and_another_one_others():
    one, two, other = (stories.questions("test", seed=seed, sizes={"test": 60}) for seed in (0, 0, 1))
    assert one == two and not {item.story for item in one} & {item.story for item in other}
    with pytest.raises(ValueError, match="choose from train"):
        stories.questions("dev")
