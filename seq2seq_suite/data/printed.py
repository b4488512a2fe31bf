"""Lists and objects that a program has printed into the cells of a table."""

from __future__ import annotations

import ast
import json
import re
import warnings
from contextlib import suppress
from typing import Any

# How lists of texts, of lists and of objects begin; a text such as `[1]` or `[laughs]` is none of them.
BEGINNINGS = (
    "['",
    '["',
    "{'",
    '{"',
    "('",
    '("',
    "[[",
    "[{",
    "[(",
    "([",
    "({",
    "[np.",
    "[array(",
    "array([",
    "[None",
    "(None",
    "[null",
)
_TOKEN = re.compile(
    r"""(\s*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[-+]?\d[\d.]*(?:e[-+]?\d+)?|[\w.]+|"""
    r"[\[\]{}(),:=])",
    re.DOTALL,
)
_BETWEEN = (",", ":", "=")
_CONSTANTS = {"true": "True", "false": "False", "null": "None", "nan": "None", "NaN": "None"}
_LARGEST = 2**22  # characters


def read_printed(text: str) -> Any:
    """The list or object that Python, numpy or JSON printed; raises ValueError for any other text.

    >>> read_printed("['joy' 'fear']"), read_printed('["a, b"]'), read_printed("{'text': array(['x'], dtype=object)}")
    (['joy', 'fear'], ['a, b'], {'text': ['x']})
    >>> read_printed("[[0. 1.]\\n [2. 3.]]"), read_printed("('a', None)")
    ([[0.0, 1.0], [2.0, 3.0]], ['a', None])
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            with warnings.catch_warnings(action="ignore"):  # of escapes that Python does not know
                found = _listed(ast.literal_eval(_as_python(text)))
        except (SyntaxError, TypeError, MemoryError, RecursionError):
            raise ValueError("no printed list or object") from None
    if not isinstance(found, list | dict):
        raise ValueError("no printed list or object")
    return found


def unprinted(value: Any) -> Any:
    """The value of a printed list or object; any other value unchanged.

    >>> unprinted("['a']"), unprinted("['a"), unprinted("a"), unprinted(None)
    (['a'], "['a", 'a', None)
    """
    with suppress(ValueError):
        return read_printed(value) if isinstance(value, str) and value.startswith(BEGINNINGS) else value
    return value


def _as_python(text: str) -> str:
    """Puts commas between the items of numpy's arrays, and leaves out the names of types."""
    text = text.strip()
    if len(text) > _LARGEST:
        raise ValueError("no printed list or object")
    tokens, end = [], 0  # each with what is before it: a blank or nothing
    for match in _TOKEN.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        tokens.append((match[1], match[2]))
    if end != len(text) or any(token == "..." for _, token in tokens):  # numpy leaves out the middle of a long array
        raise ValueError("no printed list or object")
    found, opened, skipped = [], [], 0
    for number, (_, token) in enumerate(tokens):
        blank, following = tokens[number + 1] if number + 1 < len(tokens) else ("", "")
        if [one for _, one in tokens[number : number + 3]] == [",", "dtype", "="]:
            skipped = 4
        if skipped or (following == "(" and token[0].isalpha()):  # np.str_('a'), array([1], dtype=int32)
            skipped = max(0, skipped - 1)
            continue
        found.append(_CONSTANTS.get(token, token))
        if token in ("[", "{", "("):
            opened.append(token)
        elif token in ("]", "}", ")") and opened:
            opened.pop()
        if blank and opened[-1:] == ["["] and token not in (*_BETWEEN, "[") and following not in (*_BETWEEN, "]"):
            found.append(",")
    return " ".join(found)


def _listed(value: Any) -> Any:
    """The same with lists in place of tuples and sets."""
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_listed, value))
    return sorted(value, key=str) if isinstance(value, set) else value
