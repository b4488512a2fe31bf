"""Pictures as the source of detection: read, checked, and scaled to one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.shapes import PictureShape
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.pictures import ImageFile, Picture, fit
from seq2seq_suite.tasks.fields.base import Place, Source
from seq2seq_suite.tasks.rows import of_file, required_medium

if TYPE_CHECKING:
    from seq2seq_suite.tasks.detection.task import DetectionOptions


class Pictures(Source):
    """Pictures scaled to one size, and augmented in training."""

    varies = True

    def __init__(self, options: DetectionOptions):
        self.options = options

    def read(self, row: Row) -> Picture:
        """The picture of a row, not looked at yet."""
        return required_medium(row, self.options.image_column, Picture, ImageFile, key="detection.image_column")

    def from_text(self, text: str, place: Place) -> Picture:
        """The path of an image file."""
        return self.check(ImageFile(text.strip()), place)

    def to_text(self, value: Picture) -> str:
        """Its name."""
        return value.name

    def check(self, picture: Picture, place: Place) -> Picture:
        """The picture, of a file with what stands out in it; raises DataError if it cannot be read."""
        try:
            return picture.looked_at() if isinstance(picture, ImageFile) else picture
        except DataError as error:
            raise of_file(error, picture.name, place) from None

    def looked_at(self, row: Row) -> Picture:
        """The picture of a row, checked; raises DataError if the row has boxes of a picture of another size."""
        picture = self.check(self.read(row), row.place)
        height, width = picture.size()
        given: tuple[Any, Any] = row.fields.get("width"), row.fields.get("height")
        if all(type(side) in (int, float) and side > 0 for side in given) and given != (width, height):
            turned = ", turned by its orientation tag" * (given == (height, width))
            raise DataError(
                f"boxes of a picture of {given[0]:g} x {given[1]:g} pixels; {picture.name} has {width} "
                f"x {height}{turned}",
                **row.place,
                expected="the size that the row names",
                remedy="use the pictures that were annotated, or correct width, height and the boxes",
            )
        return picture

    def fitted(self, picture: Picture) -> tuple[np.ndarray, float]:
        """(H,W,3) pixels and their scale."""
        return fit(picture.pixels(), self.options.height, self.options.width)

    unit, of_file = "patch", True

    def names(self, value: Picture, count: int) -> list[str]:
        """Row and column of each patch."""
        rows, _ = self.options.patches()
        return [f"{number // (count // rows) + 1}, {number % (count // rows) + 1}" for number in range(count)]

    def encode(self, value: Picture, place: Place) -> np.ndarray:
        """(H,W,3) pixels."""
        return self.fitted(value)[0]

    def shape(self) -> PictureShape:
        return PictureShape(stride=self.options.stride, channels=self.options.channels)
