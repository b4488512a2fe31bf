"""Rows of local files and folders, of the Hugging Face Hub, or of the embedded data.

`formats.READERS` has the formats of files, `parallel` those that need two, and here is where files are looked for.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError, truncate
from seq2seq_suite.common.files import cache_root
from seq2seq_suite.data.cache import CORPORA, entry
from seq2seq_suite.data.formats import READERS, BadRows, Row, is_readable, kind, load_rows, reader_of
from seq2seq_suite.data.lines import sound_beside, without_text
from seq2seq_suite.data.parallel import VALIDATION_NAMES, find_parallel, read_parallel

EMBEDDED = "miniworld"  # what `data.path` calls the embedded data
_ROWS = "rows.jsonl"  # of embedded data that are kept
_BOOKKEEPING = frozenset(
    {
        "dataset_info.json",
        "dataset_dict.json",
        "state.json",  # what `save_to_disk` adds
        "feats.scp",
        "cmvn.scp",
        "vad.scp",
    }
)  # and Kaldi

_ABOUT = frozenset({"readme", "license", "licence", "labels"})  # texts that lie beside data


def read_rows(
    path: str,
    split: str,
    *,
    splits: dict[str, str],
    subset: str = "",
    size: int = 0,
    format: str = "",
    languages: tuple[str, str] | None = None,
    bad: BadRows | None = None,
    world: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    """Read one split.

    Args:
        path: a local file (the split train), a local folder, a data set of the Hub (`name` or `owner/name`), or
            `miniworld`, the embedded data.
        split: our name of the split: train, validation, test or any other.
        splits: where to find the splits that are not simply called by our name. In a folder: names of files without
            extension or of subfolders, with wildcards, separated by commas: `train` is train.*, train-*.* and train/;
            names with wildcards are also looked up in subfolders: `wsj_0[2-9]*,wsj_1*` finds 02/wsj_0201.mrg;
            validation may also be dev, valid or val. On the Hub: an expression such as `train[:90%]`.
            Of one file: `train`, for a split that is to have the same rows.
        subset: subfolder of a folder, or configuration of a data set of the Hub. A folder with the split's files and no
            such subfolder counts as a local copy of that configuration. For embedded data, the view.
        size: rows of embedded data; 0 for the view's default.
        format: of local files, see `formats.reader_of`.
        languages: of parallel text, which may be a file for each, see `find_parallel`.
        bad: collects the rows that cannot be read; without it, the first of them raises.
        world: of embedded data, the arguments of the rich world; None for the plain one.

    Returns:
        The rows in order, files sorted by name, without blank lines. Images and sound as they are stored, not decoded;
        class labels of a Hugging Face data set as names.

    Raises:
        DataError: nothing is found, the split exists in several formats, or no row or too few can be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "dev.tsv").write_text("source\\ttarget\\nein Hund\\ta dog\\n", encoding="utf-8")
    ...     row = next(read_rows(folder, "validation", splits={}))
    >>> row.fields, row.line
    ({'source': 'ein Hund', 'target': 'a dog'}, 2)
    """
    bad = BadRows(0) if bad is None else bad
    if path == EMBEDDED:
        found = _embedded(subset, splits.get(split, split), size=size, languages=languages or (), world=world)
        return (Row(fields, f"{path}/{subset}/{split}", number) for number, fields in enumerate(found, 1))
    files = files_of(path, split, splits=splits, subset=subset, format=format, languages=languages)
    if not files:
        remedy = (
            f"{_nearest(local(path, subset))}give the path of a local folder, or check name, subset, split and "
            "network (with HF_HUB_OFFLINE=1 only downloaded data sets are found)"
        )
        # This may take half a minute without a network.
        print(f"{path}: no such local file or folder, asking the Hugging Face Hub", file=sys.stderr, flush=True)
        rows = load_rows(path, path, name=subset or None, split=splits.get(split, split), remedy=remedy)
        return _never_empty(rows, path, split=split, bad=bad)
    if languages and not is_readable(files[0], format):
        rows = read_parallel((files[0], files[1]), languages, bad=bad)
    else:
        rows = (row for file in files for row in reader_of(file, format)(file, bad))
        rows = chain(rows, without_text(files, bad)) if kind(files[0]) == ".txt" and not format else rows
    return _never_empty(rows, str(files[0]), split=split, bad=bad)


def _embedded(
    view: str, split: str, *, size: int, languages: Collection[str], world: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """Rows of the embedded data. Texts are generated once, which takes seconds, and kept for later runs."""
    from seq2seq_suite.miniworld import TEXTS, rich_world, rows, splits_of, version

    knobs = None if world is None else rich_world(**world)
    generate = partial(rows, view, split, size=size, languages=languages, world=knobs)
    if size or view not in TEXTS or split not in splits_of(view, knobs):
        return generate()
    rich = () if knobs is None else (hashlib.blake2b(repr(knobs).encode(), digest_size=8).hexdigest(),)

    def make(folder: Path) -> None:
        with (folder / _ROWS).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in generate())

    try:
        folder = entry(cache_root() / CORPORA, "-".join((EMBEDDED, view, split, *languages, *rich, version())), make)
        return map(json.loads, (folder / _ROWS).open(encoding="utf-8"))
    except (DataError, OSError):  # nothing can be kept here
        return generate()


def files_of(
    path: str,
    split: str,
    *,
    splits: dict[str, str],
    subset: str = "",
    format: str = "",
    languages: tuple[str, str] | None = None,
) -> list[Path]:
    """The files of a split, sorted by name, of parallel text one for each language; none of the Hub's data.

    See `read_rows` for arguments and errors.
    """
    place, name = local(path, subset), splits.get(split, split)
    if name != "train" and is_one_file(path, subset, languages):
        raise DataError(
            f"no split '{split}': a single file holds the split train alone",
            file=path,
            expected="a folder with a file for each split, or the split's share of the rows in data.split",
            remedy='cut it off as in "data.split={validation: 0.1, test: 0.1}"'
            + ", or leave it out of data.test_splits" * (split != "validation"),
        )
    sides = find_parallel(place / subset, name, languages) if languages and not format else None
    if sides:
        return list(sides)
    if place.is_file():
        if not is_readable(place, format):
            raise DataError(
                f"'{place.suffix}' is not a known format",
                file=path,
                expected=", ".join(READERS),
                remedy="convert the file, or set data.format if only the extension is wrong",
            )
        return [place]
    if whole := _whole(place / subset):
        return whole
    if (place / subset).is_dir():
        return _files_of_split(place / subset, name, format)
    if place.is_dir() and _has_split(place, name, format):
        return _files_of_split(place, name, format)
    if (
        place.is_dir()
        or not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", path)
        or kind(place) in READERS
        or ("/" in path and place.parent.is_dir())
    ):  # no name of the Hub
        raise DataError(
            "no such file or folder",
            file=str(place / subset),
            expected="a file, a folder with the subset, or the name of a data set of the Hub",
            remedy=f"{_nearest(place / subset)}correct the path or the subset",
        )
    return []


def is_one_file(path: str, subset: str = "", languages: tuple[str, str] | None = None) -> bool:
    """Whether a path is that of one file without splits, of parallel text one for each language, or a folder so."""
    place = local(path, subset)
    return (
        place.is_file()
        or bool(_whole(place / subset))
        or bool(languages and not (place / subset).is_dir() and find_parallel(place / subset, "", languages))
    )


def _whole(folder: Path) -> list[Path]:
    """The files of a folder that is one data set without splits, which is train; none of any other.

    What `Dataset.save_to_disk` wrote, `metadata.*` beside what it describes, or texts beside recordings.
    """
    if (folder / "state.json").is_file():
        return sorted(folder.glob("data-*.arrow"))
    found = [file for file in (folder / f"metadata{extension}" for extension in READERS) if file.is_file()]
    found = found or sorted(file for file in folder.glob("*.txt") if sound_beside(file))
    return [] if not found or _has_split(folder, "train") else found


def splits_of_embedded() -> set[str]:
    """The names of the splits that any view of the embedded data has."""
    from seq2seq_suite.miniworld import GAPS, VIEWS

    return {split for view in (*VIEWS.values(), *GAPS.values()) for split in view}


def divided(rows: Iterable[Row], split: str, shares: Mapping[str, float], bad: BadRows) -> Iterator[Row]:
    """The rows of train that belong to a split, each by a hash of what it holds, so that equal rows stay together.

    Args:
        rows: of train, as they are in the files.
        split: train, or one of `shares`.
        shares: split -> its share of the rows; train has the rest.
        bad: takes a note of how many they are.

    >>> rows = [Row({"text": str(number)}, "a.txt", number) for number in range(1000)]
    >>> [len(list(divided(rows, split, {"validation": 0.1, "test": 0.2}, BadRows(0)))) for split in ("train", "test")]
    [689, 215]
    """
    total = chosen = 0
    for row in rows:
        total += 1
        digest = hashlib.blake2b(repr(sorted(row.fields.items())).encode("utf-8", "replace"), digest_size=8).digest()
        drawn, owner = int.from_bytes(digest) / 2**64, "train"
        for name, share in shares.items():
            if 0.0 <= drawn < share:
                owner = name
            drawn -= share
        if owner == split:
            chosen += 1
            yield row
    bad.notes.append(f"{split}: {chosen:,} of {total:,} rows, by a hash of each (data.split)")


def local(path: str, subset: str = "") -> Path:
    """The path of local data, existing or not; raises DataError if it is no valid path."""
    try:
        place = Path(path).expanduser()
        (place / subset).exists()
    except (OSError, RuntimeError) as error:  # too long, not readable, or `~nobody`
        raise DataError(
            f"not a usable path: {getattr(error, 'strerror', None) or error}",
            file=truncate(path),
            expected="a file, a folder, or the name of a data set of the Hub",
            remedy="correct data.path or data.subset",
        ) from None
    return place


def _never_empty(rows: Iterable[Row], file: str, *, split: str, bad: BadRows) -> Iterator[Row]:
    """The same rows; raises DataError at the end if there were none."""
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(
            f"the split '{split}' is empty"
            + (f", with {len(left_out)} broken rows left out" if (left_out := bad.report()) else ""),
            file=file,
            expected="at least one row",
            remedy="fill the file, or name another one under data.splits",
        )


def _stem(file: Path) -> Path:
    """The path without extensions: `en/train` for en/train.jsonl.gz."""
    return file.with_name(file.name.removesuffix(".gz")).with_suffix("")


def _nearest(place: Path) -> str:
    """A question that suggests the most similar existing name; empty if there is none."""
    while not place.parent.exists():
        place = place.parent
    names = [entry.name for entry in place.parent.iterdir()] if place.parent.is_dir() else []
    nearest = difflib.get_close_matches(place.name, names, n=1, cutoff=0.5)
    return f"did you mean {place.parent / nearest[0]}? Otherwise " if nearest else ""


def _files_of_split(folder: Path, name: str, format: str = "") -> list[Path]:
    """The files of a split in a local folder, sorted."""
    linked = (place for place in folder.iterdir() if place.is_symlink() and place.is_dir())  # rglob passes them by
    files = sorted(
        file
        for place in (folder, *linked)
        for file in place.rglob("*")
        if is_readable(file, format)
        and file.is_file()
        and file.name not in _BOOKKEEPING
        and "/." not in f"/{file.relative_to(folder).as_posix()}"
    )
    for candidate in VALIDATION_NAMES if name == VALIDATION_NAMES[0] else (name,):
        patterns = [pattern.strip().strip("/") for pattern in candidate.split(",")]
        found = [file for file in files if any(_fits(file.relative_to(folder), pattern) for pattern in patterns)] or [
            file for file in files if file.name.startswith(f"instances_{candidate}")
        ]  # as COCO calls them
        if found:
            break
    else:
        raise _no_split(folder, name, files)

    described = {file.parent for file in found if _stem(file).name == "metadata"}  # by it: the files beside it
    found = [file for file in found if file.parent not in described or _stem(file).name == "metadata"]
    if len({kind(file) for file in found}) > 1 or len({_stem(file) for file in found}) < len(found):
        raise DataError(
            f"the split '{name}' exists in several formats: {', '.join(file.name for file in found[:5])}",
            file=str(folder),
            expected="one format, compressed or not",
            remedy=f"write the extension under data.splits, e.g. {found[0].name}, or remove the others",
        )
    return found


def _no_split(folder: Path, name: str, files: list[Path]) -> DataError:
    """The error for a split without files: the existing files, and a remedy."""
    others = [] if files else sorted(file for file in folder.iterdir() if file.is_file() and file.name[0] != ".")
    names = [file.relative_to(folder).as_posix() for file in files or others]
    there = ", ".join(names[:10] + ["..."] * (len(names) > 10)) or "no file at all"
    expected = f"{name}.*, {name}-*.* or {name}/ with one of {', '.join(READERS)}"
    pairs = sorted({file.stem for file in others if sum(file.stem == other.stem for other in others) > 1})
    remedy = "rename the files, or give their names under data.splits"
    if pairs:
        expected += f"; for parallel text {name}.en and {name}.de, by the languages of the translation"
        remedy = "give the files' name without the language under data.splits, and set the languages to their endings"
    data = [one for one in names if Path(one).stem.lower() not in _ABOUT]
    if len(data) == 1 or (len(pairs) == 1 and name == "train"):  # all in one
        whole = folder / (pairs[0] if pairs else data[0])
        remedy = f'set data.path={whole} "data.split={{validation: 0.1, test: 0.1}}"; or {remedy}'
    if name != "train":
        cut = f'cut it off train by "data.split={{{name}: 0.1}}"'
        remedy = f"{cut if name == 'validation' else f'leave it out of data.test_splits, or {cut}'}; or {remedy}"
    return DataError(
        f"no file of the split '{name}'; there is {there}", file=str(folder), expected=expected, remedy=remedy
    )


def _has_split(folder: Path, name: str, format: str = "") -> bool:
    with suppress(DataError):
        return bool(_files_of_split(folder, name, format))
    return False


def _fits(file: Path, pattern: str) -> bool:
    """Whether a file, relative to its data set's folder, matches the pattern."""
    *folders, last = pattern.split("/")

    def same(path: Path, last: str) -> bool:
        return len(path.parts) == len(folders) + 1 and all(map(fnmatchcase, path.parts, (*folders, last)))

    stem = _stem(file)
    anywhere = not folders and any(sign in last for sign in "*?[") and fnmatchcase(stem.name, last)
    return anywhere or same(stem, f"{last}-*") or any(same(path, last) for path in (stem, file, *file.parents))
