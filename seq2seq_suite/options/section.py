"""What every section of the configuration is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from seq2seq_suite.common.user_code import is_code

LARGEST = 10**9  # numbers beyond it are typos; keys that cost memory or time have lower bounds
LEAST = 1e-30  # nearer to zero, float32 may round to it


def _no_nearer_to_zero(value: float) -> float:
    if 0.0 < value < LEAST:
        raise PydanticCustomError("near_zero", "the number is as good as zero")
    return value


_CLEAR = AfterValidator(_no_nearer_to_zero)

Positive = Annotated[int, Field(gt=0, le=LARGEST)]
NotNegative = Annotated[int, Field(ge=0, le=LARGEST)]
Few = Annotated[int, Field(gt=0, le=1000)]  # counts of things that are made one by one
FewOrNone = Annotated[int, Field(ge=0, le=1000)]
Symbols = Annotated[int, Field(gt=4, le=LARGEST)]  # of a vocabulary, with the four special ones
Fraction = Annotated[float, Field(ge=0.0, lt=1.0), _CLEAR]
Share = Annotated[float, Field(gt=0.0, le=1.0), _CLEAR]
ShareOrNone = Annotated[float, Field(ge=0.0, le=1.0), _CLEAR]
PositiveFloat = Annotated[float, Field(gt=0.0, le=LARGEST), _CLEAR]
NotNegativeFloat = Annotated[float, Field(ge=0.0, le=LARGEST), _CLEAR]
Limit = Annotated[float, Field(gt=0.0, allow_inf_nan=True), _CLEAR]  # .inf is none
Code = Annotated[str, Field(pattern=r"\.py:\w+$")]  # FILE.py:NAME, code of the user's own


def _or_code(given: Any, choose: ValidatorFunctionWrapHandler) -> Any:
    return given if is_code(given) else choose(given)


def name_or_code(table: Iterable[str]) -> Any:
    """The type of a key that takes a name of a table, or FILE.py:NAME."""
    schema = {"anyOf": [{"enum": [*table]}, {"type": "string", "pattern": r"\.py:\w+$"}]}
    return Annotated[
        Literal[tuple(table)], WrapValidator(_or_code), PlainSerializer(str, return_type=str), WithJsonSchema(schema)
    ]


class Section(BaseModel):
    """A part of the configuration; unknown keys are refused, numbers that are not finite, and values of other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, given: Any) -> Any:
        if isinstance(given, dict):  # Python's lists; YAML's are tuples already
            return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        return given


def refuse_if(*rules: tuple[Any, str]) -> None:
    """Raises ValueError with the message of the first rule whose condition holds; messages name keys by dots."""
    for holds, message in rules:
        if holds:
            raise ValueError(message)


@dataclass(frozen=True)
class Use:
    """What some keys need in order to have an effect.

    Args:
        keys: dotted.
        by: the key that decides.
        needs: its valid values, in words after the key, such as "below 1"; or in whole, "a task with a source".
        suits: recognises these values.
        where: the configurations that the rule applies to.
    """

    keys: tuple[str, ...]
    by: str
    needs: str
    suits: Callable[[Any], bool]
    where: Callable[[Any], bool] = lambda config: True


def among(keys: tuple[str, ...], by: str, *values: str, where: Callable[[Any], bool] = lambda config: True) -> Use:
    """Keys for which another one must have one of some values."""
    return Use(keys, by, one_of(values), values.__contains__, where)


def one_of(values: Sequence[str]) -> str:
    """Values in a sentence.

    >>> one_of(["ctc"]), one_of(["text", "structures", "labels"])
    ('ctc', 'text, structures or labels')
    """
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


def unused(keys: tuple[str, ...], by_task: str) -> Use:
    """Keys that a task does not use; `by_task` says which do: "a task with a source"."""
    return Use(keys, "task", by_task, lambda task: False)
