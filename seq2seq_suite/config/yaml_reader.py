"""YAML 1.2 as plain data, with the line of each key.

`3e-4` is a number, `no` and `on` are text, only `true` and `false` are truth values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from seq2seq_suite.common.errors import ConfigError, truncate

_FLOAT = re.compile(
    r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+"
    r"|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$"
)
_INT = re.compile(r"[-+]?\d[\d_]*$")
_MOST_VALUES, _DEEPEST = 10_000, 50  # values and sections in sections of a file
_FIRST_OF_NUMBER = list("-+.0123456789")


Keys = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """Where a key was given: a line of a file, or an override (`text`) on the command line."""

    file: str
    line: int = 0
    text: str = ""


class Loader(yaml.SafeLoader):
    """Recognises numbers and truth values by the rules of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}


class Dumper(yaml.SafeDumper):
    """Writes what `Loader` reads back, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, _FIRST_OF_NUMBER)
Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST_OF_NUMBER)
Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST_OF_NUMBER)  # so that the text "3e-4" is quoted


def parse_yaml(text: str, *, file: str, places: dict[Keys, Place]) -> dict[str, Any]:
    """A file's text as plain data; notes the place of each key in `places`. Raises ConfigError if it is no mapping."""
    example = "a mapping, for example\n              task: parsing"
    try:
        node = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or "cannot be read").replace("character '\\t'", "a tab").removeprefix("but ")
        if error.context and error.context_mark and mark and error.context_mark.line != mark.line:
            problem = f"{problem}, {error.context} that begins on line {error.context_mark.line + 1}"
        raise ConfigError(
            f"this is not YAML: {problem}",
            file=file,
            line=mark.line + 1 if mark else 0,
            expected="`key: value` lines, sections indented with spaces",
            remedy="put text that holds ': ', '#', brackets or tabs in quotes",
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {str(error).splitlines()[0]}", file=file) from None
    except RecursionError:
        raise too_deep((), file, 0) from None
    if node is None:
        raise ConfigError("the file is empty", file=file, expected=example)
    value = Reader(file, places).value(node)
    if not isinstance(value, dict):
        raise ConfigError(f"got {show(value)} at the top", file=file, line=node.start_mark.line + 1, expected=example)
    return value


def too_deep(keys: Keys, file: str, line: int) -> ConfigError:
    """The error for values that are nested too deep."""
    name = f"{truncate('.'.join(keys))}: " if keys else ""
    return ConfigError(
        f"{name}lists and mappings are nested more than {_DEEPEST} deep",
        file=file,
        line=line,
        expected="keys in sections",
    )


def show(value: Any) -> str:
    """A value with its type, in the words of YAML.

    >>> show("yes"), show(3), show(None), show({"a": 1})
    ("'yes' (text)", '3 (a whole number)', 'nothing', 'a mapping')
    """
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case bool():
            return f"{str(value).lower()} (a truth value)"
        case int():
            return f"{truncate(str(value))} (a whole number)"
        case float():
            return f"{value} (a decimal number)"
        case _:
            return f"'{truncate(str(value))}' (text)"


class Reader:
    """Turns nodes of YAML into plain Python data; notes the line of each key in `places`."""

    def __init__(self, file: str, places: dict[Keys, Place]):
        self.file, self.places, self.count = file, places, 0

    def value(self, node: yaml.Node, keys: Keys = (), above: tuple[int, ...] = ()) -> Any:
        """What a node under `keys` says; `above` are the nodes around it."""
        line, name = node.start_mark.line + 1, truncate(".".join(keys))
        if id(node) in above:
            raise ConfigError(f"{name}: the value contains itself", file=self.file, line=line)
        if len(above) > _DEEPEST:
            raise too_deep(keys, self.file, line)
        self.count += 1
        if self.count > _MOST_VALUES:  # aliases multiply: a few lines can have billions of values
            raise ConfigError(
                f"{name}: there are more than {_MOST_VALUES:,} values up to here",
                file=self.file,
                line=line,
                expected="a configuration, which has some hundred",
                remedy="remove aliases that multiply values",
            )
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, keys, (*above, id(node))) for item in node.value)
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node, name)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(
                    "a list or mapping where a key belongs", file=self.file, line=key_line, expected="key: value"
                )
            inner = (*keys, self._text(key_node, name))
            if key_node.value in result:
                first = f" (first on line {self.places[inner].line})" if self.places[inner].line else ""
                raise ConfigError(
                    f"{truncate('.'.join(inner))}: the key appears twice{first}",
                    file=self.file,
                    line=key_line,
                    remedy="keep one of the two",
                )
            self.places.setdefault(inner, Place(self.file, key_line))
            result[key_node.value] = self.value(value_node, inner, (*above, id(node)))
        return result

    def _scalar(self, node: yaml.Node, name: str) -> Any:
        kind, text = node.tag.rpartition(":")[2], node.value
        try:
            match kind:
                case "str":
                    return self._text(node, name)
                case "int":
                    return int(text.replace("_", ""))
                case "float":
                    return float(re.sub(r"\.(?=[in])", "", text.replace("_", "").lower()))
                case "bool":
                    return text.lower() == "true"
                case "null":
                    return None
        except ValueError:
            if _INT.match(text):  # of more digits than Python reads
                raise ConfigError(
                    f"{name}: got a whole number of {len(text):,} digits",
                    file=self.file,
                    line=node.start_mark.line + 1,
                    expected="a smaller number",
                ) from None
        raise ConfigError(
            f"{name}: got {truncate(f'{node.tag} {text}'.rstrip())}",
            file=self.file,
            line=node.start_mark.line + 1,
            expected="plain text, a number, true or false",
            remedy=f"remove the tag {truncate(node.tag)}",
        )

    def _text(self, node: yaml.Node, name: str) -> str:
        """Refuse characters that no file name may have."""
        wrong = next((sign for sign in node.value if sign == "\0" or "\ud800" <= sign <= "\udfff"), "")
        if wrong:
            raise ConfigError(
                f"{name}: the text holds the character {ord(wrong)}",
                file=self.file,
                line=node.start_mark.line + 1,
                expected="printable text",
                remedy="remove it",
            )
        return node.value
