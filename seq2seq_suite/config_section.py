"""What every section of the configuration is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LARGEST = 10**9  # beyond which a number is a slip of the hand; what takes memory or time has bounds of its own

Positive = Annotated[int, Field(gt=0, le=LARGEST)]
NotNegative = Annotated[int, Field(ge=0, le=LARGEST)]
Few = Annotated[int, Field(gt=0, le=1000)]  # repeated one by one
FewOrNone = Annotated[int, Field(ge=0, le=1000)]
Symbols = Annotated[int, Field(gt=4, le=LARGEST)]  # of a vocabulary, with the four special ones
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(gt=0.0, le=1.0)]
ShareOrNone = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0, le=LARGEST)]
NotNegativeFloat = Annotated[float, Field(ge=0.0, le=LARGEST)]
Limit = Annotated[float, Field(gt=0.0, allow_inf_nan=True)]  # .inf is none


class Section(BaseModel):
    """A part of the configuration; unknown keys are refused, and so are numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
