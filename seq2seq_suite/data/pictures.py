"""Pictures and the boxes in them: reading, fitting into one size, and changes that move boxes with pixels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

_LARGEST = 2**28  # bytes of an image file
_EXPECTED, _REMEDY = "png, jpeg or another format that Pillow reads", "convert the file, or remove the row"
_WHITE, _ORIENTATION = 255, 0x0112
_FLAT = 16  # levels of each colour in a picture that hardly shows anything
_RANGES = (1.0, 255.0, 65_535.0)  # that numbers without a range of their own may fill: floats, 8 bits, 16 bits
_SMALLEST = 2.0  # pixels: the least width and height of a box after cropping
_LEAST_SEEN = 0.3  # and the least share of it that is inside
_LEAST_PAINTED = 640  # pixels of the longer side that a painted picture has, so that names can be read
# Okabe and Ito's colours, which most colour-blind people can distinguish, without black.
_COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
_DARK = 350  # sum of red, green and blue below which names are white


@dataclass(frozen=True)
class Objects:
    """The objects in a picture.

    Args:
        boxes: (x1, y1, x2, y2) of each object in pixels, x to the right and y down.
        labels: its class.
        scores: the detector's confidence in each; empty for gold objects.
        areas: of gold objects in square pixels, as COCO counts those of their outlines; empty: of their boxes.
        crowds: boxes of many objects each: neither learned nor missed, and what is found inside is not wrong.
    """

    boxes: tuple[tuple[float, float, float, float], ...] = ()
    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    areas: tuple[float, ...] = field(default=(), repr=False)
    crowds: Objects | None = field(default=None, repr=False)


@runtime_checkable
class Picture(Protocol):
    """A picture to read pixels from."""

    @property
    def name(self) -> str:
        """Its name in messages and reports."""
        raise NotImplementedError

    def size(self) -> tuple[int, int]:
        """H and W; raises DataError if the pixels cannot be read."""
        raise NotImplementedError

    def key(self) -> bytes:
        """Bytes that determine the pixels; raises DataError if they cannot be read."""
        raise NotImplementedError

    def pixels(self) -> np.ndarray:
        """(H,W,3) uint8; raises DataError if they cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True)
class ImageFile:
    """An image file: its path, or its bytes with their name; once `looked_at`, also its size and remarks."""

    name: str
    content: bytes = b""
    known: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    remarks: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def size(self) -> tuple[int, int]:
        """Of the pixels as they are read."""
        return self.known or self._read()[0].shape[:2]

    def looked_at(self) -> ImageFile:
        """The same with its size and remarks."""
        pixels, remarks = self._read()
        flat = int(np.ptp(pixels, axis=(0, 1)).max()) < _FLAT
        return replace(self, known=pixels.shape[:2], remarks=(*remarks, *("almost one colour",) * flat))

    def key(self) -> bytes:
        """The file's bytes."""
        return self.content or read_bytes(Path(self.name), expected=_EXPECTED, remedy=_REMEDY, largest=_LARGEST)

    def pixels(self) -> np.ndarray:
        """Any format that Pillow reads, of several frames the first, rotated by its orientation tag."""
        return self._read()[0]

    def _read(self) -> tuple[np.ndarray, list[str]]:
        """The pixels, and remarks on their conversion."""
        from PIL import Image, ImageOps, UnidentifiedImageError

        expected, remedy = _EXPECTED, _REMEDY
        try:
            content = self.key()
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(io.BytesIO(content)) as image:
                    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
                    turned = ImageOps.exif_transpose(image)
                    remarks = {
                        "16 bits or floats, scaled to 8 bits,": deep or image.mode in ("I", "F"),
                        "transparency, on white here,": _is_transparent(image),
                        "several frames, of which the first is read,": getattr(image, "n_frames", 1) > 1,
                        "an orientation tag, which is followed,": image.getexif().get(_ORIENTATION, 1) != 1,
                    }
                    return in_8_bits(turned, deep=deep), [remark for remark, holds in remarks.items() if holds]
        except DataError:
            raise
        except UnidentifiedImageError:
            problem = "the image cannot be read"
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            problem, remedy = "too many pixels", "scale the picture down, or remove the row"
            expected = f"at most {Image.MAX_IMAGE_PIXELS:,} pixels"
        except Exception as error:  # each of Pillow's readers raises its own errors
            problem = f"cannot be read: {getattr(error, 'strerror', None) or error or type(error).__name__}"
        raise DataError(problem, file=self.name, expected=expected, remedy=remedy)


def in_8_bits(image: Image, *, deep: bool = False) -> np.ndarray:
    """(H,W,3) uint8 of a Pillow image of any mode, transparency on white.

    16 bits are divided by 257. Floats and 32-bit integers do not say what white is: it is 1 (of floats), 255 or 65535,
    the least that no pixel exceeds.

    Args:
        image: to convert.
        deep: white is 65535 whatever the pixels are.

    Raises:
        ValueError: a pixel is negative, above 65535 or not finite, or Pillow cannot convert the mode.
    """
    key = image.info.get("transparency")
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        levels = np.asarray(image).astype(np.float64)
        least, most = float(levels.min()), float(levels.max())
        if not (least >= 0.0 and most <= _RANGES[-1]):
            raise ValueError(f"pixels from {least:g} to {most:g}, expected 0 to 1, 255 or 65535")
        white = _RANGES[-1] if deep else next(top for top in _RANGES[image.mode == "I" :] if most <= top)
        grey = np.rint(levels * (_WHITE / white)).astype(np.uint8)
        grey[levels == key] = _WHITE  # the grey that a PNG names as transparent
        return np.repeat(grey[..., None], 3, 2)
    if not _is_transparent(image):
        return np.asarray(image.convert("RGB"))
    colour = np.asarray(image.convert("RGBA"), dtype=np.float64)
    seen = colour[..., 3:] / _WHITE
    return np.rint(colour[..., :3] * seen + _WHITE * (1.0 - seen)).astype(np.uint8)


def _is_transparent(image: Image) -> bool:
    return "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa")


def fit(pixels: np.ndarray, height: int, width: int) -> tuple[np.ndarray, float]:
    """The picture scaled into (height,width,3) at the upper left, padded with black, and the scale."""
    from PIL import Image

    scale = min(height / pixels.shape[0], width / pixels.shape[1])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    canvas = np.zeros((height, width, 3), dtype=np.uint8)
    scaled = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    canvas[: scaled.shape[0], : scaled.shape[1]] = scaled[:height, :width]
    return canvas, scale


def scaled(objects: Objects, scale: float) -> Objects:
    """Boxes of the scaled picture.

    >>> scaled(Objects(((2.0, 4.0, 6.0, 8.0),), ("a",)), 0.5).boxes
    ((1.0, 2.0, 3.0, 4.0),)
    """
    return replace(
        objects,
        boxes=tuple(tuple(value * scale for value in box) for box in objects.boxes),
        areas=tuple(area * scale**2 for area in objects.areas),
        crowds=objects.crowds and scaled(objects.crowds, scale),
    )


def nms(objects: Objects, max_overlap: float) -> Objects:
    """Non-maximum suppression by class: objects by descending score, without those that overlap a chosen one more.

    The overlap of two boxes is their intersection over their union.

    >>> boxes = (0.0, 0.0, 2.0, 2.0), (0.0, 0.0, 2.0, 3.0), (5.0, 5.0, 6.0, 6.0)
    >>> nms(Objects(boxes, ("a", "a", "a"), (0.4, 0.9, 0.5)), 0.5).scores
    (0.9, 0.5)
    >>> nms(Objects(((0, 0, 2, 2), (0, 0, 2, 4)), ("a", "a"), (0.4, 0.9)), 0.5).scores
    (0.9, 0.4)
    """
    boxes, labels = np.array(objects.boxes, dtype=np.float64).reshape(-1, 4), np.array(objects.labels)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    left, chosen = np.argsort(-np.array(objects.scores), kind="stable"), []
    while len(left):
        first, left = left[0], left[1:]
        chosen.append(first)
        sides = np.minimum(boxes[first, 2:], boxes[left, 2:]) - np.maximum(boxes[first, :2], boxes[left, :2])
        shared = sides.clip(min=0.0).prod(1)
        doubles = (labels[left] == labels[first]) & (shared > max_overlap * (areas[left] + areas[first] - shared))
        left = left[~doubles]
    return Objects(
        tuple(objects.boxes[place] for place in chosen),
        tuple(objects.labels[place] for place in chosen),
        tuple(objects.scores[place] for place in chosen),
    )


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation of a picture with its boxes.

    Args:
        flip: mirror it, each way with probability 1/2.
        scales: smallest and largest zoom; what falls outside is cropped, the rest is black.
        colour: largest change of brightness, contrast and saturation, as a factor beside 1.

    Source: Chen et al. 2022 (Pix2Seq), appendix B: scale jittering, random crops, flips and colour.
    """

    flip: bool = True
    scales: tuple[float, float] = (1.0, 1.0)
    colour: float = 0.0

    def __call__(self, pixels: np.ndarray, objects: Objects, random: Random) -> tuple[np.ndarray, Objects]:
        """The augmented picture (H,W,3) of the same size, and its boxes."""
        boxes = np.array(objects.boxes, dtype=np.float64).reshape(-1, 4)
        for axis in (1, 0):
            if self.flip and random.random() < 0.5:
                pixels, boxes = mirror(pixels, boxes, axis)
        visible = np.ones(len(boxes), dtype=bool)
        if self.scales != (1.0, 1.0):
            pixels, boxes, visible = zoom(pixels, boxes, random.uniform(*self.scales), random)
        if self.colour:
            pixels = recolour(pixels, [random.uniform(1 - self.colour, 1 + self.colour) for _ in range(3)])
        chosen = visible.nonzero()[0]
        return pixels, Objects(tuple(map(tuple, boxes[chosen].tolist())), tuple(objects.labels[i] for i in chosen))


def mirror(pixels: np.ndarray, boxes: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Axis 1 swaps left and right, axis 0 top and bottom. Boxes (N,4)."""
    least, most, mirrored = 1 - axis, 3 - axis, boxes.copy()
    mirrored[:, least], mirrored[:, most] = pixels.shape[axis] - boxes[:, most], pixels.shape[axis] - boxes[:, least]
    return np.flip(pixels, axis), mirrored


def zoom(
    pixels: np.ndarray, boxes: np.ndarray, factor: float, random: Random
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scaled by `factor`, a random crop of the old size; also (N,) bool, which boxes are still visible."""
    from PIL import Image

    height, width = pixels.shape[:2]
    large = round(height * factor), round(width * factor)
    resized = np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize(large[::-1], Image.Resampling.BILINEAR))
    # The new picture's corner in the old one: outside (negative) if it has become smaller.
    top, left = (
        random.randint(min(0, new - old), max(0, new - old)) for new, old in zip(large, (height, width), strict=True)
    )
    canvas = np.zeros_like(pixels)
    inside = resized[max(0, top) : top + height, max(0, left) : left + width]
    canvas[max(0, -top) : max(0, -top) + inside.shape[0], max(0, -left) : max(0, -left) + inside.shape[1]] = inside
    ratio = np.array([large[1] / width, large[0] / height] * 2)
    moved = boxes * ratio - np.array([left, top, left, top])
    cut = moved.clip(0, [width, height, width, height])
    sides = cut[:, 2:] - cut[:, :2]
    area = np.prod(moved[:, 2:] - moved[:, :2], axis=1)
    visible = (sides >= _SMALLEST).all(1) & (np.prod(sides, axis=1) >= _LEAST_SEEN * area)
    return canvas, cut, visible


def recolour(pixels: np.ndarray, factors: list[float]) -> np.ndarray:
    """Brightness, contrast and saturation, each times a factor."""
    from PIL import Image, ImageEnhance

    image = Image.fromarray(np.ascontiguousarray(pixels))
    for change, factor in zip(
        (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), factors, strict=True
    ):
        image = change(image).enhance(factor)
    return np.asarray(image)


def paint(pixels: np.ndarray, objects: Objects, path: Path, *, labels: Sequence[str]) -> None:
    """Write the picture (H,W,3) with a frame, a name and a score for each object, a colour for each of `labels`.

    Raises:
        DataError: the file cannot be written, or its extension is no known format.
    """
    from PIL import Image, ImageColor, ImageDraw, ImageFont

    factor = max(1, -(-_LEAST_PAINTED // max(pixels.shape[:2])))
    image = Image.fromarray(pixels)
    image = image.resize((image.width * factor, image.height * factor), Image.Resampling.BICUBIC)
    canvas, size = ImageDraw.Draw(image), max(12, max(image.size) // 36)
    font = ImageFont.load_default(size)
    scores = objects.scores or (1.0,) * len(objects.boxes)
    # The highest score last: it is drawn on top.
    for box, label, score in sorted(zip(objects.boxes, objects.labels, scores, strict=True), key=lambda one: one[2]):
        colour = _COLOURS[labels.index(label) % len(_COLOURS)] if label in labels else _COLOURS[-1]
        left, top, right, bottom = (value * factor for value in box)
        canvas.rectangle((left, top, max(left, right), max(top, bottom)), outline=colour, width=max(2, size // 6))
        words = f"{label} {score:.0%}"
        place = min(left, image.width - canvas.textlength(words, font)), max(0.0, top - 1.4 * size)
        x1, y1, x2, y2 = canvas.textbbox(place, words, font)
        canvas.rectangle((x1 - size // 4, y1 - size // 4, x2 + size // 4, y2 + size // 4), fill=colour)
        dark = sum(ImageColor.getrgb(colour)) < _DARK
        canvas.text(place, words, font=font, fill="white" if dark else "black")
    try:
        image.save(path)
    except ValueError:
        raise DataError(
            f"the extension '{path.suffix}' is no known format",
            file=str(path),
            expected=".png or .jpg",
            remedy="choose another name",
        ) from None
    except OSError as error:
        raise DataError(
            f"cannot be written: {error.strerror or error}", file=str(path), remedy="choose another name"
        ) from None
