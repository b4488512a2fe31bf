"""Every key of the configuration, read off its classes, with values that it can and values that it cannot hold.

Nothing here knows a key by name, so that a new one is tried as soon as it is declared.
"""

from __future__ import annotations

import json
import math
import re
import string
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

NAN, INFINITE = float("nan"), float("inf")
_SMALL = (0, 1, 2, 3, 4, 5, 8, 16)
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Key:
    """A key that holds a value, not a section.

    Args:
        path: of its names from the top.
        annotation: its type.
        bounds: what pydantic keeps beside it (`Gt`, `Le`, ...).
        default: its value where none is given; None where it must be given.
        kinds: path of a section with several kinds -> the kind that has this key.
    """

    path: tuple[str, ...]
    annotation: Any
    bounds: tuple[Any, ...]
    default: Any
    kinds: tuple[tuple[tuple[str, ...], str], ...] = ()

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


def keys(
    section: type[BaseModel], path: tuple[str, ...] = (), kinds: tuple[tuple[tuple[str, ...], str], ...] = ()
) -> Iterator[Key]:
    """The keys of a section and of all sections in it, those of every kind."""
    for name, field in section.model_fields.items():
        inner = sections(field.annotation)
        here = (*path, name)
        for one in inner:
            own = one.model_fields.get("kind") if len(inner) > 1 else None
            chosen = ((here, get_args(own.annotation)[0]),) if own is not None else ()
            yield from keys(one, here, (*kinds, *chosen))
        if not inner:
            yield Key(here, field.annotation, tuple(field.metadata), _default(field), kinds)


def sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections that an annotation admits; none for a value, nor for a mapping whose names are free."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, Annotated):
        return [found for part in get_args(annotation) for found in sections(part)]
    return []


def section_paths(section: type[BaseModel], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], list[type[BaseModel]]]:
    """Every section by its path, the whole under the empty one, with the kinds it may be of."""
    found: dict[tuple[str, ...], list[type[BaseModel]]] = {path: [section]}
    for name, field in section.model_fields.items():
        inner = sections(field.annotation)
        if inner:
            for one in inner:
                found |= section_paths(one, (*path, name))
            found[(*path, name)] = inner
    return found


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def good(key: Key, random: Random) -> Any:
    """A small value that the key's type admits; keys that depend on one another may still refuse it."""
    return _good(key.annotation, key.bounds, key.default, random)


def _good(annotation: Any, bounds: tuple[Any, ...], default: Any, random: Random) -> Any:
    annotation, bounds = _plain(annotation, bounds)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return random.choice(inner)
    if origin is tuple:
        count = len(inner) if Ellipsis not in inner else random.randint(1, 3)
        items = inner if Ellipsis not in inner else [inner[0]] * count
        return [_good(item, (), None, random) for item in items]
    if any(getattr(rule, "pattern", None) for rule in bounds):  # FILE.py:NAME; there is no such file
        return "own.py:name"
    if origin in (dict, list) or annotation is str:
        return default if default is not None else random.choice(("", "a"))
    if annotation is bool:
        return random.random() < 0.5
    known = [default] if isinstance(default, (int, float)) else []
    values = _SMALL if annotation is int else _SHARES
    if known and 0.0 < default < 0.05:  # a rate, of which the factor counts
        values = (default / 10, default * 10)
    return random.choice([value for value in values if within(value, bounds)] + known or [1])


def bad(key: Key, random: Random) -> Any:
    """A value that no rule of the key's type admits."""
    return random.choice(_bad(key.annotation, key.bounds))


def _bad(annotation: Any, bounds: tuple[Any, ...]) -> list[Any]:
    annotation, bounds = _plain(annotation, bounds)
    origin, inner = get_origin(annotation), get_args(annotation)
    wrong: list[Any] = [None, [[]], {"a": {"b": 1}}, [1, "a", None]]
    if origin is Literal:
        near = [value[:-1] + "x" for value in inner if isinstance(value, str)]
        return [value for value in [*wrong, "", "nonsense", True, -7, 1e30, NAN, *near] if value not in inner]
    if origin is tuple:
        items = [inner[0]] if Ellipsis in inner else list(inner)
        whole = [_some(item) for item in items]
        broken = [
            [*whole[:place], value, *whole[place + 1 :]]
            for place, item in enumerate(items)
            for value in _bad(item, ())
            if item is not str or type(value) is not int
        ]  # numbers may be names
        lengths = [] if Ellipsis in inner else [[], [*whole, whole[-1]], whole[:-1]]
        return [None, 3, "text", True, {"a": 1}, *broken, *lengths]
    if origin is dict:
        return [None, 3, "text", True, ["a"], {"a": []}, {"a": 3}]
    if annotation is str:
        return [*wrong, 3, 2.5, True, NAN]
    if annotation is bool:
        return [*wrong, "yes", "on", "", 1, 0, 0.5, NAN, INFINITE]
    below = [
        value
        for value in (-INFINITE, -1e300, -(10**30), -1, 0, 1, 2, 10**3, 10**30, INFINITE)
        if not within(value, bounds)
    ]
    if annotation is int:
        return [
            *wrong,
            "3",
            "many",
            True,
            1.5,
            1e30,
            NAN,
            INFINITE,
            -INFINITE,
            *(value for value in below if isinstance(value, int)),
        ]
    return [*wrong, "0.5", "much", True, NAN, -INFINITE, *below]


def _some(annotation: Any) -> Any:
    """One value of a type."""
    return _good(annotation, (), None, Random(0))


def _plain(annotation: Any, bounds: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A type without what `Annotated` puts beside it, which joins the bounds."""
    while get_origin(annotation) is Annotated:
        annotation, *beside = get_args(annotation)
        bounds = (*bounds, *(rule for one in beside for rule in getattr(one, "metadata", (one,))))
    return annotation, bounds


def within(value: float, bounds: tuple[Any, ...]) -> bool:
    """Whether a number keeps to what stands beside its type.

    >>> from typing import Annotated
    >>> from pydantic import Field
    >>> _, bounds = _plain(Annotated[int, Field(gt=0, multiple_of=8)], ())
    >>> [number for number in (-8, 0, 4, 8, 16) if within(number, bounds)]
    [8, 16]
    """
    rules = {
        "gt": lambda limit: value > limit,
        "ge": lambda limit: value >= limit,
        "lt": lambda limit: value < limit,
        "le": lambda limit: value <= limit,
        "multiple_of": lambda limit: value % limit == 0,
    }
    return all(
        holds(getattr(bound, name))
        for bound in bounds
        for name, holds in rules.items()
        if getattr(bound, name, None) is not None
    )


def misspelt(name: str, known: set[str], random: Random) -> str:
    """A name with a letter dropped, doubled, swapped or changed, that is not known."""
    while True:
        place = random.randrange(len(name))
        letter = random.choice(string.ascii_lowercase + "_-")
        changed = random.choice(
            (
                name[:place] + name[place + 1 :],
                name[:place] + name[place] + name[place:],
                name[:place] + letter + name[place + 1 :],
                name[:place] + name[place : place + 2][::-1] + name[place + 2 :],
                name.upper(),
            )
        )
        if changed and changed not in known:
            return changed


def flow(value: Any) -> str:
    """A value as YAML 1.2 on one line.

    >>> flow({"a": [1e30, None, True, "x: y"], "b": NAN})
    '{a: [1e+30, null, true, "x: y"], b: .nan}'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_name(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value, ensure_ascii=False)


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_]\w*", key) else json.dumps(key, ensure_ascii=False)


def yaml_text(values: Mapping[str, Any]) -> str:
    """Settings as YAML, a section a line."""
    return "".join(f"{_name(key)}: {flow(value)}\n" for key, value in values.items())


def put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested settings, making sections as needed."""
    for name in path[:-1]:
        if not isinstance(values.get(name), dict):
            values[name] = {}
        values = values[name]
    values[path[-1]] = value


def put_key(values: dict[str, Any], key: Key, value: Any, below: tuple[str, ...] = ()) -> None:
    """Set a key in nested settings, the sections around it made of the kind that has it."""
    for path, kind in key.kinds:
        section = values
        for name in (*below, *path):
            section = section.setdefault(name, {})
        if section.get("kind") != kind:
            put(values, (*below, *path), {"kind": kind})
    put(values, (*below, *key.path), value)
