"""Outputs and references that people see as equal, in many scripts, layouts and tag schemes: the score says so, too."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from random import Random

from benchmarks.faults import examples
from benchmarks.faults.campaign import Case, Kind

# A few words of each; scripts without blanks are joined.
_SCRIPTS = {
    "Latin": "the dog sees a cat",
    "accents": "über façade naïve Ångström señor",
    "Greek": "ο σκύλος βλέπει τη γάτα",
    "Cyrillic": "собака видит кота її подвір'я",
    "Hindi": "हिन्दी में पढ़ना कुत्ता बिल्ली",
    "Bengali": "কুকুর বিড়াল দেখে বাংলা",
    "Arabic": "الكلب يرى القطة مُدَرِّسة",
    "Hebrew": "שָׁלוֹם עוֹלָם הכלב רואה",
    "Persian": "می‌خواهم کتاب‌ها را بخوانم",
    "Telugu": "తెలుగు కుక్క పిల్లి చూస్తుంది",
    "Korean": "개가 고양이를 본다 한국어",
    "Vietnamese": "con chó nhìn thấy mèo tiếng",
}
_JOINED = {"Chinese": "今天北京下大雨", "Japanese": "犬が猫を見ています", "Thai": "สุนัขเห็นแมวที่นี่"}
_PERFECT = {
    "translation": ("bleu", 100),
    "summarisation": ("rouge1", 100),
    "asr": ("wer", 0),
    "qa": ("exact_match", 100),
    "multilabel": ("micro_f1", 100),
    "tagging": ("accuracy", 100),
    "parsing": ("f1", 100),
}
_SCHEMES: dict[str, Callable[[int, int], str]] = {  # the prefix of word `place` of a span of `size`
    "IOB2": lambda place, size: "B" if place == 0 else "I",
    "IOE2": lambda place, size: "E" if place == size - 1 else "I",
    "BIOES": lambda place, size: "S" if size == 1 else "BE"[place == size - 1] if place in (0, size - 1) else "I",
    "BILOU": lambda place, size: "U" if size == 1 else "BL"[place == size - 1] if place in (0, size - 1) else "I",
    "BMES": lambda place, size: "S" if size == 1 else "BE"[place == size - 1] if place in (0, size - 1) else "M",
}


def sentence(random: Random) -> tuple[str, str]:
    """A script, and a sentence of one to five of its words."""
    script = random.choice([*_SCRIPTS, *_JOINED])
    count = random.randint(1, 5)
    if script in _JOINED:
        return script, "".join(random.choices(_JOINED[script], k=2 * count)) if script != "Thai" else _JOINED[script]
    return script, " ".join(random.choices(_SCRIPTS[script].split(), k=count))


def other_form(text: str, random: Random) -> str:
    """The same text in code points or line ends that readers do not see."""
    return random.choice((text, unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)))


def spans(random: Random) -> list[tuple[int, str]]:
    """Sizes and types of neighbouring spans: O for what is outside, and no two of one type side by side.

    Each scheme writes them unambiguously: at least one span is longer than two words, one is a single word.
    """
    order = random.sample(("LOC", "PER", "ORG"), k=3)
    return [
        piece
        for size, kind in zip((1, 3, random.randint(1, 4)), order, strict=True)
        for piece in ((size, kind), (random.randint(1, 2), "O"))
    ]


def tags(pieces: Sequence[tuple[int, str]], scheme: str) -> str:
    """The tags of spans in a scheme.

    >>> tags([(1, "LOC"), (1, "O"), (3, "PER")], "BIOES")
    'S-LOC O B-PER I-PER E-PER'
    """
    prefix = _SCHEMES[scheme]
    return " ".join(
        "O" if kind == "O" else f"{prefix(place, size)}-{kind}" for size, kind in pieces for place in range(size)
    )


def _same(case: Case, task: str) -> tuple[str, str, str]:
    """What is in both files, and a word on it: references, outputs."""
    random, lines = case.random, range(4)
    match task:
        case "parsing":
            trees = [examples.tree([sentence(random)[1].split()[0] for _ in range(3)], random) for _ in lines]
            layout = random.choice(("a line each", "over lines", "over lines, with outer brackets"))
            gold = {
                "a line each": "\n".join(trees),
                "over lines": "\n\n".join(tree.replace(" (", "\n  (") for tree in trees),
                "over lines, with outer brackets": "\n\n".join(f"( {tree})".replace(" (", "\n  (") for tree in trees),
            }[layout]
            return layout, gold, "\n".join(other_form(tree, random) for tree in trees)
        case "tagging":
            scheme = random.choice(list(_SCHEMES))
            gold = "\n".join(tags(spans(random), scheme) for _ in lines)
            return scheme, gold, gold
        case "multilabel":
            pairs = [sorted({sentence(random)[1].replace(",", "") for _ in range(2)}) for _ in lines]
            return (
                "labels",
                "\n".join(map(", ".join, pairs)),
                "\n".join(other_form(", ".join(reversed(pair)), random) for pair in pairs),
            )
    written = [sentence(random) for _ in lines]
    text = "\n".join(one for _, one in written)
    return ", ".join(script for script, _ in written), text, other_form(text, random)


def try_same(case: Case) -> None:
    """Score equal files, then one with a line that is another."""
    task = list(_PERFECT)[case.number % len(_PERFECT)]
    case.counts[task] += 1
    what, gold, given = _same(case, task)
    metric, perfect = _PERFECT[task]
    setting = ["tagging.spans=true"] * (task == "tagging")
    gold += case.random.choice(("", "\n", "\n\n" if task == "parsing" else "\n"))
    (case.folder / "gold").write_text(gold, encoding="utf-8")
    wrong = (
        given.rstrip("\n").rpartition("\n")[0]
        + "\n"
        + {"parsing": "(S (NN zzz))", "tagging": " ".join(["O"] * len(given.rpartition("\n")[2].split()))}.get(
            task, "zzz"
        )
    )
    for name, text in (("given", given), ("wrong", wrong)):
        (case.folder / name).write_text(text + "\n", encoding="utf-8")
        end = case.call("score", "--json", "--", task, "gold", name, *setting, codes=(0,))
        if end.code == 0:
            figures = json.loads(end.out)["figures"]
            case.expect(
                (abs(figures[metric] - perfect) < 1e-9) == (name == "given"),
                f"{task} ({what}): {metric} {figures[metric]} of {name} outputs",
            )
            case.expect(
                all(value <= 100 for key, value in figures.items() if key in ("bleu", "chrf", "span_f1")),
                f"{task}: a figure above 100",
            )
            if task == "tagging" and name == "given":
                case.expect(figures["span_f1"] == 100, f"{what}: span_f1 {figures['span_f1']} of given outputs")


KINDS = (Kind("alike", "outputs that people see as equal or not, scored", try_same, 150, share=1.5),)
