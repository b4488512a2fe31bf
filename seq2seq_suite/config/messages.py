"""Error messages for configurations: the place, the key, what was found, what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, truncate
from seq2seq_suite.common.user_code import named_code, trusts
from seq2seq_suite.config.schema import Config, class_for, of_any_task
from seq2seq_suite.config.unused_keys import Finding
from seq2seq_suite.config.yaml_reader import Keys, Place, show
from seq2seq_suite.options.section import LARGEST, LEAST

# What other toolkits call a key -> what it is called here, where the names are not alike.
ALIASES = {
    "lr": "learning_rate",
    "attention_heads": "num_heads",
    "d_model": "width",
    "hidden_size": "width",
    "dim": "width",
    "embed_dim": "width",
    "d_ff": "feed_forward_width",
    "ffn_dim": "feed_forward_width",
    "ff_size": "feed_forward_width",
    "train_steps": "max_updates",
    "steps": "max_updates",
    "gradient_accumulation_steps": "accumulate",
    "update_freq": "accumulate",
    "max_grad_norm": "clip_norm",
    "num_beams": "beam_size",
    "n_best": "num_hypotheses",
    "alpha": "length_penalty",
    "do_sample": "sampling",
    "eval_steps": "validate_every",
    "valid_steps": "validate_every",
    "logging_steps": "log_every",
    "early_stopping": "patience",
    "type": "kind",
    "optimizer_schedule": "schedule",
    "dataset": "path",
    "fp16": "precision",
    "dtype": "precision",
    "random_seed": "seed",
    "model": "backbone",
    "decoding": "search",
    "generation": "search",
}


def explain(
    error: ValidationError, given: dict[str, Any], *, places: Mapping[Keys, Place], file: str
) -> list[ConfigError]:
    """The errors of a rejected configuration, in the order of the file, those of the command line last.

    Args:
        error: what pydantic found; none of its wording is used.
        given: the configuration as plain data.
        places: where each key was given.
        file: the file's name, for keys that are not given anywhere.
    """
    items = [(_keys(item["loc"], given), item) for item in error.errors()]
    # If a section itself is wrong, its missing keys need no error of their own.
    wrong = {keys[:-1] for keys, item in items if item["type"] != "missing"}
    items = [(keys, item) for keys, item in items if item["type"] != "missing" or keys[:-1] not in wrong]
    unused = {
        (*keys, finding.key): _without_effect(keys, finding, places, file)
        for keys, item in items
        for finding in reversed(findings_of(item))
    }
    found = list(reversed(unused.values()))
    found += [_explain(keys, item, given, places, file) for keys, item in items if not findings_of(item)]
    return sorted(found, key=lambda one: (one.file == COMMAND_LINE, one.line))


def located(error: ConfigError, places: Mapping[Keys, Place]) -> ConfigError:
    """An error with the place of the first key that its text names; the same where none has a place."""
    place = _find(places, _named(error.got))
    if place is None:
        return error
    return _at(error.got, place, "", key="", expected=error.expected, remedy=error.remedy)


def without_effect(error: ValidationError, given: dict[str, Any]) -> list[tuple[Keys, Keys]]:
    """The keys without effect, and for each the key that makes it so."""
    return [
        ((*at, *finding.key.split(".")), (*at, *finding.by.split(".")))
        for item in error.errors()
        for at in [_keys(item["loc"], given)]
        for finding in findings_of(item)
    ]


def findings_of(item: Any) -> list[Finding]:
    """The keys without effect that one of pydantic's errors is about."""
    return getattr(item.get("ctx", {}).get("error"), "findings", [])


def variants(annotation: Any) -> list[type[BaseModel]]:
    """The sections that an annotation admits: one, several for a union, none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is dict:
        return []
    return [found for part in get_args(annotation) for found in variants(part)]


def sections_at(keys: Keys, given: Any) -> list[type[BaseModel]]:
    """What the section of these keys may be: one, several for a union, none where there is no section.

    `given` is the configuration as plain data, whose task says which sections there are.
    """
    if keys[:1] == ("tasks",):
        if len(keys) == 1:
            return []  # names, not keys
        parts = given.get("tasks")
        given, keys = parts.get(keys[1]) if isinstance(parts, dict) else None, keys[2:]
    known = isinstance(given, dict) and all(trusts(section[at]) for _, section, at in named_code(given))
    sections: list[type[BaseModel]] = [class_for(given) if known else Config]
    for key in keys:
        fields = [section.model_fields[key] for section in sections if key in section.model_fields]
        sections = [found for field in fields for found in variants(field.annotation)]
    return sections


def _keys(loc: tuple[int | str, ...], given: dict[str, Any]) -> Keys:
    """A location without the names of union variants that pydantic adds to it."""
    keys: list[str] = []
    current: Any = given
    for part in loc:
        known = current if isinstance(current, dict) else {}
        if part == known.get("kind", None if part in known else "autoregressive"):
            current = {**known, "kind": None}  # its name comes once; blocks have a key of their own name
            continue
        keys.append(str(part))
        current = known.get(part)
    return tuple(keys)


def _explain(keys: Keys, item: Any, given: dict[str, Any], places: Mapping[Keys, Place], file: str) -> ConfigError:
    too_short = item["type"] == "missing" and keys[-1].isdigit()  # a list lacks an item
    keys = keys[:-1] if too_short else keys
    dotted = truncate(".".join(keys))
    if item["type"] == "value_error":
        got = str(item["ctx"]["error"])
        return _at(got, _find(places, [*_named(got), keys]), file, key="", expected="", remedy="")
    place = _find(places, [keys])
    sections, field = _resolve(keys, given)
    if item["type"] == "extra_forbidden":
        full = place is not None and bool(place.text)
        got, expected = _unknown(keys, sections, full=full)
        return _at(got, place, file, key=dotted, expected=expected, remedy="")
    expected = _describe(keys, field, sections)
    if item["type"] == "finite_number":
        expected = expected.replace("a number", "a finite number")
    elif item["type"] == "near_zero":
        expected = f"{expected} and not between 0 and {LEAST:g}"
    elif item["type"] == "less_than_equal" and item["ctx"]["le"] == LARGEST:
        expected += f" and of at most {LARGEST:,}"
    if item["type"] in ("missing", "union_tag_not_found") and not too_short:
        key = dotted if item["type"] == "missing" else f"{dotted}.kind"
        return _at("the key is missing", place, file, key=key, expected=expected, remedy=f"add {keys[-1]}: ...")
    value = item["input"]
    if item["type"] == "union_tag_invalid":
        value, dotted, keys = value.get("kind"), f"{dotted}.kind", (*keys, "kind")
        kinds = expected.removeprefix("a section with kind one of ")
        return _at(
            f"got {show(value)}",
            _find(places, [keys]),
            file,
            key=dotted,
            expected=f"one of {kinds}",
            remedy=_nearest(value, kinds.split(", ")),
        )
    return _at(f"got {show(value)}", place, file, key=dotted, expected=expected, remedy=_remedy(value, field, sections))


def _without_effect(at: Keys, finding: Finding, places: Mapping[Keys, Place], file: str) -> ConfigError:
    place = _find(places, [(*at, *finding.key.split(".")), (*at, *finding.by.split("."))])
    return _at(finding.got, place, file, key="", expected=finding.expected, remedy=finding.remedy)


def _at(got: str, place: Place | None, file: str, *, key: str, expected: str, remedy: str) -> ConfigError:
    if place is not None and place.text:
        got = got.removeprefix(f"{place.text.partition('=')[0]}: ")
        return ConfigError(f"{truncate(place.text)}: {got}", file=COMMAND_LINE, expected=expected, remedy=remedy)
    got = f"{key}: {got}" if key else got
    return ConfigError(
        got, file=place.file if place else file, line=place.line if place else 0, expected=expected, remedy=remedy
    )


def _named(text: str) -> list[Keys]:
    """The dotted keys in a text."""
    return [tuple(name.split(".")) for name in re.findall(r"[a-z_]\w*(?:\.\w+)+", text)]


def _find(places: Mapping[Keys, Place], candidates: list[Keys]) -> Place | None:
    """The place of the first candidate that has one: its own, a key's inside it, or that of the section around it.

    An override on the command line comes first: it is what was changed last.
    """
    own = [places[keys] for keys in candidates if keys in places]
    if own:
        return next((place for place in own if place.text), own[0])
    for keys in candidates:
        for length in range(len(keys), 0, -1):
            inside = [place for known, place in places.items() if known[:length] == keys[:length]]
            if keys[:length] in places or inside:
                return places.get(keys[:length]) or inside[0]
    return None


def _resolve(keys: Keys, given: dict[str, Any]) -> tuple[list[type[BaseModel]], FieldInfo | None]:
    """The sections that hold the last key, and its field; None for an unknown key or one of a free mapping.

    The last key may be the place of an item in a list or a name in a mapping, whose field is what these hold.
    """
    if keys[1:]:
        _, whole = _resolve(keys[:-1], given)
        inside = None if whole is None or variants(whole.annotation) else whole.annotation
        kind = get_origin(inside)
        if kind is dict or (kind is tuple and keys[-1].isdigit()):
            return [], FieldInfo.from_annotation(get_args(inside)[kind is dict])
    sections = sections_at(keys[:-1], given)
    field = next((section.model_fields[keys[-1]] for section in sections if keys[-1] in section.model_fields), None)
    return sections, field


def _unknown(keys: Keys, sections: list[type[BaseModel]], *, full: bool) -> tuple[str, str]:
    """The message for an unknown key, and the keys to choose from; `full` names keys from the top."""
    known = list(dict.fromkeys(key for section in sections for key in section.model_fields))
    prefix = truncate(".".join((*keys[:-1], ""))) if full else ""
    lowered = truncate(keys[-1]).lower().replace("-", "_")
    alias = ALIASES.get(lowered, lowered)
    kinds = [one.model_fields["kind"].default for one in sections if {"kind", keys[-1]} <= one.model_fields.keys()]
    if kinds:
        return f"a key of {keys[-2]}.kind {', '.join(dict.fromkeys(kinds))} only", ""
    if alias in known:
        return f"unknown key, did you mean {prefix}{alias}?", ""
    whole = sections[0] if sections and issubclass(sections[0], Config) else Config
    elsewhere = [
        f"{name}.{alias}"
        for name, field in whole.model_fields.items()
        for section in variants(field.annotation)
        if alias in section.model_fields
    ]
    elsewhere += [alias] if alias in whole.model_fields else []
    if whole in sections and keys[-1] in of_any_task().model_fields:
        own = " and ".join(whole.own_sections)
        return "a section of another task", f"those of this task: {own}" if own else "it under one of the tasks"
    if elsewhere:
        return f"unknown key, did you mean {elsewhere[0]}?", ""
    foreign = [name for name, ours in ALIASES.items() if ours in known]
    near = difflib.get_close_matches(lowered, known, n=1) or difflib.get_close_matches(lowered, foreign, n=1)
    if near:
        return f"unknown key, did you mean {prefix}{ALIASES.get(near[0], near[0])}?", ""
    return "unknown key", f"one of {', '.join(known)}" if known else ""


def _describe(keys: Keys, field: FieldInfo | None, sections: list[type[BaseModel]]) -> str:
    """What a key may hold, in words."""
    if field is None:
        return "text" if not sections else ""
    inner = variants(field.annotation)
    if len(inner) > 1:
        kinds = [kind for section in inner for kind in get_args(section.model_fields["kind"].annotation)]
        return f"a section with kind one of {', '.join(kinds)}"
    if inner:
        return f"a section with the keys {', '.join(inner[0].model_fields)}"
    if get_origin(field.annotation) is Literal:
        choices = [str(choice) for choice in get_args(field.annotation)]
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        dict: "a mapping",
        tuple: "a list, such as [a, b]",
    }
    if any(getattr(one, "pattern", None) for one in field.metadata):
        return "FILE.py:NAME, such as mine.py:forbid"
    base = words.get(get_origin(field.annotation) or field.annotation, "another value")
    if get_origin(field.annotation) is tuple and Ellipsis not in get_args(field.annotation):
        base = f"a list of {len(get_args(field.annotation))}, such as [a, b]"
    signs = {
        "gt": "above",
        "ge": "of at least",
        "lt": "below",
        "le": "of at most",
        "multiple_of": "a multiple of",
        "min_length": "no shorter than",
    }
    found = [
        f"{word} {bound:{',' if isinstance(bound, int) else 'g'}}"
        for sign, word in signs.items()
        for one in field.metadata
        if (bound := getattr(one, sign, LARGEST)) not in (None, LARGEST)
    ]
    return f"{base} {' and '.join(found)}".rstrip()


def _nearest(value: Any, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(truncate(str(value)), choices, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _remedy(value: Any, field: FieldInfo | None, sections: list[type[BaseModel]]) -> str:
    """What to write instead, if it can be guessed."""
    kind = field.annotation if field is not None else str
    if field is None and sections:
        return ""
    if value is None:
        return "give it a value, or remove the key to keep the default"
    if get_origin(kind) is Literal:
        return _nearest(value, [str(choice) for choice in get_args(kind)])
    if kind is bool:
        truth = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
        correct = truth.get(str(value).lower())
        return f"write {correct}" if correct else ""
    if kind is int and isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST:
        return f"write {int(value)}"
    if kind in (int, float) and isinstance(value, str) and re.fullmatch(r"[-+]?[\d.]+([eE][-+]?\d+)?", value):
        return "remove the quotes"
    return "put it in quotes if you mean text" if kind is str and isinstance(value, (bool, int, float)) else ""
