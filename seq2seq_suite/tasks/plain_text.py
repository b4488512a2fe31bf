"""Plain text as the words that tokenised training data have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from seq2seq_suite.data.vocabulary import Vocabulary

_SHORT = re.compile(r"(?:\w\.){2,}")  # U.S.
_ENDS = tuple(".,?!")
_PLAIN = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")"}  # as the Penn Treebank writes them -> as data may, too


def tokenised(words: Sequence[str], known: Vocabulary) -> list[str]:
    """Words of a sentence, those that the training data do not have split where these data, if tokenised, split.

    A word is split if at most one of its parts is new, signs apart. So `telescope.` becomes `telescope .`, and quotes
    and brackets become those of the data.

    Args:
        words: between blanks.
        known: the words of the training data, with their counts.

    Source: the Penn Treebank's tokenisation, by NLTK.

    >>> known = Vocabulary.build("`` He sees the bird . '' -LRB- Anna 's , -RRB-".split())
    >>> tokenised('"He sees Anna\\'s bird (the telescope)."'.split(), known)
    ['``', 'He', 'sees', 'Anna', "'s", 'bird', '-LRB-', 'the', 'telescope', '-RRB-', '.', "''"]
    >>> tokenised("sees telescope.".split(), Vocabulary.build("He sees. the bird.".split()))
    ['sees', 'telescope.']
    """
    found: list[str] = []
    for place, word in enumerate(words):
        whole = word in known or word.isalnum() or not _are_tokens(known.symbols, known.symbol_counts)
        parts = (
            [] if whole else _parts(word, last=place == len(words) - 1, inside=found.count("``") > found.count("''"))
        )
        parts = [_PLAIN[part] if part not in known and _PLAIN.get(part) in known else part for part in parts]
        new = sum(part not in known and part not in _PLAIN and any(map(str.isalnum, part)) for part in parts)
        fits = parts and new <= (len(parts) > 1) and not _SHORT.fullmatch(word)
        found += parts if fits else [word]
    return found


def _parts(word: str, *, last: bool, inside: bool) -> list[str]:
    from nltk.tokenize.treebank import TreebankWordTokenizer  # here, for NLTK takes a second to import

    if word == '"':
        return ["''" if inside else "``"]
    parts = TreebankWordTokenizer().tokenize(word if last else f"{word} x", convert_parentheses=True)
    return parts if last else parts[:-1]


@lru_cache(maxsize=8)
def _are_tokens(symbols: tuple[str, ...], counts: tuple[int, ...]) -> bool:
    """Whether data with these words have full stops and commas as words of their own."""
    pairs = list(zip(symbols, counts, strict=True))
    alone = sum(count for symbol, count in pairs if symbol in _ENDS)
    return alone > sum(count for symbol, count in pairs if symbol.endswith(_ENDS) and len(symbol) > 1)
