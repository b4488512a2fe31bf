"""Baselines of question answering without word order, on the data of a YAML.

    python -m benchmarks.qa_baselines tasks/qa.yaml [data.path=...] [--split test]

- frequent answer: the most frequent answer to questions that begin with the same two words;
- nearest sentence: the sentence that shares most words with the question, the later one of equals; the last known
  answer to such questions that occurs in it, but not in the question; else the frequent answer;
- copied sentence: for answers in free words, the sentence whose TF-IDF has the highest cosine with the question's;
- bag of words: softmax regression on counts of the question's and of the context's words, over the 2,000 answers given
  most often.

None of them knows word order: they show how far a task can be solved without understanding.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.multilabel_baselines import WORD
from seq2seq_suite.common.examples import Example, Score
from seq2seq_suite.config.config_file import is_override, load
from seq2seq_suite.data.vocabulary import Vocabulary
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.qa.passages import words_of

Predictor = Callable[[Example], str]
_MOST_ANSWERS = 2_000  # that the bag of words chooses from


def beginning(example: Example) -> tuple[str, ...]:
    """The question's first two words in lower case."""
    return tuple(word.lower() for word in example.source.question[:2])


def frequent_answer(train: Sequence[Example]) -> Predictor:
    """The most frequent answer to questions that begin alike."""
    counts: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for example in train:
        counts[beginning(example)][example.reference.answers[0]] += 1
    overall = sum(counts.values(), Counter()).most_common(1)[0][0]
    best = {key: found.most_common(1)[0][0] for key, found in counts.items()}
    return lambda example: best.get(beginning(example), overall)


def nearest_sentence(train: Sequence[Example]) -> Predictor:
    """A known answer from the sentence that shares most words with the question."""
    otherwise = frequent_answer(train)
    known: defaultdict[tuple[str, ...], dict[tuple[str, ...], str]] = defaultdict(dict)
    for example in train:
        answer = example.reference.answers[0]
        known[beginning(example)].setdefault(words_of(answer), answer)
    longest = {key: max(map(len, answers)) for key, answers in known.items()}

    def predict(example: Example) -> str:
        asked = {word.lower() for word in example.source.question}
        shared = [len(asked & {word.lower() for word in sentence}) for sentence in example.source.sentences]
        sentence = example.source.sentences[max(range(len(shared)), key=lambda place: (shared[place], place))]
        # Answers such as `in the park` are looked for by the words that the sentence has of them.
        answers = known.get(beginning(example), {})
        for end in range(len(sentence), 0, -1):
            for start in range(max(0, end - longest.get(beginning(example), 0)), end):
                words = sentence[start:end]
                for found in (words, ("in", *words)):
                    if found in answers and not {word.lower() for word in words} - {"the", "a"} <= asked:
                        return answers[found]
        return otherwise(example)

    return predict


def copied_sentence(train: Sequence[Example]) -> Predictor:
    """The sentence most like the question, by the cosine of their TF-IDF; the first of equals."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weigh = TfidfVectorizer(sublinear_tf=True, tokenizer=WORD.findall, token_pattern=None).fit(
        {" ".join(sentence) for example in train for sentence in example.source.sentences}
    )

    def predict(example: Example) -> str:
        sentences = [" ".join(sentence) for sentence in example.source.sentences]
        cosines = weigh.transform(sentences) @ weigh.transform([" ".join(example.source.question)]).T
        return sentences[int(cosines.toarray().argmax())]

    return predict


def bag_of_words(train: Sequence[Example], *, epochs: int = 8, seed: int = 1) -> Predictor:
    """Softmax regression on the square roots of word counts, those of the question and of the context apart."""
    torch.manual_seed(seed)
    words = Vocabulary.build(Counter(word for example in train for word in _features(example)), max_size=20_000)
    given = Counter(example.reference.answers[0] for example in train)
    answers = sorted(answer for answer, _ in given.most_common(_MOST_ANSWERS))
    number = {answer: place for place, answer in enumerate(answers)}
    train = [example for example in train if example.reference.answers[0] in number]

    def vectors(rows: Sequence[np.ndarray]) -> torch.Tensor:
        places = np.concatenate([ids + place * len(words) for place, ids in enumerate(rows)])
        counts = np.bincount(places, minlength=len(rows) * len(words)).reshape(len(rows), len(words))
        return torch.from_numpy(counts.astype(np.float32)).sqrt()

    def encode(example: Example) -> np.ndarray:
        return np.array(words.encode(_features(example)))

    encoded = [encode(example) for example in train]
    targets = torch.tensor([number[example.reference.answers[0]] for example in train])
    linear = nn.Linear(len(words), len(answers))
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.02)
    for _ in range(epochs):
        for rows in torch.randperm(len(train)).split(256):
            loss = nn.functional.cross_entropy(linear(vectors([encoded[row] for row in rows])), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @torch.inference_mode()
    def predict(example: Example) -> str:
        return answers[int(linear(vectors([encode(example)])).argmax())]

    return predict


def _features(example: Example) -> list[str]:
    context = [word for sentence in example.source.sentences for word in sentence]
    return [f"question {word}" for word in example.source.question] + [f"context {word}" for word in context]


BASELINES: dict[str, Callable[[Sequence[Example]], Predictor]] = {
    "frequent answer": frequent_answer,
    "nearest sentence": nearest_sentence,
    "copied sentence": copied_sentence,
    "bag of words": bag_of_words,
}


def evaluate(config_path: Path, overrides: Sequence[str], split: str) -> dict[str, Score]:
    """The score of each baseline."""
    config = load(config_path, overrides)
    task = open_task("qa", config)
    train, test = task.read("train"), task.read(split)
    scores = {}
    for name, learn in BASELINES.items():
        predict = learn(train)
        scores[name] = task.score([predict(example) for example in test], [example.reference for example in test])
    return scores


def main() -> None:
    """Print a Markdown table: exact match and F1 over all, then exact match of each category."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yaml", type=Path)
    parser.add_argument("--split", default="test")
    options, rest = parser.parse_known_args()
    unknown = [argument for argument in rest if not is_override(argument)]
    if unknown:
        parser.error(f"neither an option nor key=value: {' '.join(unknown)}")
    scores = evaluate(options.yaml, rest, options.split)
    categories = list(next(iter(scores.values())).details["categories"])
    print("| | " + " | ".join(scores) + " |\n|---" + "|---" * len(scores) + "|")
    for name in ("exact_match", "f1"):
        print(f"| **{name}** | " + " | ".join(f"{score.figures[name]:.1f}" for score in scores.values()) + " |")
    for category in categories:
        print(
            f"| {category} | "
            + " | ".join(f"{score.details['categories'][category]['exact_match']:.1f}" for score in scores.values())
            + " |"
        )


if __name__ == "__main__":
    main()
