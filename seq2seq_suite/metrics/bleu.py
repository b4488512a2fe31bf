"""BLEU and chrF, by sacreBLEU, and the lower-cased tokenised BLEU of older papers."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seq2seq_suite.types import Score

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

TOKENIZERS = ("13a", "zh", "none")
_FEWEST = 10  # texts that a warning needs
_SUSPICIOUS = 0.2
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff"
# Blanks before . and , ; hyphens, quotes and brackets as Moses' tokenizer writes them. No ! ? : ; for French, which
# has blanks there in ordinary type.
_TOKENISED = re.compile(rf" [.,](?: |$)|@-@|&(?:apos|quot|#9[13]|#124);|[{_CHINESE}] [{_CHINESE}] [{_CHINESE}]")


def score_translations(predictions: Sequence[str | None], references: Sequence[str], *, tokenizer: str = "13a",
                       lowercase: bool = False, tokenised_lowercase: str = "") -> Score:
    """Corpus metrics of translations with one reference each; a missing prediction counts as an empty one.

    Args:
        predictions, references: plain text, neither tokenised nor lower-cased.
        tokenizer: one of `TOKENIZERS`; `none` only for text that is tokenised already.
        lowercase: compare without regard to case.
        tokenised_lowercase: a language code, for BLEU of the lower-cased text as Moses tokenises that language
            also, which many papers report; empty leaves it out.

    Returns:
        Figures bleu, chrf, tokenised_lowercase_bleu where asked for, exact_match and empty_rate (all in percent) and
        length_ratio (tokens written by tokens of the references). The signature holds sacreBLEU's own, verbatim,
        with `; ` between them; `details["signatures"]` has them by figure, `details` sacreBLEU's lines with the
        precisions of each order.

    Raises:
        ValueError: the tokenizer is unknown, or there is not one prediction for each reference, or none at all.

    >>> score = score_translations(["the cat sleeps here"], ["the cat sleeps here"])
    >>> round(score.figures["bleu"]), score.signature.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    (100, True)
    """
    from sacrebleu.metrics import BLEU, CHRF

    if tokenizer not in TOKENIZERS:
        raise ValueError(f"unknown tokenizer {tokenizer!r}, choose from {', '.join(TOKENIZERS)}")
    if not references or len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
    outputs = [prediction or "" for prediction in predictions]
    for complaint in complaints(references, tokenizer=tokenizer):
        warnings.warn(complaint, stacklevel=2)

    bleu = BLEU(tokenize=tokenizer, lowercase=lowercase)
    chrf = CHRF(lowercase=lowercase)
    bleu_score, chrf_score = bleu.corpus_score(outputs, [references]), chrf.corpus_score(outputs, [references])
    figures = {"bleu": bleu_score.score, "chrf": chrf_score.score}
    signatures = {"bleu": f"{bleu_score.name}|{bleu.get_signature().format()}",
                  "chrf": f"{chrf_score.name}|{chrf.get_signature().format()}"}
    details: dict[str, object] = {"signatures": signatures, "bleu": bleu_score.format()}
    if tokenised_lowercase:
        tokens = moses_tokens(tokenised_lowercase)
        plain = BLEU(tokenize="none", lowercase=True, force=True)
        plain_score = plain.corpus_score([tokens(text) for text in outputs], [[tokens(text) for text in references]])
        figures["tokenised_lowercase_bleu"] = plain_score.score
        signatures["tokenised_lowercase_bleu"] = f"{plain_score.name}|{plain.get_signature().format()}"
        details["tokenised_lowercase_bleu"] = plain_score.format()
    same = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    figures |= {"exact_match": 100.0 * same / len(outputs),
                "empty_rate": 100.0 * sum(not output.strip() for output in outputs) / len(outputs),
                "length_ratio": bleu_score.sys_len / max(1, bleu_score.ref_len)}
    signature = "; ".join(signatures.values())
    if tokenised_lowercase:
        signature += f" (Moses tokens, -l {tokenised_lowercase})"
    return Score(figures, signature, details, formula="bleu", counts=_counts(bleu, outputs, references))


def _counts(bleu: BLEU, outputs: Sequence[str], references: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Each pair's lengths, matches and totals of n-grams, of which corpus BLEU is made."""
    bleu.effective_order = True  # of a sentence's own score, which is not used; without it sacreBLEU warns
    scores = (bleu.sentence_score(output, [reference]) for output, reference in zip(outputs, references, strict=True))
    return tuple((score.sys_len, score.ref_len, *score.counts, *score.totals) for score in scores)


def complaints(texts: Sequence[str], *, tokenizer: str) -> list[str]:
    """Warnings about scoring these references with that tokenizer; none for few texts.

    >>> complaints(["Ein Hund bellt ."] * 10, tokenizer="13a")[0].partition(":")[0]
    'the references look tokenised already'
    >>> complaints(["Ein Hund bellt."] * 10, tokenizer="13a")
    []
    """
    if len(texts) < _FEWEST:
        return []
    found = []
    if tokenizer != "none" and tokenised_share(texts) > _SUSPICIOUS:
        found.append("the references look tokenised already: BLEU of tokenised text is not comparable with others'; "
                     "detokenise the data, or choose the tokenizer none and say so beside the figure")
    if tokenizer == "13a" and sum(bool(re.search(f"[{_CHINESE}]", text)) for text in texts) > len(texts) / 2:
        found.append("the references look Chinese, which the tokenizer 13a leaves in one piece: choose zh")
    return found


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
    return lambda text: tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True)
