"""The baseline that translation has to beat: each English word of the small world by its one most likely translation.

    python -m benchmarks.word_by_word german

The dictionary is learnt from the training sentences by IBM model 1 (Brown et al. 1993), so it is as good as one can
be that looks at single words: it knows no order, no case and no choice between translations.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence

from seq2seq_suite.data.miniworld import Scene, lexicon_chinese, scenes
from seq2seq_suite.data.miniworld.chinese import chinese
from seq2seq_suite.data.miniworld.english import english
from seq2seq_suite.data.miniworld.german import german

Words = Sequence[str]


def learn_dictionary(pairs: Sequence[tuple[Words, Words]], *, rounds: int = 5) -> dict[str, str]:
    """The most likely translation of each source word.

    Args:
        pairs: sentences and their translations as words.
        rounds: of expectation maximisation.

    Returns:
        A translation for each word of the sources.

    Source: Brown et al. 1993, model 1, without the empty word.

    >>> learn_dictionary([(["the", "dog"], ["der", "Hund"]), (["the"], ["der"])])
    {'the': 'der', 'dog': 'Hund'}
    """
    likely: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(rounds):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for word in target:
                total = sum(likely[other][word] for other in source)
                for other in source:
                    counts[other][word] += likely[other][word] / total
        likely = {other: {word: count / sum(row.values()) for word, count in row.items()}
                  for other, row in counts.items()}
    return {other: max(row, key=row.__getitem__) for other, row in likely.items()}


def english_words(scene: Scene) -> list[str]:
    return [word.lower() for word in english(scene).words()]


def chinese_words(scene: Scene) -> list[str]:
    """The longest words of the lexicon from left to right, so that the baseline need not spell."""
    known = {text for table in (lexicon_chinese.NAMES, lexicon_chinese.ADJECTIVES, lexicon_chinese.PRONOUNS,
                                lexicon_chinese.TIME_WORDS, lexicon_chinese.EVERY, lexicon_chinese.LAST,
                                lexicon_chinese.AMOUNTS, lexicon_chinese.MANNERS, lexicon_chinese.FREQUENCIES)
             for text in table.values()}
    known |= {word for word, _ in lexicon_chinese.NOUNS.values()}
    known |= {verb.word + verb.rest for verb in lexicon_chinese.VERBS.values()}
    known |= {verb.word for verb in lexicon_chinese.VERBS.values()}
    text, words = chinese(scene), []
    while text:
        length = next((length for length in range(6, 1, -1) if text[:length] in known), 1)
        words.append(text[:length])
        text = text[length:]
    return words


LANGUAGES: dict[str, tuple[Callable[[Scene], list[str]], str, str]] = {  # words, what joins them, sacreBLEU's tokenizer
    "german": (german, " ", "13a"), "chinese": (chinese_words, "", "zh")}


def score(language: str, *, train: int = 3000, test: int = 200) -> float:
    """BLEU of the word-by-word translation on the first test scenes."""
    import sacrebleu

    words_of, space, tokenizer = LANGUAGES[language]
    dictionary = learn_dictionary([(english_words(scene), words_of(scene))
                                   for scene in scenes("train", sizes={"train": train})])
    asked = scenes("test", sizes={"test": test})
    translated = [space.join(dictionary.get(word, word) for word in english_words(scene)) for scene in asked]
    references = [space.join(words_of(scene)) for scene in asked]
    return sacrebleu.corpus_bleu(translated, [references], tokenize=tokenizer, force=True).score


if __name__ == "__main__":
    for name in sys.argv[1:] or LANGUAGES:
        print(f"{name}: BLEU {score(name):.1f} word by word")
