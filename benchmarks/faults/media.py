"""What only the data of one task can suffer: trees, answers, labels, sounds, pictures and boxes."""

from __future__ import annotations

import json
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.campaign import Kind
from benchmarks.faults.rows import ACCEPTED, EITHER, REFUSED, Broken, Spoiled, Way, prepare, try_data, with_value

_MEDIA = ("asr", "detection", "speech_translation")  # whose rows name files
_TREES = {
    "unclosed": ("(S (NP (NN dog))", REFUSED),
    "closed twice": ("(S (NN dog)))", REFUSED),
    "no bracket": ("dog", REFUSED),
    "nothing": ("()", REFUSED),
    "empty inside": ("(S () (NN dog))", REFUSED),
    "no word": ("(S (NP))", REFUSED),
    "a word outside": ("(S (NN dog)) barks", REFUSED),
    "two trees": ("(NN dog) (NN cat)", REFUSED),
    "a label alone": ("(S)", REFUSED),
    "words beside nodes": ("(S dog (NN cat))", EITHER),
    "wrong way": (")S (NN dog)(", REFUSED),
    "no label": ("( (NN dog) (NN cat))", EITHER),
    "empty": ("", REFUSED),
    "deep": ("(S " * 2000 + "(NN dog)" + ")" * 2000, EITHER),
    "deeper": ("(" * 100_000 + ")" * 100_000, REFUSED),
    "deep and wide": ("(S (NN a) " * 800 + "(NN dog)" + ")" * 800, EITHER),
    "unary": ("(S " * 30 + "(N d)" + ")" * 30, EITHER),
    "wide": ("(S" + " (NN dog)" * 2000 + ")", REFUSED),
    "brackets as words": ("(S (-LRB- -LRB-) (NN a))", ACCEPTED),
    "long word": (f"(S (NN {'x' * 100_000}))", EITHER),
    "long label": (f"({'S' * 100_000} (NN a))", EITHER),
    "trace": ("(S (-NONE- *T*) (NN a))", EITHER),
    "only traces": ("(S (-NONE- *T*))", REFUSED),
    "functions": ("(S-SBJ=1|X (NN-2 a))", EITHER),
    "other spaces": ("(S\u00a0(NN\u2003a))", EITHER),
}
_ANSWERS = {
    "null": "null",
    "no list": "{}",
    "of another kind": '{"answer_start": [1]}',
    "empty": '[""]',
    "none": "[]",
    "marks alone": '"?!"',
    "numbers": "[1, 2]",
    "one number": "7",
    "texts of numbers": '{"text": [7]}',
    "nested": '[["a"]]',
    "a mapping in a list": '[{"label": "a"}]',
    "NUL": '"\\u0000"',
}
_LABELS = {
    "one text": '"joy"',
    "null": "null",
    "twice": '["joy", "joy"]',
    "none": "[]",
    "negative": "[-1]",
    "true": "[true]",
    "empty text": '[""]',
    "spaces": '["  "]',
    "nested": '[["joy"]]',
    "mapping": '{"joy": 1}',
    "number": "3",
    "NaN": "[NaN]",
    "quote": '"\\"open"',
    "line feed": '["a\\nb"]',
    "many": json.dumps([f"l{number}" for number in range(5000)]),
    "special": '["<pad>", "<end>"]',
    "decimal": "[1.5]",
    "huge number": "[" + "9" * 4000 + "]",
    "digits": '["¹"]',
}
_BOXES = {
    "null": "null",
    "number": "3",
    "text": '"boxes"',
    "three numbers": "[[1, 2, 3]]",
    "five": "[[1, 2, 3, 4, 5]]",
    "NaN": "[[NaN, 1, 2, 3], [1, 1, 2, 2]]",
    "infinite": "[[1, 1, Infinity, 2], [1, 1, 2, 2]]",
    "huge": f"[[1, 1, {'9' * 400}, 2], [1, 1, 2, 2]]",
    "null inside": "[[null, 1, 2, 3], [1, 1, 2, 2]]",
    "text inside": '[["1", 1, 2, 3], [1, 1, 2, 2]]',
    "truth": "[[true, true, true, true], [1, 1, 2, 2]]",
    "negative sides": "[[9, 9, -4, 3], [1, 1, 2, 2]]",
    "no area": "[[9, 9, 0, 0], [1, 1, 2, 2]]",
    "outside": "[[900, 900, 5, 5], [1, 1, 2, 2]]",
    "one box": "[[1, 1, 2, 2]]",
    "nested": "[[[1], 1, 2, 2], [1, 1, 2, 2]]",
    "flat": "[1, 1, 2, 2]",
    "mapping": '{"x": 1}',
    "many": json.dumps([[1, 1, 3, 3]] * 3000),
    "1e400": "[[1, 1e400, 2, 2], [1, 1, 2, 2]]",
}
_CATEGORIES = {
    "one text": '"do"',
    "null": "null",
    "nulls": "[null, null]",
    "numbers": "[1, 2]",
    "truth": "[true, false]",
    "empty": '["", ""]',
    "mapping": '{"a": 1, "b": 2}',
    "nested": '[["dog"], ["cat"]]',
    "three": '["a", "b", "c"]',
    "noise": '["noise", "noise"]',
    "NUL": '["\\u0000", "a"]',
    "surrogate": '["\\ud800", "a"]',
}
_DOUBTFUL = (
    "numbers",
    "many",
    "twice",
    "special",
    "line feed",
    "no area",
    "negative sides",
    "outside",
    "noise",
    "NUL",
    "surrogate",
    "one text",
    "quote",
    "text inside",
    "huge number",
    "digits",
    "empty",
    "marks alone",
    "huge",
)


def _values(path: tuple[Any, ...], texts: dict[str, str]) -> Way:
    """A way that puts one of these values at a path."""

    def way(data: Spoiled) -> Broken:
        what = data.random.choice(list(texts))
        where = data.replace(lambda row: with_value(row, path, texts[what]))
        return Broken(f"{path[-1]}: {what}", EITHER if what in _DOUBTFUL else REFUSED, where)

    return way


def tree(data: Spoiled) -> Broken:
    """A tree that is none, or an odd one, in a row."""
    what = data.random.choice(list(_TREES))
    text, codes = _TREES[what]
    return Broken(f"a tree: {what}", codes, data.replace(lambda row: json.dumps({"tree": text})))


def treebank(data: Spoiled) -> Broken:
    """The same in a file of brackets."""
    split = data.split()
    trees = [json.loads(line)["tree"] for line in data.lines(split)]
    place, what = data.random.randrange(len(trees)), data.random.choice(["nothing broken", *_TREES])
    text, codes = _TREES.get(what, (trees[place], ACCEPTED))
    trees[place] = text
    data.file(split).with_suffix(".mrg").write_text("\n".join(trees) + "\n", encoding="utf-8")
    data.file(split).unlink()
    alone = what in ("two trees", "no label", "empty", "wrong way")  # in a file of trees these may be right
    return Broken(f"a treebank: {what}", EITHER if alone else codes, same=what == "nothing broken")


def parallel(data: Spoiled) -> Broken:
    """Two files of lines in place of rows."""
    split, random = data.split(), data.random
    rows = [json.loads(line) for line in data.lines(split)]
    sides = {side: "".join(row[side] + "\n" for row in rows).encode() for side in ("en", "de")}
    side, codes = random.choice(("en", "de")), REFUSED
    what = random.choice(
        (
            "good",
            "CRLF",
            "one is missing",
            "one is longer",
            "one blank line",
            "not UTF-8",
            "NUL",
            "empty",
            "packed and cut",
            "other line ends",
        )
    )
    match what:
        case "good" | "CRLF":
            sides[side], codes = sides[side].replace(b"\n", b"\r\n" if what == "CRLF" else b"\n"), ACCEPTED
        case "one is missing":
            del sides[side]
        case "one is longer":
            sides[side] += b"one more\n"
        case "one blank line":
            sides[side] = b"\n" + sides[side].partition(b"\n")[2]
        case "not UTF-8":
            sides[side] = b"\xe9\xff\n" + sides[side].partition(b"\n")[2]
        case "NUL":
            sides[side], codes = b"\0" + sides[side], EITHER
        case "empty":
            sides[side] = b""
        case "other line ends":  # which are letters of a line
            sides[side], codes = "\u2028a\x0b\x85".encode() + sides[side], EITHER
    for name, content in sides.items():
        (data.folder / f"{split}.{name}").write_bytes(content)
    if what == "packed and cut":
        (data.folder / f"{split}.{side}").rename(data.folder / f"{split}.{side}.gz")
    data.file(split).unlink()
    return Broken(f"parallel text: {what}", codes, same=codes == ACCEPTED)


def _named(data: Spoiled) -> tuple[Path, str]:
    """The file that a row names, and the row's place."""
    split, lines, place = data.line()
    return data.folder / json.loads(lines[place])["file_name"], f"{split}.jsonl:{place + 1}"


def any_file(data: Spoiled) -> Broken:
    """A sound or picture that is missing, empty, cut, or something else."""
    file, where = _named(data)
    content, what = (
        file.read_bytes(),
        data.random.choice(("missing", "empty", "cut", "text", "folder", "random", "bit")),
    )
    file.unlink()
    match what:
        case "empty":
            file.touch()
        case "cut":
            file.write_bytes(content[: data.random.randrange(1, len(content))])
        case "text":
            file.write_text("not what it is called\n")
        case "folder":
            file.mkdir()
        case "random":
            file.write_bytes(data.random.randbytes(3000))
        case "bit":
            place = data.random.randrange(len(content))
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << data.random.randrange(8)]) + content[place + 1 :]
            )
    return Broken(f"a file that a row names: {what}", EITHER if what in ("cut", "bit") else REFUSED, where)


def _wav(rate: int, channels: int, samples: bytes, *, kind: int = 1, bits: int = 16, size: int | None = None) -> bytes:
    """A sound file with a header of these values."""
    block = max(1, channels * bits // 8)
    head = struct.pack("<HHIIHH", kind, channels, rate, min(rate * block, 2**32 - 1), block % 2**16, bits)
    size = len(samples) if size is None else size
    return (
        b"RIFF"
        + struct.pack("<I", min(36 + size, 2**32 - 1))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + head
        + b"data"
        + struct.pack("<I", size)
        + samples
    )


def sound(data: Spoiled) -> Broken:
    """A sound with an odd rate, length, format or header."""
    file, where = _named(data)
    third = struct.pack("<hh", 500, -500) * 1333
    sounds: dict[str, tuple[bytes, tuple[int, ...]]] = {
        "no sample": (_wav(8000, 1, b""), REFUSED),
        "one sample": (_wav(8000, 1, b"\1\0"), EITHER),
        "44,101 Hz": (_wav(44_101, 1, third * 5), ACCEPTED),
        "15,999 Hz": (_wav(15_999, 1, third * 2), ACCEPTED),
        "96,001 Hz": (_wav(96_001, 1, third * 10), ACCEPTED),
        "7 Hz": (_wav(7, 1, third[:12]), EITHER),
        "383,983 Hz": (_wav(383_983, 1, third * 40), ACCEPTED),
        "1 Hz": (_wav(1, 1, third), EITHER),
        "a rate of 0": (_wav(0, 1, third), REFUSED),
        "a rate of 2^31": (_wav(2**31 - 1, 1, third), EITHER),
        "no channel": (_wav(8000, 0, third), EITHER),
        "200 channels": (_wav(8000, 200, third * 20), EITHER),
        "NaN": (_wav(8000, 1, struct.pack("<f", float("nan")) * 2667, kind=3, bits=32), EITHER),
        "infinite": (_wav(8000, 1, struct.pack("<f", float("inf")) * 2667, kind=3, bits=32), EITHER),
        "1e38": (_wav(8000, 1, struct.pack("<f", 1e38) * 2667, kind=3, bits=32), EITHER),
        "said to be endless": (_wav(8000, 1, third, size=2**32 - 1), EITHER),
        "said to be longer": (_wav(8000, 1, third, size=2**30), EITHER),
        "13 bits": (_wav(8000, 1, third, bits=13), EITHER),
        "an unknown code": (_wav(8000, 1, third, kind=77), REFUSED),
        "too long": (_wav(8000, 1, third * 60), REFUSED),
        "silence": (_wav(8000, 1, bytes(5334)), REFUSED),
        "a constant": (_wav(8000, 1, struct.pack("<h", 500) * 2667), REFUSED),
        "no size": (_wav(8000, 1, third, size=0), ACCEPTED),
        "cut": (_wav(8000, 1, third, size=10_000), REFUSED),
        "opposite channels": (_wav(8000, 2, struct.pack("<hhhh", 500, -500, -500, 500) * 666), ACCEPTED),
        "samples of 16 bits as floats": (_wav(8000, 1, struct.pack("<ff", 500, -500) * 1333, kind=3, bits=32), REFUSED),
    }
    what = data.random.choice([*sounds, "hours"])
    if what == "hours":
        import numpy
        import soundfile

        file.unlink()
        with soundfile.SoundFile(file, "w", 44_100, 1, format="FLAC") as stream:
            for _ in range(120):
                stream.write(numpy.zeros(44_100 * 60, dtype="int16"))
        return Broken("a sound: hours of silence", REFUSED, where)
    file.write_bytes(sounds[what][0])
    return Broken(f"a sound: {what}", sounds[what][1], where)


def picture(data: Spoiled) -> Broken:
    """A picture of an odd kind or size."""
    from PIL import Image

    file, where = _named(data)
    shapes = {"1 x 1": (1, 1), "wide": (5000, 1), "high": (1, 5000)}
    modes = {"palette": "P", "one bit": "1", "alpha": "RGBA", "16 bits": "I;16", "grey and alpha": "LA"}
    sizes = {
        "400 million pixels": (20_000, 20_000),
        "170 million pixels": (13_000, 13_000),
        "2^31 pixels": (2**16, 2**15),
        "no pixel": (0, 5),
        "a side of 2^31": (2**31 - 1, 1),
    }
    what = data.random.choice([*shapes, *modes, *sizes, "CMYK", "moving"])
    if what in shapes:
        Image.new("RGB", shapes[what]).save(file)
    elif what in modes:
        Image.new(modes[what], (40, 32)).save(file)
    elif what in sizes:
        file.write_bytes(_png(*sizes[what]))
    elif what == "CMYK":
        Image.new("CMYK", (40, 32)).save(file, format="JPEG")
    else:
        frames = [Image.new("L", (40, 32), shade) for shade in (0, 99, 255)]
        frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:])
    codes = EITHER if what in shapes or what in sizes else ACCEPTED
    return Broken(f"a picture: {what}", REFUSED if what == "no pixel" else codes, where)


def _png(width: int, height: int) -> bytes:
    """A picture of one bit a pixel, of which at most 60 MB are there."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    row = bytes(1 + (width + 7) // 8) if width < 10**6 else bytes(10**6)
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(row) for _ in range(min(height, 60_000_000 // len(row)))) + packer.flush()
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
        + chunk(b"IDAT", packed)
        + chunk(b"IEND", b"")
    )


OWN: dict[str, tuple[Way, ...]] = {
    "parsing": (tree, treebank, tree, tree),
    "translation": (parallel, parallel),
    "qa": (_values(("answer",), _ANSWERS),),
    "multilabel": (_values(("labels",), _LABELS),) * 2,
    "asr": (sound, any_file, sound),
    "speech_translation": (sound, any_file),
    "detection": (
        _values(("objects", "bbox"), _BOXES),
        picture,
        any_file,
        _values(("objects", "categories"), _CATEGORIES),
        _values(("objects", "bbox"), _BOXES),
    ),
}

KINDS = (
    Kind(
        "media",
        "sounds, pictures and boxes alone",
        partial(try_data, tasks=_MEDIA, common=()),
        300,
        share=2.0,
        prepare=partial(prepare, tasks=_MEDIA),
    ),
)
