"""Reads a configuration from YAML and the command line, and says in plain words what is wrong with it.

The YAML is read by the rules of YAML 1.2: `3e-4` is a number, `no` and `on` are text, only `true` and `false` are
truth values. Types are not converted: a quoted number stays text and is refused where a number belongs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from seq2seq_suite.config import SHARED, Config, of_any_task
from seq2seq_suite.config_errors import Keys, Place, explain, sections_at, show, variants, without_effect
from seq2seq_suite.files import read_text
from seq2seq_suite.types import COMMAND_LINE, ConfigError, DataError, brief
from seq2seq_suite.user_code import absolute, is_code

OVERRIDE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*=.*", re.DOTALL)
_FLOAT = re.compile(r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+"
                    r"|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$")
_INT = re.compile(r"[-+]?\d[\d_]*$")
_ALONE = ("init_from", "init_parts", "tasks", "mixture")  # what a run has that is not a part of another
_LARGEST, _MOST_VALUES, _DEEPEST = 2**18, 10_000, 50  # bytes, values and sections in sections of a file
_FIRST_OF_NUMBER = list("-+.0123456789")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[Any]] = {}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"),
                              list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, _FIRST_OF_NUMBER)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST_OF_NUMBER)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST_OF_NUMBER)  # so that the text "3e-4" is quoted


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration that a YAML file and overrides describe.

    Args:
        path: the file.
        overrides: `key.sub=value`, applied in order after the file; the value is read as YAML.

    Returns:
        The checked configuration.

    Raises:
        ConfigError: anything is wrong; it names the place, the key, what was found and what was expected.
    """
    places: dict[Keys, Place] = {}
    return _checked(_parse(_read(path), file=str(path), places=places), overrides, places=places, file=str(path))


def parse(path: Path) -> dict[str, Any]:
    """A YAML file as plain data, by the rules of this module; raises ConfigError if it is none."""
    return _parse(_read(path), file=str(path), places={})


def from_mapping(given: Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """The configuration that a dictionary and overrides describe; keys and errors are those of `load`."""
    return _checked(_plain(given), overrides, places={}, file="")


def _plain(value: Any) -> Any:
    """A value as reading YAML gives it, with tuples for lists and text for paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_plain(inner) for inner in value)
    return str(value) if isinstance(value, Path) else value


def for_task(task: str, overrides: Sequence[str]) -> Config:
    """The defaults of a task with overrides; raises ConfigError as `load` does.

    >>> for_task("translation", ["translation.metric_tokenizer=zh"]).translation.metric_tokenizer
    'zh'
    """
    found = _checked({"task": task}, overrides, places={}, file=COMMAND_LINE)
    if found.task != task:
        raise ConfigError(f"task={brief(found.task)}, but the task is {brief(task)}", file=COMMAND_LINE,
                          expected="changes to its options", remedy=f"leave task={brief(found.task)} out")
    return found


def _checked(given: dict[str, Any], overrides: Sequence[str], *, places: dict[Keys, Place], file: str) -> Config:
    for override in overrides:
        _apply(override, given, places)
    _take_in(given, places, file=file)
    for part in (given, *(given["tasks"].values() if isinstance(given.get("tasks"), dict) else ())):
        if isinstance(part, dict) and is_code(part.get("task")):
            part["task"] = absolute(part["task"], Path(file).parent)
    while True:
        try:
            return Config.model_validate(given, context=Path(file).parent)
        except ValidationError as error:
            if _leave_out(without_effect(error, given), given, places, file=file):
                continue
            found = explain(error, given, places=places, file=file)
        # One report of everything that is wrong; the attributes are those of the first error.
        found[0].args = ("\n".join(dict.fromkeys(str(one) for one in found)),)
        raise found[0]


def dump(config: Config) -> str:
    """The whole configuration as YAML, every key in the order of its declaration; `load` reads it back unchanged.

    What the tasks of a joint run have from it is not repeated for each.
    """
    values = config.model_dump(mode="python")
    for part in values["tasks"].values():
        for key in (*SHARED, *_ALONE):
            part.pop(key)
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _take_in(given: dict[str, Any], places: dict[Keys, Place], *, file: str) -> None:
    """Put what the files of a joint run's tasks say in the place of `yaml`; what stands beside it goes before.

    A file's name is looked for beside the joint run's own file.
    """
    tasks = given.get("tasks")
    for name, part in tasks.items() if isinstance(tasks, dict) else ():
        if not isinstance(part, dict) or not isinstance(part.get("yaml"), str):
            continue
        path, inner = Path(file).parent / part.pop("yaml"), {}
        theirs = _parse(_read(path), file=str(path), places=inner)
        for key in (*SHARED, *_ALONE):
            theirs.pop(key, None)
        if is_code(theirs.get("task")):
            theirs["task"] = absolute(theirs["task"], path.parent)
        for keys, place in inner.items():
            if keys[0] in theirs:
                places.setdefault(("tasks", name, *keys), place)
        tasks[name] = _merged(theirs, part)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both mappings, sections of the same name merged; another kind of section leaves nothing of the one below."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        same = both and ("kind" not in value or old.get("kind", value["kind"]) == value["kind"])
        merged[key] = _merged(old, value) if same else value
    return merged


def is_override(argument: str) -> bool:
    """Whether a command-line argument reads `dotted.key=value`.

    >>> is_override("training.learning_rate=3e-4"), is_override("runs/a=b/config.yaml"), is_override("tasks/p.yaml")
    (True, False, False)
    """
    return OVERRIDE.fullmatch(argument) is not None


def key_list(section: type[BaseModel] | None = None) -> tuple[str, ...]:
    """Every dotted key of a section, or of a configuration of whatever task, in the order of declaration."""
    keys: list[str] = []
    for name, field in (section or of_any_task()).model_fields.items():
        sections = variants(field.annotation)
        inner = [f"{name}.{key}" for inside in sections for key in key_list(inside)]
        keys.extend(dict.fromkeys(inner) if sections else [name])
    return tuple(keys)


def _read(path: Path) -> str:
    try:
        return read_text(path, expected="a YAML file", largest=_LARGEST)
    except DataError as error:
        remedy = error.remedy
        if "no such file" in error.got:
            remedy = _nearest_file(path)
        elif "folder" in error.got:
            inside = path / "config.yaml"
            remedy = f"name the file: {inside}" if inside.is_file() else "name a YAML file in it"
        raise ConfigError(error.got, file=error.file, expected=error.expected, remedy=remedy) from None


def _nearest_file(path: Path) -> str:
    folders = [path.parent, Path("tasks")] if path.parent != Path("tasks") else [path.parent]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.y*ml"))]
    stems = {file.stem: file for file in reversed(files)}
    near = difflib.get_close_matches(path.stem, stems, n=1, cutoff=0.5)
    if near:
        return f"did you mean {stems[near[0]]}?"
    if files:
        return f"choose one of: {', '.join(str(file) for file in files[:8])}"
    return f"there are no YAML files in {path.parent}" if path.parent.is_dir() else f"there is no folder {path.parent}"


def _parse(text: str, *, file: str, places: dict[Keys, Place]) -> dict[str, Any]:
    example = "a mapping, for example\n              task: parsing"
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or "cannot be read").replace("character '\\t'", "a tab").removeprefix("but ")
        if error.context and error.context_mark and mark and error.context_mark.line != mark.line:
            problem = f"{problem}, {error.context} that begins on line {error.context_mark.line + 1}"
        raise ConfigError(f"this is not YAML: {problem}", file=file, line=mark.line + 1 if mark else 0,
                          expected="`key: value` lines, sections indented with spaces",
                          remedy="put text that holds ': ', '#', brackets or tabs in quotes") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {str(error).splitlines()[0]}", file=file) from None
    except RecursionError:
        raise _too_deep((), file, 0) from None
    if node is None:
        raise ConfigError("the file is empty", file=file, expected=example)
    value = _Reader(file, places).value(node)
    if not isinstance(value, dict):
        raise ConfigError(f"got {show(value)} at the top", file=file, line=node.start_mark.line + 1, expected=example)
    return value


def _too_deep(keys: Keys, file: str, line: int) -> ConfigError:
    name = f"{brief('.'.join(keys))}: " if keys else ""
    return ConfigError(f"{name}lists and mappings are nested more than {_DEEPEST} deep", file=file, line=line,
                       expected="keys in sections")


class _Reader:
    """Turns nodes of YAML into plain Python data; notes the line of each key in `places`."""

    def __init__(self, file: str, places: dict[Keys, Place]):
        self.file, self.places, self.count = file, places, 0

    def value(self, node: yaml.Node, keys: Keys = (), above: tuple[int, ...] = ()) -> Any:
        """What a node under `keys` says; `above` are the nodes around it."""
        line, name = node.start_mark.line + 1, brief(".".join(keys))
        if id(node) in above:
            raise ConfigError(f"{name}: the value contains itself", file=self.file, line=line)
        if len(above) > _DEEPEST:
            raise _too_deep(keys, self.file, line)
        self.count += 1
        if self.count > _MOST_VALUES:  # aliases multiply: a few lines can say billions
            raise ConfigError(f"{name}: there are more than {_MOST_VALUES:,} values up to here", file=self.file,
                              line=line, expected="a configuration, which has some hundreds",
                              remedy="remove aliases that multiply values")
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, keys, (*above, id(node))) for item in node.value)
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node, name)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError("a list or mapping stands where a key belongs", file=self.file, line=key_line,
                                  expected="key: value")
            inner = (*keys, self._text(key_node, name))
            if key_node.value in result:
                first = f" (first on line {self.places[inner].line})" if self.places[inner].line else ""
                raise ConfigError(f"{brief('.'.join(inner))}: the key appears twice{first}", file=self.file,
                                  line=key_line, remedy="keep one of the two")
            self.places.setdefault(inner, Place(self.file, key_line))
            result[key_node.value] = self.value(value_node, inner, (*above, id(node)))
        return result

    def _scalar(self, node: yaml.ScalarNode, name: str) -> Any:
        kind, text = node.tag.rpartition(":")[2], node.value
        try:
            match kind:
                case "str":
                    return self._text(node, name)
                case "int":
                    return int(text.replace("_", ""))
                case "float":
                    return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
                                 .replace(".Inf", "inf").replace(".NaN", "nan")
                                 .replace(".INF", "inf").replace(".NAN", "nan"))
                case "bool":
                    return text.lower() == "true"
                case "null":
                    return None
        except ValueError:
            if _INT.match(text):  # of more digits than Python reads
                raise ConfigError(f"{name}: got a whole number of {len(text):,} digits", file=self.file,
                                  line=node.start_mark.line + 1, expected="a smaller number") from None
        raise ConfigError(f"{name}: got {brief(f'{node.tag} {text}'.rstrip())}", file=self.file,
                          line=node.start_mark.line + 1, expected="plain text, a number, true or false",
                          remedy=f"remove the tag {brief(node.tag)}")

    def _text(self, node: yaml.ScalarNode, name: str) -> str:
        """What no name of a file may hold would be found out late, wherever such a name is used."""
        wrong = next((sign for sign in node.value if sign == "\0" or "\ud800" <= sign <= "\udfff"), "")
        if wrong:
            raise ConfigError(f"{name}: the text holds the character {ord(wrong)}", file=self.file,
                              line=node.start_mark.line + 1, expected="text that can be written", remedy="remove it")
        return node.value


def _apply(override: str, given: dict[str, Any], places: dict[Keys, Place]) -> None:
    """Put an override into `given`."""
    if not is_override(override):
        raise ConfigError(brief(override), file=COMMAND_LINE, expected="key.sub=value",
                          remedy="for example training.learning_rate=3e-4")
    dotted, _, text = override.partition("=")
    keys = tuple(dotted.split("."))
    for known in [known for known in places if known[:len(keys)] == keys]:
        del places[known]
    value: Any = text
    if text.strip():
        try:
            node = yaml.compose(text, Loader=_Loader)
        except yaml.YAMLError:
            raise ConfigError(f"{brief(override)}: the value is not YAML", file=COMMAND_LINE, expected="key.sub=value",
                              remedy=f"put the value in quotes twice: '{brief(dotted)}=\"{brief(text)}\"'") from None
        except RecursionError:
            raise _too_deep(keys, COMMAND_LINE, 0) from None
        if node is not None:  # None: nothing but a comment, such as #1, which we take as text
            value = _Reader(COMMAND_LINE, {}).value(node, keys)
    places[keys] = Place(COMMAND_LINE, text=override)
    section = given
    for depth, key in enumerate(keys[:-1], 1):
        inner = section.setdefault(key, {})
        if not isinstance(inner, dict) and not sections_at(keys[:depth], given):
            raise ConfigError(f"{brief(override)}: {brief('.'.join(keys[:depth]))} is no section", file=COMMAND_LINE,
                              expected="key.sub=value", remedy="leave out what stands behind it")
        if not isinstance(inner, dict):
            return  # the file holds a value where a section belongs: reported as the file's error
        section = inner
    section[keys[-1]] = value
    if keys[-1] == "kind":
        _drop_foreign(section, keys[:-1], given, places)


def _leave_out(found: Sequence[tuple[Keys, Keys]], given: dict[str, Any], places: dict[Keys, Place], *, file: str
               ) -> bool:
    """Leave out keys without effect that only a later word has made so; whether there were any.

    A file's `search.beam_size` says nothing of a kind of decoder that an override chooses instead. The word of a joint
    run's own file is later than that of the files which it takes in.
    """
    def rank(place: Place) -> int:
        return 2 if place.text else int(place.file == file)

    def place_of(keys: Keys) -> Place:  # its own, or the override that gave the section as a whole
        above = (places.get(keys[:length], Place("")) for length in range(len(keys) - 1, 0, -1))
        return places.get(keys) or next((place for place in above if place.text), Place(""))

    late = [(keys, by) for keys, by in found if keys in places and rank(places[keys]) < rank(place_of(by))]
    for keys, by in late:
        section = given
        for key in keys[:-1]:
            section = section[key]
        section.pop(keys[-1], None)  # there may be several reasons
        places[keys] = place_of(by)
    return bool(late)


def _drop_foreign(section: dict[str, Any], keys: Keys, given: dict[str, Any], places: dict[Keys, Place]) -> None:
    """Leave out what another kind of section than the file's has no use for, so that the kind alone can be changed."""
    chosen = [found for found in sections_at(keys, given)
              if "kind" in found.model_fields and section["kind"] in get_args(found.model_fields["kind"].annotation)]
    for key in [key for key in section if chosen and key not in chosen[0].model_fields]:
        del section[key]
        places.pop((*keys, key), None)
