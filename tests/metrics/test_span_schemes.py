"""Tags of spans in every scheme give the same spans, as seqeval reads each, and what is of none is refused."""

from random import Random

import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.metrics.span_schemes import as_bioes, scheme_of
from seq2seq_suite.metrics.tags import score_tags


def _place(size, first, middle, last, single):
    return [single] if size == 1 else [first, *[middle] * (size - 2), last]


def written(spans, scheme):
    """The tags of a sentence of (kind, size), kind O for words outside; IOB1 and IOE1 mark only neighbours."""
    tags = []
    for number, (kind, size) in enumerate(spans):
        before, behind = (spans[place][0] if 0 <= place < len(spans) else "O" for place in (number - 1, number + 1))
        letters = {
            "IOB2": _place(size, *"BIIB"),
            "IOE2": _place(size, *"IIEE"),
            "BIOES": _place(size, *"BIES"),
            "BILOU": _place(size, *"BILU"),
            "BMES": _place(size, *"BMES"),
            "BMEWO": _place(size, *"BMEW"),
            "IOB1": _place(size, *("BIIB" if before == kind else "IIII")),
            "IOE1": _place(size, *("IIEE" if behind == kind else "IIII")),
        }[scheme]
        tags += ["O"] * size if kind == "O" else [f"{letter}-{kind}" for letter in letters]
    return tags


def sentence(random):
    return [(random.choice(["PER", "LOC", "A-B", "O"]), random.randint(1, 4)) for _ in range(random.randint(1, 6))]


SCHEMES = ["IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU", "BMES", "BMEWO"]


@pytest.mark.parametrize("true_in", SCHEMES)
@pytest.mark.parametrize("found_in", SCHEMES)
def test_the_same_spans_have_the_same_figures_in_every_scheme(true_in, found_in):
    random = Random(f"{true_in} {found_in}")
    true, found = [], []
    for _ in range(20):
        true.append(sentence(random))
        found.append([(random.choice([kind, kind, kind, "O"]), size) for kind, size in true[-1]])
    figures = [
        score_tags([written(one, first) for one in true], [written(one, second) for one in found], spans=True).figures
        for first, second in ((true_in, found_in), ("IOB2", "IOB2"))
    ]
    assert {name: value for name, value in figures[0].items() if "span" in name} == {
        name: value for name, value in figures[1].items() if "span" in name
    } and 0 < figures[1]["span_f1"] < 100


@pytest.mark.parametrize("name", ["IOB1", "IOB2", "IOE2", "IOBES", "BILOU"])  # its IOE1 differs
def test_the_figures_are_those_of_seqeval_given_the_scheme(name):
    from seqeval import scheme
    from seqeval.metrics import f1_score

    random = Random(name)
    pieces = [sentence(random) for _ in range(30)]
    ours = "BIOES" if name == "IOBES" else name
    true = [written(one, ours) for one in pieces]
    found = [written([(kind if random.random() < 0.8 else "O", size) for kind, size in one], ours) for one in pieces]
    expected = f1_score(true, found, mode="strict", scheme=getattr(scheme, name))
    assert score_tags(true, found, spans=True).figures["span_f1"] == pytest.approx(100 * expected)


def test_letters_without_kinds_are_a_scheme_of_one_kind():
    assert scheme_of([(list("BMES"), {})]) == "BMES" and as_bioes(list("BMES"), "BMES") == list("BIES")
    assert score_tags([list("BMESS")], [list("BMEBE")], spans=True).figures["span_f1"] == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("PER-B", "behind the kind"),
        ("b-per", "a small letter"),
        ("o", "a small letter"),
        ("B_PER", "no '-' between"),
        ("NN", "marks no span"),
        ("B-", "marks no span"),
        ("X-PER", "marks no span"),
        ("", "marks no span"),
        ("-PER", "marks no span"),
        ("domain=en", "marks no span"),
        ("NNP", "marks no span"),
        ("B/PER", "no '-' between"),
    ],
)
def test_a_tag_of_no_scheme_is_refused_with_its_reason(tag, why):
    with pytest.raises(DataError) as caught:
        scheme_of([(["O"], {}), (["B-PER", tag], {"file": "gold", "line": 2})])
    assert (
        repr(tag) in caught.value.got
        and why in caught.value.got
        and (caught.value.file, caught.value.line) == ("gold", 2)
        and "BILOU" in caught.value.expected
        and "tagging.spans" in caught.value.remedy
    )


@pytest.mark.parametrize(
    "tags",
    [
        ["E-PER", "L-PER"],
        ["U-PER", "S-PER"],
        ["M-PER", "I-PER"],
        ["B-PER", "I"],
        ["L-PER", "M-PER"],
        ["W-PER", "I-PER"],
    ],
)
def test_a_mixture_of_schemes_is_refused_where_it_begins(tags):
    for sentences in ([(tags, {"line": 7})], [(tags[:1], {"line": 1}), (tags[1:], {"line": 7})]):
        with pytest.raises(DataError, match="the tags mix schemes") as caught:
            scheme_of(sentences)
        assert caught.value.line == 7
    letters: set[str] = set()
    scheme_of([(tags[:1], {})], letters)
    with pytest.raises(DataError, match="mix"):  # in another split
        scheme_of([(tags[1:], {})], letters)
