"""Pictures: every change moves the boxes with the pixels, and the embedded ones hold what they say."""

import io
import math
import zlib
from random import Random

import numpy as np
import pytest

pytest.importorskip("PIL", reason="comes with the extra `vision`")

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.data.pictures import Augmentation, ImageFile, Objects, fit, mirror, scaled, zoom
from seq2seq_suite.miniworld.pictures import SIDE, SIZES, Thing, _ink, pictures

BOX = np.array([[10.0, 4.0, 22.0, 12.0]])


def painted(height: int = 40, width: int = 40, box=BOX[0]) -> np.ndarray:
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    x1, y1, x2, y2 = map(int, box)
    pixels[y1:y2, x1:x2] = 255
    return pixels


def extent(pixels: np.ndarray) -> list[float]:
    """The corners of what is bright."""
    bright = pixels[..., 0] > 127
    down, across = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    return [across[0], down[0], across[-1] + 1, down[-1] + 1]


@pytest.mark.parametrize(("axis", "expected"), [(1, [38, 4, 50, 12]), (0, [10, 28, 22, 36])])
def test_mirrored_boxes_stay_on_their_pixels(axis, expected):
    pixels, boxes = mirror(painted(40, 60), BOX, axis)
    assert extent(pixels) == boxes[0].tolist() == expected


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_zoomed_boxes_stay_on_their_pixels(factor):
    for seed in range(8):
        pixels, boxes, kept = zoom(painted(), BOX, factor, Random(seed))
        if kept[0]:
            assert np.abs(np.array(extent(pixels)) - boxes[0]).max() <= 1.0
        assert pixels.shape == (40, 40, 3)


def test_what_is_cut_away_is_no_object_any_more():
    found = [zoom(painted(), BOX, 3.0, Random(seed)) for seed in range(20)]
    for pixels, _, kept in found:
        assert kept[0] or (pixels > 127).mean() < 0.3 * 9 * 96 / 1600
    assert 0 < sum(kept[0] for _, _, kept in found) < 20


def test_an_augmentation_is_a_function_of_its_seed_and_keeps_labels_with_boxes():
    change = Augmentation(flip=True, scales=(0.5, 2.0), colour=0.3)
    objects = Objects(((10.0, 4.0, 22.0, 12.0), (30.0, 30.0, 38.0, 36.0)), ("a", "b"))
    first, second = change(painted(), objects, Random(3)), change(painted(), objects, Random(3))
    assert np.array_equal(first[0], second[0]) and first[1] == second[1]
    for seed in range(10):
        pixels, found = change(painted(), objects, Random(seed))
        assert len(found.boxes) == len(found.labels)
        for box, label in zip(found.boxes, found.labels, strict=True):
            if label == "a" and (pixels > 127).any():
                assert np.abs(np.array(extent(pixels)) - np.array(box)).max() <= 2.0


def test_pictures_are_fitted_without_changing_their_shape():
    pixels, scale = fit(painted(40, 80), 20, 60)
    assert scale == 0.5 and pixels.shape == (20, 60, 3) and not pixels[:, 40:].any()
    moved = scaled(Objects((tuple(BOX[0]),), ("a",)), scale).boxes[0]
    assert np.abs(np.array(extent(pixels)) - np.array(moved)).max() <= 1


def test_image_files_are_read_and_broken_ones_named(tmp_path):
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(painted()).convert("L").save(stream, format="PNG")
    assert np.array_equal(ImageFile("a.png", stream.getvalue()).pixels(), painted())
    (tmp_path / "bad.png").write_bytes(stream.getvalue()[:40])
    (tmp_path / "text.png").write_text("no picture")
    for name in ("bad.png", "text.png", "none.png"):
        with pytest.raises(DataError, match=name.replace(".", r"\.")):
            ImageFile(str(tmp_path / name)).pixels()


GREY = np.random.default_rng(0).integers(0, 256, (6, 8)).astype(np.uint8)
GREY[0, :2] = 0, 255


def seen(image, kind="PNG", **options) -> np.ndarray:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return ImageFile("a", stream.getvalue()).pixels()


@pytest.mark.parametrize(
    ("kind", "dtype", "white"),
    [
        ("PNG", np.uint8, 255),
        ("PNG", np.uint16, 65_535),
        ("TIFF", np.uint16, 65_535),
        ("PPM", np.int32, 65_535),
        ("TIFF", np.int32, 255),
        ("TIFF", np.int32, 65_535),
        ("TIFF", np.float32, 1),
        ("TIFF", np.float32, 255),
        ("TIFF", np.float32, 65_535),
    ],
)
def test_grey_of_any_depth_is_the_same_in_8_bits(kind, dtype, white):
    from PIL import Image

    levels = (GREY * (white / 255)).astype(dtype)
    assert np.array_equal(seen(Image.fromarray(levels), kind), np.repeat(GREY[..., None], 3, 2))


def test_big_endian_and_dark_16_bits_are_scaled_by_their_depth_not_by_their_content():
    from PIL import Image

    swapped = Image.frombytes("I;16B", (8, 6), (GREY.astype(">u2") * 257).astype(">u2").tobytes())
    assert np.array_equal(seen(swapped, "TIFF")[..., 0], GREY)
    for kind, dtype in (("PNG", np.uint16), ("PPM", np.int32)):
        assert seen(Image.fromarray(GREY.astype(dtype)), kind).max() == 1


@pytest.mark.parametrize("level", [-1.0, 70_000.0, math.nan, math.inf])
def test_levels_that_are_no_brightness_are_refused(level):
    from PIL import Image

    levels = GREY / np.float32(255)
    levels[2, 2] = level
    with pytest.raises(DataError, match="pixels from"):
        seen(Image.fromarray(levels), "TIFF")


@pytest.mark.parametrize(("mode", "kind"), [("LA", "PNG"), ("RGBA", "PNG"), ("RGBA", "TIFF"), ("RGBA", "WEBP")])
def test_transparency_is_on_white(mode, kind):
    from PIL import Image

    opaque = np.linspace(0, 255, GREY.size).astype(np.uint8).reshape(GREY.shape)
    image = Image.merge(mode, [Image.fromarray(GREY)] * (len(mode) - 1) + [Image.fromarray(opaque)])
    found = seen(image, kind, **{"lossless": True, "exact": True} if kind == "WEBP" else {})
    assert np.abs(found[..., 1] - (255 + (GREY - 255.0) * opaque / 255)).max() <= 0.5


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
@pytest.mark.parametrize("mode", ["L", "P", "1", "I;16"])
def test_a_colour_that_a_file_names_as_transparent_is_white(mode, kind):
    from PIL import Image

    image = {
        "I;16": Image.fromarray(GREY.astype(np.uint16) * 257),
        "1": Image.fromarray(GREY > 127),
        "P": Image.fromarray(GREY).quantize(4),
        "L": Image.fromarray(GREY),
    }[mode]
    if kind == "GIF" and mode in ("I;16", "1"):
        return
    key = 0 if mode == "I;16" else int(np.asarray(image)[0, 0])
    clear = np.asarray(image) == key
    found, before = seen(image, kind, transparency=key), seen(image, kind)
    assert clear.any() and (found[clear] == 255).all() and np.array_equal(found[~clear], before[~clear])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_their_tag_says(orientation):
    from PIL import Image

    upright = np.repeat(GREY[..., None], 3, 2)
    # What the camera stored: the inverse of what a viewer does, from the definition of TIFF 6.0, section 8.
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright),
        7: np.rot90(upright, 2).swapaxes(0, 1),
        8: np.rot90(upright, -1),
    }[orientation]
    tags = Image.Exif()
    tags[0x0112] = orientation
    assert np.array_equal(seen(Image.fromarray(np.ascontiguousarray(stored)), exif=tags), upright)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "PPM"])
def test_cut_pictures_are_refused(kind):
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)).save(stream, kind)
    with pytest.raises(DataError, match="cannot be read"):
        ImageFile("a", stream.getvalue()[: len(stream.getvalue()) // 2]).pixels()


def test_what_was_done_to_see_a_picture_is_remarked_on():
    from PIL import Image

    def remarks(image, kind="PNG", **options):
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        looked_at = ImageFile("a", stream.getvalue()).looked_at()
        assert looked_at.size() == ImageFile("a", stream.getvalue()).pixels().shape[:2]
        return looked_at.remarks

    tags, grey = Image.Exif(), Image.fromarray(GREY)
    assert remarks(grey) == () and remarks(Image.fromarray(GREY // 17)) == ("almost one colour",)
    tags[0x0112] = 1
    assert remarks(grey, exif=tags) == ()
    tags[0x0112] = 6
    assert remarks(grey, exif=tags) == ("an orientation tag, which is followed,",)
    several = {"save_all": True, "append_images": [Image.fromarray(255 - GREY)]}
    for kind in ("GIF", "TIFF"):
        assert remarks(grey, kind, **several) == ("several frames, of which the first is read,",)
    assert remarks(Image.fromarray(GREY.astype(np.float32)), "TIFF") == ("16 bits or floats, scaled to 8 bits,",)
    assert remarks(grey, transparency=0) == ("transparency, on white here,",)


def test_enormous_pictures_are_refused_before_they_are_unpacked(tmp_path):
    from PIL import Image

    def header(width: int, height: int) -> bytes:
        parts = io.BytesIO()
        Image.new("1", (1, 1)).save(parts, "PNG")
        chunk = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + parts.getvalue()[24:29]
        return parts.getvalue()[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + parts.getvalue()[33:]

    for width, height in ((20_000, 20_000), (10_000, 10_000)):
        with pytest.raises(DataError, match="too many pixels") as caught:
            ImageFile("a.png", header(width, height)).pixels()
        assert f"{Image.MAX_IMAGE_PIXELS:,}" in caught.value.expected
    with pytest.raises(DataError, match="cannot be read"):
        ImageFile("a.png", header(9_000, 9_000)).pixels()


def test_embedded_pictures_are_seeded_and_their_boxes_hold_ink():
    first, second = list(pictures("test", sizes={"test": 20})), list(pictures("test", sizes={"test": 20}))
    assert first == second and set(SIZES) == {"train", "validation", "test"}
    for drawn in first:
        pixels = drawn.pixels().astype(int)
        assert pixels.shape == (SIDE, SIDE, 3) and 1 <= len(drawn.things) <= 6
        for x1, y1, x2, y2 in (thing.box for thing in drawn.things):
            assert 0 <= x1 < x2 <= SIDE and 0 <= y1 < y2 <= SIDE
            inside = pixels[y1:y2, x1:x2]
            assert (np.abs(inside - np.array(drawn.ground)).sum(-1) > 150).mean() > 0.15
    scans = {
        split: {thing.scan for drawn in pictures(split, sizes={split: 60}) for thing in drawn.things} - {-1}
        for split in SIZES
    }
    assert not scans["train"] & scans["test"] and not scans["validation"] & scans["test"]


@pytest.mark.parametrize(("label", "share"), [("circle", math.pi / 4), ("triangle", 1 / 2), ("square", 1.0)])
def test_a_drawn_thing_covers_its_share_of_the_box(label, share):
    assert _ink(Thing(label, (5, 5, 205, 205), (255, 0, 0))).mean() == pytest.approx(share, abs=0.01)


def test_a_star_has_five_points_and_looks_the_same_from_each():
    star = _ink(Thing("star", (0, 0, 401, 401), (255, 0, 0)))
    angles = np.arange(360) * math.pi / 180
    for radius, points in ((40, 0), (150, 5)):  # solid inside; five points with gaps between farther out
        ring = star[(200.5 - radius * np.cos(angles)).astype(int), (200.5 + radius * np.sin(angles)).astype(int)]
        assert np.count_nonzero(np.diff(ring, append=ring[:1]) > 0) == points
        assert np.abs(ring - np.roll(ring, 72)).mean() < 0.05
