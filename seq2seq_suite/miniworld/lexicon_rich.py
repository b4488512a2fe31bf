"""Invented nouns and names, as many as a language has, drawn by Zipf's law.

Each noun is of a kind of `lexicon`, and takes part where that kind does. English and German words go back to the same
sounds, as `pepper` and `Pfeffer` do, for a share of the nouns: a sound law gives the German stem, and the ending shows
the gender. The others have a German stem of their own, to be learned one by one. Chinese writes the sounds down, a
character for each syllable. Names are the same in English and in German.

>>> word = noun("thing:0+")
>>> word.english, word.german.singular, word.chinese
('faner', 'Faner', '法恩件')
>>> law("stack"), law("tick")
('stach', 'zich')
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random

from seq2seq_suite.miniworld import lexicon, lexicon_english
from seq2seq_suite.miniworld.lexicon_chinese import NOUNS as CHINESE
from seq2seq_suite.miniworld.lexicon_german import FEMININE, MASCULINE, NEUTER, NOUNS, Noun
from seq2seq_suite.miniworld.parts import pick

CLASSES: dict[str, tuple[str, ...]] = {  # class of nouns -> its kinds
    "person": lexicon.GROUPS["person"], "animal": lexicon.GROUPS["animal"],
    "thing": lexicon.kinds_in(("thing", "text", "wearable", "food", "device", "tool", "furniture", "part"))}
CLASS_OF = {kind: name for name, kinds in CLASSES.items() for kind in kinds}
SHIFT = 2.7  # Zipf-Mandelbrot: the word of rank r has a weight of 1 / (r + SHIFT), ranks from 1
_ONSETS = ("b", "bl", "br", "ch", "cl", "cr", "d", "dr", "f", "fl", "fr", "g", "gl", "gr", "h", "j", "k", "l",
           "m", "n", "p", "pl", "pr", "r", "s", "sh", "sl", "sn", "sp", "st", "t", "th", "tr", "tw", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "oo", "ai")
_CODAS = ("b", "ck", "d", "ft", "g", "ll", "lt", "m", "mp", "n", "nd", "nt", "p", "rb", "rd", "rk", "rm", "rt",
          "sh", "st", "t", "th", "x")
_LAWS = {"sh": "sch", "th": "d", "ck": "ch", "ch": "k", "ea": "ei", "oo": "u", "ai": "e", "cl": "kl", "cr": "kr",
         "pl": "pfl", "st": "st", "sl": "schl", "sn": "schn", "sp": "sp", "tw": "zw", "tr": "tr", "t": "z", "d": "t",
         "p": "pf", "pr": "pr", "mp": "mpf", "ft": "ft", "x": "chs"}
_LAW = re.compile("|".join(sorted(_LAWS, key=len, reverse=True)))
_ENDINGS = {MASCULINE: "er", FEMININE: "y", NEUTER: "kin"}  # of the English words that a law makes German
_GENDERS = tuple(_ENDINGS)
_OWN_ENDINGS = ((), ("ist", "ei", "lein"), ("ling", "ung", "tum"), ("or", "ur", "gut"))  # by translator and gender
_CHINESE_CLASS = {"person": "者", "animal": "兽", "thing": "件"}
_SYLLABLES = {  # first sound -> a character for each of `_VOWELS`
    "b": "巴贝比博布宾卜拜", "ch": "查切奇乔楚琴丘柴", "k": "卡凯基科库金古开", "d": "达德迪多杜丁都戴",
    "f": "法费菲福夫芬弗法", "g": "加格吉戈古京顾盖", "h": "哈赫希霍胡欣呼海", "j": "贾杰吉乔朱金居杰",
    "l": "拉莱利洛卢林鲁赖", "m": "马梅米莫穆明慕迈", "n": "纳内尼诺努宁奴奈", "p": "帕佩皮波普平浦派",
    "r": "拉雷里罗鲁林卢赖", "s": "萨塞西索苏辛素赛", "sh": "沙谢希肖舒申书晒", "t": "塔特蒂托图廷涂泰",
    "th": "撒瑟锡梭苏森素赛", "w": "瓦韦威沃伍温武怀",
}
_SOUNDS = {  # without a vowel after them
    "b": "布", "ck": "克", "d": "德", "ft": "夫特", "g": "格", "ll": "尔", "lt": "尔特", "m": "姆",
    "mp": "姆普", "n": "恩", "nd": "恩德", "nt": "恩特", "p": "普", "rb": "尔布", "rd": "尔德", "rk": "尔克",
    "rm": "尔姆", "rt": "尔特", "sh": "什", "st": "斯特", "t": "特", "th": "思", "x": "克斯", "c": "克",
    "f": "弗", "s": "斯", "": "",
}
_SYLLABLE = re.compile("([^aeiou]*)(ea|oo|ai|[aeiou]|$)")


@dataclass(frozen=True, slots=True)
class Word:
    """A noun in three languages; `cognate`: a sound law leads from the English to the German word."""

    kind: str
    english: str
    german: Noun
    chinese: str
    cognate: bool

    @property
    def plural(self) -> str:
        """The English plural."""
        return self.english[:-1] + "ies" if self.english.endswith("y") else self.english + "s"


def law(stem: str) -> str:
    """The German stem that the sound laws make of an English one, from left to right, the longest match first."""
    return _LAW.sub(lambda found: _LAWS[found[0]], stem)


@cache
def weights(number: int) -> list[float]:
    """Cumulative weights of as many ranks."""
    return list(accumulate(1 / (rank + SHIFT) for rank in range(1, number + 1)))


def draw_noun(rng: Random, kind: str, words: int, cognates: float) -> str:
    """The key of a noun of this kind, drawn by its rank, or an empty one where the kind has none but its own.

    Args:
        rng: gives one number.
        kind: of `lexicon`.
        words: nouns of a class.
        cognates: share of them that follow a sound law.
    """
    if kind not in CLASS_OF:
        return ""
    ranks, cumulated = _ranks(kind, words)
    rank = ranks[bisect(cumulated, rng.random() * cumulated[-1])]
    key = f"{CLASS_OF[kind]}:{rank}"
    return key + ("+" if _drawn(CLASS_OF[kind], rank).luck < cognates else "")


def draw_name(rng: Random, kind: str, names: int) -> str:
    """A first name by its rank, women's in -a; `kind` is a first name of `lexicon`."""
    female = lexicon.GENDERS[kind] == "female"
    known = _names(names)[female]
    cumulated = weights(len(known))
    return known[bisect(cumulated, rng.random() * cumulated[-1])]


@cache
def noun(key: str) -> Word:
    """The noun for a key: `thing:17` or, one that follows a sound law, `thing:17+`; `/2` at its end is another
    translator's German and Chinese word for it."""
    plain, _, translator = key.partition("/")
    name, _, rank = plain.rstrip("+").partition(":")
    drawn, cognate = _drawn(name, int(rank)), plain.endswith("+")
    gender = drawn.gender if cognate else drawn.own_gender
    german, chinese = _german(law(drawn.stem) if cognate else drawn.own_stem, gender), drawn.sounds
    if not cognate:
        chinese = drawn.own_sounds
    if translator:
        german, chinese = own_word(key, int(translator), not_gender=gender)
    return Word(drawn.kind, drawn.stem + _ENDINGS[drawn.gender], german, chinese + _CHINESE_CLASS[name], cognate)


def measure(key: str) -> str:
    """The Chinese measure word of a noun, which is that of its kind."""
    return CHINESE[noun(key.partition("/")[0]).kind][1]


def own_word(key: str, translator: int, *, not_gender: str = "") -> tuple[Noun, str]:
    """An invented German noun and Chinese sounds that one translator alone has for a key, of another gender."""
    rng = Random(f"{key}/{translator}")
    genders = [gender for gender in _GENDERS if gender != not_gender]
    gender, stem = pick(rng, genders), _syllable(rng, open_end=True) + _stem(rng)
    ending = _OWN_ENDINGS[translator][_GENDERS.index(gender)]
    singular = (law(stem) + ending).capitalize()
    forms = {"ist": (singular + "en", singular + "en"), "ling": (singular + "e", singular + "s"),
             "or": (singular + "en", singular + "s"), "lein": (singular, singular + "s"),
             "tum": (singular[:-3] + "tümer", singular + "s"), "gut": (singular[:-3] + "güter", singular + "s")}
    plural, genitive = forms.get(ending, (singular + "en", singular))
    return Noun(gender, singular, plural, genitive, weak=ending == "ist"), sounds(stem)


def sounds(stem: str) -> str:
    """An English stem or name in Chinese characters, sound by sound.

    >>> sounds("blackta")
    '布拉克塔'
    """
    return "".join(_transcribed(*found) for found in _SYLLABLE.findall(stem))


@cache
def _transcribed(consonants: str, vowel: str) -> str:
    """The characters of a vowel, if there is one, and of the consonants before it."""
    if not vowel:
        return _SOUNDS[consonants]
    if not consonants:  # as in no stem
        return "阿"
    first = next(sound for sound in (consonants[-2:], consonants[-1]) if sound in _SYLLABLES)
    before = consonants[:-len(first)]
    written = _SOUNDS[before] if before in _SOUNDS else "".join(_SOUNDS.get(sound, "") for sound in before)
    return written + _SYLLABLES[first][_VOWELS.index(vowel)]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn for a noun: with a sound law and without; `luck` decides between the two."""

    kind: str
    stem: str
    gender: str
    own_stem: str
    own_gender: str
    luck: float
    sounds: str
    own_sounds: str


_DRAWN: list[_Drawn] = []  # by rank, the classes one after the other: the first are the same whatever their number
_TAKEN: set[str] = set()
_SOURCE = Random("the lexicon of miniworld")


def _drawn(name: str, rank: int) -> _Drawn:
    names = tuple(CLASSES)
    at = rank * len(names) + names.index(name)
    if at >= len(_DRAWN) and not _TAKEN:
        _TAKEN.update(form for noun in NOUNS.values() for form in (noun.singular, noun.plural, noun.genitive))
        _TAKEN.update(lexicon_english.noun(kind, plural=plural) for kind in NOUNS for plural in (False, True))
    while at >= len(_DRAWN):
        kinds = CLASSES[names[len(_DRAWN) % len(names)]]
        _DRAWN.append(_draw(kinds[len(_DRAWN) // len(names) % len(kinds)]))
    return _DRAWN[at]


def _draw(kind: str) -> _Drawn:
    """A noun none of whose forms another one has."""
    rng = _SOURCE
    while True:
        stem = _word(rng)
        own, gender, own_gender = _word(rng), pick(rng, _GENDERS), pick(rng, _GENDERS)
        english = stem + _ENDINGS[gender]
        german, other = _german(law(stem), gender), _german(law(own), own_gender)
        forms = {english, english + "s", english[:-1] + "ies", *_forms(german), *_forms(other)}
        if _forms(german) & _forms(other) or forms & _TAKEN:
            continue
        spoken, own_spoken = sounds(stem), sounds(own)
        if spoken == own_spoken or spoken in _TAKEN or own_spoken in _TAKEN:
            continue
        _TAKEN.update(forms, (spoken, own_spoken))
        return _Drawn(kind, stem, gender, law(own), own_gender, rng.random(), spoken, own_spoken)


def _german(stem: str, gender: str) -> Noun:
    """A noun with the ending of its gender and regular forms."""
    stem = stem.capitalize()
    if gender == MASCULINE:
        return Noun(gender, stem + "er", stem + "er", stem + "ers")
    if gender == FEMININE:
        return Noun(gender, stem + "e", stem + "en", stem + "e")
    return Noun(gender, stem + "chen", stem + "chen", stem + "chens")


def _forms(noun: Noun) -> set[str]:
    return {noun.singular, noun.plural, noun.genitive}


def _syllable(rng: Random, *, open_end: bool) -> str:
    return pick(rng, _ONSETS) + pick(rng, _VOWELS) + ("" if open_end else pick(rng, _CODAS))


def _stem(rng: Random) -> str:
    return _syllable(rng, open_end=False)


def _word(rng: Random) -> str:
    """A stem of one syllable or two."""
    return (_syllable(rng, open_end=True) if rng.random() < 0.5 else "") + _stem(rng)


@cache
def _ranks(kind: str, words: int) -> tuple[list[int], list[float]]:
    """The ranks of a kind's nouns in its class, and their cumulative weights."""
    kinds = CLASSES[CLASS_OF[kind]]
    ranks = list(range(kinds.index(kind), words, len(kinds)))
    return ranks, list(accumulate(1 / (rank + 1 + SHIFT) for rank in ranks))


@cache
def _names(number: int) -> tuple[list[str], list[str]]:
    """As many names of men, which end in a consonant, and of women, in -a."""
    rng = Random("the names of miniworld")
    found: tuple[list[str], list[str]] = ([], [])
    used = set(lexicon_english.NAMES) | {"the", "a"}
    for _ in range(number):
        for female in (False, True):
            while True:
                name = _syllable(rng, open_end=True) + (pick(rng, _ONSETS) + "a" if female else _stem(rng))
                if name not in used:
                    break
            used.add(name)
            found[female].append(name.capitalize())
    return found
