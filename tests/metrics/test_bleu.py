"""BLEU and chrF are sacreBLEU's to the last digit, with its signatures; suspicious text is pointed out."""

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.data.sources import read_rows
from seq2seq_suite.metrics.bleu import (
    complaints,
    moses_tokens,
    score_of_several,
    score_translations,
    tokenised_share,
)
from seq2seq_suite.metrics.significance import FORMULAS, figures_of_items

REFERENCES = [
    "Ein Hund läuft über saftig-grünes Gras.",
    "Zwei Männer stehen am Herd und bereiten Essen zu.",
    "Eine Frau, die liest, sitzt im Park.",
] * 4
PREDICTIONS = [
    "Ein hund läuft über grünes Gras.",
    "Zwei Männer stehen am Herd und kochen Essen.",
    "Eine Frau sitzt im Park und liest.",
] * 4


def plain_bleu(predictions: list[str], references: list[str]) -> float:
    """BLEU of Papineni et al. 2002, equations 1 to 3, on words between blanks."""
    matches, totals = [0] * 4, [0] * 4
    for prediction, reference in zip(predictions, references, strict=True):
        for order in range(4):
            grams = [
                Counter(zip(*(text.split()[start:] for start in range(order + 1)), strict=False))
                for text in (prediction, reference)
            ]
            matches[order] += sum((grams[0] & grams[1]).values())
            totals[order] += sum(grams[0].values())
    written, wanted = (sum(len(text.split()) for text in texts) for texts in (predictions, references))
    precision = math.exp(sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    return 100 * precision * min(1.0, math.exp(1 - wanted / written))


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "zh", "char", "none"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_figures_and_signatures_are_sacrebleus_own(tokenizer, lowercase):
    score = score_translations(PREDICTIONS, REFERENCES, tokenizer=tokenizer, lowercase=lowercase)
    metric = sacrebleu.BLEU(tokenize=tokenizer, lowercase=lowercase)
    expected = metric.corpus_score(PREDICTIONS, [REFERENCES])
    chrf = sacrebleu.CHRF(lowercase=lowercase)
    assert score.figures["bleu"] == expected.score
    assert score.figures["chrf"] == chrf.corpus_score(PREDICTIONS, [REFERENCES]).score
    case = "lc" if lowercase else "mixed"
    assert score.signature == (
        f"BLEU|nrefs:1|case:{case}|eff:no|tok:{tokenizer}|smooth:exp|version:{sacrebleu.__version__}; "
        f"chrF2|nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    )
    assert score.details["signatures"]["bleu"] == f"BLEU|{metric.get_signature().format()}"


def test_tokenised_lowercased_bleu_is_that_of_moses_tokens():
    score = score_translations(PREDICTIONS, REFERENCES, tokenised_lowercase="de")
    tokens = moses_tokens("de")
    assert tokens("Ein Hund, saftig-grünes „Gras“!") == "ein hund , saftig-grünes &quot; gras &quot; !"
    assert tokens("Geht's?") == "geht &apos; s ?" and moses_tokens("en")("It's?") == "it &apos;s ?"
    expected = plain_bleu([tokens(text) for text in PREDICTIONS], [tokens(text) for text in REFERENCES])
    assert score.figures["tokenised_lowercase_bleu"] == pytest.approx(expected, abs=1e-9)
    assert score.figures["tokenised_lowercase_bleu"] != score.figures["bleu"]
    assert "BLEU|nrefs:1|case:lc|eff:no|tok:none|smooth:exp" in score.signature
    assert score.signature.endswith("(Moses tokens, -l de)")


def test_moses_tokens_of_the_german_multi30k_are_as_many_as_its_authors_have():
    """`test_2016_flickr.lc.norm.tok.de` has 12,103 tokens."""
    shared = Path(os.environ.get("S2S_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    if not (shared / "data/multi30k-en-de").is_dir():
        pytest.skip(
            "compares with Multi30k in shared/data beside the checkout (or where S2S_SHARED points), "
            "and it is not there"
        )
    rows = read_rows(str(shared / "data/multi30k-en-de"), "test", splits={})
    assert sum(len(moses_tokens("de")(row.fields["tgt"]).split()) for row in rows) == 12_103


def test_chinese_is_compared_character_by_character():
    references, predictions = ["他们看见一只大狗。"] * 4, ["他们看见一条大狗。"] * 4
    score = score_translations(predictions, references, tokenizer="zh")
    spaced = [" ".join(text) for text in predictions], [" ".join(text) for text in references]
    assert score.figures["bleu"] == pytest.approx(plain_bleu(*spaced), abs=1e-9)


def test_a_perfect_translation_scores_a_hundred_even_alone_and_short():
    assert score_translations(REFERENCES, REFERENCES).figures["bleu"] == pytest.approx(100.0)
    assert figures_of_items(score_translations(["Ja."], ["Ja."])) == pytest.approx([100.0])


def test_missing_and_empty_predictions_are_counted_and_score_nothing():
    figures = score_translations([None, "", *REFERENCES[2:]], REFERENCES).figures
    assert figures["empty_rate"] == pytest.approx(100 * 2 / 12)
    assert figures["exact_match"] == pytest.approx(100 * 10 / 12)
    assert figures["bleu"] < 90 and figures["length_ratio"] < 0.9
    assert score_translations([None], ["Ja."]).figures["bleu"] == 0.0
    figures = score_translations(["ja.", " ", "Ja. Ja ja."], ["Ja.", "Ja.", "Ja."]).figures
    assert figures["exact_match"] == 0.0 and figures["empty_rate"] == pytest.approx(100 / 3)
    assert figures["length_ratio"] == pytest.approx((2 + 0 + 5) / 6)


def test_tokenised_references_are_warned_of():
    tokenised = [" ".join(moses_tokens("de")(text).split()) for text in REFERENCES]
    for outputs, references, tokenizer, note in (
        (PREDICTIONS, tokenised, "13a", "look tokenised already"),
        (PREDICTIONS[:10], ["Ein Hund ."] * 3 + ["Ein Hund."] * 7, "auto", "look tokenised already"),
        (["我"] * 10, ["我 是 学 生 。"] * 10, "zh", "look tokenised already"),
        (["我"] * 10, ["我是学生我是学生。"] * 10, "13a", "choose zh"),
    ):
        assert note in score_translations(outputs, references, tokenizer=tokenizer).notes[0]


def test_plain_text_tokenised_text_declared_and_a_few_texts_are_not_warned_of():
    german = "Ein Hund läuft im Gras"
    for outputs, references, tokenizer in (
        (PREDICTIONS, REFERENCES, "13a"),
        (PREDICTIONS, [f"{german} ."] * 12, "none"),
        (PREDICTIONS[:9], [f"{german} ."] * 9, "auto"),
        (PREDICTIONS[:10], [f"{german} ."] * 2 + [f"{german}."] * 8, "auto"),
        (["x"] * 10, ["Vraiment ? Oui : il l'a dit !", "Je ne sais pas."] * 5, "13a"),
    ):
        assert score_translations(outputs, references, tokenizer=tokenizer).notes == ()
    assert tokenised_share([]) == 0.0 and tokenised_share(REFERENCES) == 0.0


def test_wrong_calls_are_refused():
    for predictions, references, tokenizer in (([], [], "13a"), (["a"], ["a", "b"], "13a"), (["a"], ["a"], "moses")):
        with pytest.raises(ValueError):
            score_translations(predictions, references, tokenizer=tokenizer)


def test_chinese_references_are_suspicious_from_one_half_on():
    texts = ["他们看见了一只大狗。"] * 5 + ["A cat sees."] * 5
    assert complaints(texts, tokenizer="13a") == complaints(texts, tokenizer="zh") == []
    assert "choose zh" in complaints(["他们看见了一只大狗。"] * 5 + texts, tokenizer="13a")[0]


UNSPACED = {
    "zh": "他们看见了一只大狗。",
    "ja": "きょうはいいてんきですね",
    "th": "วันนี้อากาศดีมาก",
    "lo": "ມື້ນີ້ອາກາດດີຫຼາຍ",
    "km": "ថ្ងៃនេះអាកាសធាតុល្អ",
    "my": "ဒီနေ့ရာသီဥတုကောင်းတယ်",
    "bo": "དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག",
}


@pytest.mark.parametrize("language", UNSPACED)
def test_scripts_without_blanks_get_a_tokenizer_of_signs(language):
    text = UNSPACED[language]
    other = text[: len(text) // 2]
    score = score_translations([text] * 3, [text] * 3)
    assert score.figures["bleu"] == score.figures["chrf"] == 100 and score.notes == ()
    assert f"|tok:{'zh' if language == 'zh' else 'char'}|" in score.signature
    assert 0 < score_translations([text, other], [text, text]).figures["bleu"] < 100
    assert "choose" in complaints([text], tokenizer="13a")[0]
    assert (complaints([text], tokenizer="zh") == []) == (language == "zh")


@pytest.mark.parametrize(("tokenizer", "text"), [("ja-mecab", "ein Hund"), ("ko-mecab", "犬が猫を見ています")])
def test_a_tokenizer_for_another_script_is_warned_of(tokenizer, text):
    assert "not in the script that the tokenizer" in complaints([text], tokenizer=tokenizer)[0]


def test_references_without_four_tokens_have_bleu_of_effective_order():
    texts = ["guten Tag", "bis morgen", "vielen Dank dir"]
    score = score_translations(texts, texts)
    oracle = sacrebleu.BLEU(effective_order=True)
    assert score.figures["bleu"] == 100 and "|eff:yes|" in score.signature
    assert "no reference has 4 tokens" in score.notes[0]
    outputs = ["guten Abend", "bis morgen", "Dank dir"]
    score = score_translations(outputs, texts)
    assert score.figures["bleu"] == pytest.approx(oracle.corpus_score(outputs, [texts]).score)
    assert FORMULAS[score.formula](np.array(score.counts).sum(0, keepdims=True))[0] == pytest.approx(
        score.figures["bleu"]
    )
    mixed = score_translations([*texts, REFERENCES[0]], [*texts, REFERENCES[0]])
    assert "|eff:no|" in mixed.signature and "3 of 4 references have fewer than 4 tokens" in mixed.notes[0]


def test_several_references_count_as_sacrebleu_has_it():
    others = [["Ein Hund läuft über grünes Gras."] * 12, ["Eine Frau sitzt im Park und liest."] * 12]
    score = score_translations(PREDICTIONS, REFERENCES, *others)
    expected = sacrebleu.BLEU().corpus_score(PREDICTIONS, [REFERENCES, *others]).score
    assert score.figures["bleu"] == expected and "BLEU|nrefs:3|" in score.signature
    assert score.figures["chrf"] == sacrebleu.CHRF().corpus_score(PREDICTIONS, [REFERENCES, *others]).score
    assert score.figures["exact_match"] == pytest.approx(100 * 4 / 12)
    assert FORMULAS["bleu"](np.array(score.counts).sum(0, keepdims=True))[0] == pytest.approx(expected)


def test_a_tokenizer_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sacrebleu.utils, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="flores200 needs its model") as caught:
        score_translations(["a"], ["a"], tokenizer="flores200")
    assert "download https://" in caught.value.remedy
    monkeypatch.setattr("seq2seq_suite.common.lazy_imports.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="MeCab is not installed") as caught:
        score_translations(["a"], ["a"], tokenizer="ja-mecab")
    assert "[japanese]" in caught.value.remedy


SEVERAL = [["ein Hund schläft jetzt hier", "jetzt schläft hier ein Hund"], ["die Katze sieht den Vogel dort"]]


def test_several_right_texts_are_those_of_sacrebleu_with_one_repeated():
    from sacrebleu.metrics import BLEU

    outputs = ["jetzt schläft ein Hund hier", "die Katze sieht den Vogel"]
    score = score_of_several(outputs, SEVERAL)
    streams = [[texts[0] for texts in SEVERAL], [texts[-1] for texts in SEVERAL]]
    assert score.figures["bleu"] == pytest.approx(BLEU().corpus_score(outputs, streams).score)
    assert score.figures["valid"] == 0.0
    nearest = [SEVERAL[0][1], SEVERAL[1][0]]  # two word edits (a swap) from the second, four from the first
    assert score.figures["nearest"] == pytest.approx(BLEU().corpus_score(outputs, [nearest]).score)


def test_a_mixture_of_two_right_texts_is_neither():
    """BLEU over both forgives what `valid` and `nearest` do not."""
    right = [["er kauft heute einen roten Wagen", "heute kauft er ein rotes Auto"]]
    mixed = score_of_several(["heute kauft er einen roten Wagen"], right).figures
    pure = score_of_several([right[0][1]], right).figures
    assert pure["valid"] == pure["nearest"] == pytest.approx(100.0)
    assert mixed["valid"] == 0.0 and mixed["nearest"] < mixed["bleu"] < 100.0


@pytest.mark.parametrize("most", [1, 2, 4])
def test_outputs_that_are_right_have_a_hundred_whatever_the_number_of_texts(most):
    several = [
        [f"der Hund {word} die Katze {place} {count}" for place in range(1 + count % most)]
        for count, word in enumerate(("sieht", "hört", "jagt", "mag"))
    ]
    figures = score_of_several([texts[-1] for texts in several], several).figures
    assert (figures["valid"], round(figures["bleu"], 9), round(figures["nearest"], 9)) == (100.0, 100.0, 100.0)
