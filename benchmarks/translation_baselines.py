"""What translation scores without a network: the nearest training sentence's translation, and word by word.

    python -m benchmarks.translation_baselines tasks/translation-tatoeba-zh-en.yaml data.path=path/to/tatoeba
    python -m benchmarks.translation_baselines tasks/translation.yaml --output translation.md

The data and the metric are those of the YAML, read and scored as a run does. `nearest` answers with the translation
of the training source whose character n-grams (TF-IDF, one to three characters) have the largest cosine with the
sentence's; `dictionary` writes each word's most probable translation (IBM model 1) in the order of the source.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import regex

from benchmarks.machine import markdown_table, provenance
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.text import LETTER, OTHER
from seq2seq_suite.config import config_file
from seq2seq_suite.data.subwords import train_subwords
from seq2seq_suite.prediction.open_task import open_task

ROUNDS = 5  # of expectation and maximisation
WITHOUT_SPACES = ("zh", "ja", "th")
_WORD = regex.compile(rf"{LETTER}++|{OTHER}", regex.V1)
_NOBODY = ""  # the source word of target words that answer to none
_CHUNK = 500  # sentences compared with all of the training data at a time

Translator = Callable[[Sequence[str]], list[str]]
Split = Callable[[str], list[str]]


def nearest(train: Sequence[Example]) -> Translator:
    """Retrieval: the translation of the most similar training source; of equal ones the first."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
    known = vectorizer.fit_transform([example.source for example in train]).T.tocsc()

    def translate(sources: Sequence[str]) -> list[str]:
        found = []
        for first in range(0, len(sources), _CHUNK):
            similar = (vectorizer.transform(sources[first : first + _CHUNK]) @ known).toarray()
            found += [train[place].reference for place in similar.argmax(1)]
        return found

    return translate


def dictionary(train: Sequence[Example], languages: tuple[str, str]) -> Translator:
    """Word by word: each source word's most probable translation, in the order of the source."""
    split_source = splitter(languages[0], [example.source for example in train])
    split_target = splitter(languages[1], [example.reference for example in train])
    table = lexical_translation([(split_source(example.source), split_target(example.reference)) for example in train])
    best = {source: max(sorted(row), key=row.__getitem__) for source, row in table.items() if source != _NOBODY}
    glue = "" if languages[1] in WITHOUT_SPACES else " "

    def translate(sources: Sequence[str]) -> list[str]:
        texts = (glue.join(best.get(word, word) for word in split_source(source)) for source in sources)
        return [re.sub(r" (?=[.,!?;:])", "", text) for text in texts]

    return translate


def splitter(language: str, texts: Sequence[str]) -> Split:
    """How a language's sentences fall into words: at spaces and signs, or as a unigram model of the texts has it.

    >>> splitter("en", [])("Anna's dog, it barks.")
    ['Anna', "'", 's', 'dog', ',', 'it', 'barks', '.']
    """
    if language not in WITHOUT_SPACES:
        return lambda text: _WORD.findall(text)
    pieces = train_subwords("unigram", texts, size=4000)
    return lambda text: [piece for piece in (piece.strip("▁") for piece in pieces.pieces(text)) if piece]


def lexical_translation(pairs: Iterable[tuple[list[str], list[str]]]) -> dict[str, dict[str, float]]:
    """t(target word | source word) by expectation and maximisation, with an empty source word.

    Source: Brown et al. 1993, model 1.

    >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("the dog", "der Hund")]
    >>> table = lexical_translation([(source.split(), target.split()) for source, target in pairs])
    >>> max(table["dog"], key=table["dog"].get)
    'Hund'
    """
    counted = Counter((tuple([_NOBODY, *source]), tuple(target)) for source, target in pairs)
    table: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(ROUNDS):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for (source, target), times in counted.items():
            for word in target:
                chances = [table[given][word] for given in source]
                share = times / sum(chances)
                for given, chance in zip(source, chances, strict=True):
                    counts[given][word] += chance * share
        table = {
            given: {word: count / total for word, count in row.items()}
            for given, row in counts.items()
            for total in [sum(row.values())]
        }
    return table


def main(given: Sequence[str] | None = None) -> None:
    """Train, translate and score both baselines; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("yaml", type=Path, help="a translation task's file")
    parser.add_argument("override", nargs="*", help="key=value, such as data.path=FOLDER")
    parser.add_argument("--splits", nargs="+", help="by default the file's test splits")
    parser.add_argument("--output", type=Path, help="Markdown file that the table is added to")
    arguments = parser.parse_args(given)
    config = config_file.load(arguments.yaml, arguments.override)
    task = open_task(config.task, config)
    train, languages = task.read("train"), (config.translation.source_language, config.translation.target_language)
    rows, signature = [], ""
    translators = {"nearest": lambda: nearest(train), "dictionary": lambda: dictionary(train, languages)}
    for name, build in translators.items():
        started = time.process_time()
        translate = build()
        for split in arguments.splits or config.data.test_splits:
            examples = task.read(split)
            score = task.score(
                translate([example.source for example in examples]), [example.reference for example in examples]
            )
            signature = score.signature
            rows.append(
                [
                    f"`{arguments.yaml.name}`",
                    name,
                    split,
                    *(f"{figure:.2f}" for figure in score.figures.values()),
                    f"{time.process_time() - started:.0f}",
                ]
            )
    header = ["data", "baseline", "split", *score.figures, "CPU seconds"]
    text = "\n".join([*markdown_table(header, rows), "", f"- {signature}", *provenance(config.seed, 1)]) + "\n"
    print(text, end="")
    if arguments.output:
        before = arguments.output.read_text(encoding="utf-8") + "\n" if arguments.output.exists() else ""
        arguments.output.write_text(before + text, encoding="utf-8")


if __name__ == "__main__":
    main()
