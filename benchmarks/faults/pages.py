"""Sentences, labels, names of files and folders that hold markup; then the pages are searched for what became of it."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.faults import examples, verbs
from benchmarks.faults.campaign import Case, Kind

MARK = "zq"  # in every tag and attribute of the data, and nowhere else
_MARKUP = tuple(
    text.replace("zq", MARK)
    for text in (
        "<zqb>x</zqb>",
        "<zqimg src=x onzq=1>",
        "&lt;zq&gt;&amp;",
        '"><zqa>',
        "'><zqa>",
        "</script><zqa>",
        "</style><zqa>",
        "</title><zqa>",
        "</td></table><zqa>",
        "<!--zq",
        "--><zqa>",
        "]]><zqa>",
        "<script>zq()</script>",
        "<zqa/x",
        '" onzq="1',
        "{zq}",
        "javascript:zq",
        "\u202ezq\u2066<zqa>",
        "\\u003czqa>",
        "%3Czqa>",
        "<zq\u0000a>",
        "`${zq}`",
        "<svg/zqonload=1>",
        "\ufeff<zqa>",
        "<\u200bzqa>",
    )
)


class Found(HTMLParser):
    """What a page has that came from data: complaints in `wrong`; `text` says whether the mark was seen at all."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.text, self.inside = False, ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = tag if tag in ("script", "style") else self.inside
        if MARK in tag:
            self.wrong.append(f"a tag <{tag}>")
        for name, value in attributes:
            if MARK in name or (name.startswith("on") and MARK in (value or "")) or "javascript:" in (value or ""):
                self.wrong.append(f"an attribute {name}={value!r} of <{tag}>")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside
        if MARK in tag:
            self.wrong.append(f"a tag </{tag}>")

    def handle_data(self, data: str) -> None:
        self.text |= MARK in data
        if self.inside and f"<{MARK}" in data:
            self.wrong.append(f"data in <{self.inside}>")

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self.wrong.append("a comment")

    handle_decl = unknown_decl = handle_pi = handle_comment


def search(page: str) -> Found:
    """Parse a page.

    >>> search("<p title='&lt;zqa>'>&lt;zqb&gt;</p>").wrong, search("<p>a<zqb>c</p>").wrong
    ([], ['a tag <zqb>'])
    """
    found = Found()
    found.feed(page)
    found.close()
    return found


def spoil(case: Case, folder: Path, task: str) -> None:
    """Put markup into the texts and labels of a task's data, and into the names of its files."""
    random = case.random
    joined = [text.replace(" ", "\u00a0") for text in _MARKUP if not set(text) & set("(){}")]  # of trees: no brackets
    for split in examples.ROWS:
        rows = examples.read(folder / f"{split}.jsonl")
        for row in rows:
            one, other = random.choice(_MARKUP), random.choice(_MARKUP)
            match task:
                case "parsing":
                    row["tree"] = f"({random.choice(joined)} (NN {random.choice(joined)}) {row['tree']})"
                case "translation":
                    row |= {"en": f"{one} {row['en']}", "de": f"{other} {row['de']}"}
                case "qa":
                    row |= {
                        "question": f"{one} ?",
                        "context": f"{other} . {row['context']}",
                        "answer": other,
                        "type": random.choice(_MARKUP),
                    }
                case "multilabel":
                    row |= {"text": f"{one} {row['text']}", "labels": random.sample(_MARKUP[:6], k=2)}
                case "tagging":
                    words = random.choice(_MARKUP).split()
                    row |= {"words": " ".join(words), "tags": " ".join(f"<b>{number}" for number in range(len(words)))}
                case "summarisation":
                    row |= {"text": f"{one} {row['text']}", "summary": other}
                case "detection":
                    row["objects"]["categories"] = random.sample(_MARKUP[:6], k=2)
                case _:
                    name = next(name for name, value in row.items() if name != "file_name" and isinstance(value, str))
                    row[name] = f"{one} {row[name]}"
            if task == "speech_translation":
                row["translation"] = f"{other} {row['translation']}"
            if "file_name" in row:
                name = f"<{MARK}f on{MARK}=1>&amp;{row['file_name']}"
                shutil.move(folder / row["file_name"], folder / name)
                row["file_name"] = name
        examples.write_rows(folder / f"{split}.jsonl", rows)


def try_pages(case: Case) -> None:
    """Train on data with markup, compare the run with another, and parse what both wrote."""
    tasks = (*examples.TASKS, "joint")
    task = tasks[case.number % len(tasks)]
    case.counts[task] += 1
    data = case.folder / f"<{MARK}d>&amp;"
    shutil.copytree(case.shared / "data" / task, data)
    for name in examples.JOINT if task == "joint" else ("",):
        spoil(case, data / name, name or task)
    examples.write_yaml(case.folder / "run.yaml", examples.settings(task, data.name, case.shared / "features"))
    run = f"<{MARK}r on{MARK}=1>\"'&lt;"
    case.call("run", "run.yaml", "--output", run, codes=(0,), limit=60.0)
    other = verbs.found(case, case.random.choice((task, "qa")))
    case.call("compare", run, other, "--no-speed", "--html", "compared.html", codes=(0,), limit=60.0)
    pages = [*case.folder.glob("*/**/*.html"), *case.folder.glob("*.html")]
    for page in pages:
        case.counts["pages"] += 1
        found = search(page.read_text(encoding="utf-8"))
        for wrong in dict.fromkeys(found.wrong):
            case.expect(False, f"{task}: {wrong} in {page.relative_to(case.folder)}")
        case.expect(found.text, f"{task}: nothing of the data is shown in {page.relative_to(case.folder)}")
    case.expect(len(pages) > 1, f"{task}: {len(pages)} pages")


KINDS = (Kind("pages", "pages of data with markup", try_pages, 60, share=2.0, prepare=verbs.prepare),)
