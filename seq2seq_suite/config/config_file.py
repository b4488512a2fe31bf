"""Reads a configuration from YAML and the command line, and reports what is wrong with it.

Types are not converted: a quoted number stays text and is refused where a number belongs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import yaml

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError, truncate
from seq2seq_suite.common.files import read_text
from seq2seq_suite.common.user_code import absolute, named_code, require_trust, trusting
from seq2seq_suite.config.versions import FORMAT, upgrade
from seq2seq_suite.config.yaml_reader import Dumper, Keys, Loader, Place, Reader, parse_yaml, too_deep

if TYPE_CHECKING:  # errors in a file itself are reported without importing the model's code, which takes a second
    from pydantic import BaseModel

    from seq2seq_suite.config.schema import Config

OVERRIDE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*=.*", re.DOTALL)
_FORMAT = ("format",)  # the key of a file that a run wrote
_ALONE = ("init_from", "init_parts", "tasks", "mixture")  # keys of a run that is not a part of another
_LARGEST = 2**18  # bytes of a file
# tasks/ of the checkout, which a wheel installs in the package.
_HERE = Path(__file__).parents[1]
PRESETS = _HERE / "presets" if (_HERE / "presets").is_dir() else _HERE.parent / "tasks"
SCHEMA = PRESETS / "schema.json"


def preset(name: str) -> Path | None:
    """The preset or study of a bare name, such as `parsing` or `norms.yaml`; None if there is none."""
    if Path(name).name != name or not name.removesuffix(".yaml").replace("-", "").isidentifier():
        return None
    files = (PRESETS / f"{name.removesuffix('.yaml')}.yaml", PRESETS / "studies" / f"{name.removesuffix('.yaml')}.yaml")
    return next(filter(Path.is_file, files), None)


def find(name: str | Path, folder: Path = Path()) -> Path:
    """The file of an experiment: in `folder`, with or without `.yaml`, or else a preset.

    A name that is neither gives `folder / name`, for whose absence `load` has the message.
    """
    path = folder / name
    if path.is_file() or not path.name:  # of "" and "." the folder itself
        return path
    named = path.with_name(f"{path.name}.yaml")
    relative = re.sub(r"^tasks/(studies/)?(?=[\w-]+\.yaml$)", "", str(name))  # as the pages of the checkout write it
    return named if named.is_file() else preset(relative) or path


def load(path: Path, overrides: Sequence[str] = (), *, of_run: bool = False, own: bool = False) -> Config:
    """The configuration that a YAML file and overrides describe.

    Args:
        path: the file.
        overrides: `key.sub=value`, applied in order after the file; the value is read as YAML.
        of_run: a run wrote the file, with the number of its format.
        own: it is the user's own: the code that it names is trusted, unless a run wrote it.

    Returns:
        The checked configuration.

    Raises:
        ConfigError: anything is wrong; it names the place, the key, what was found and what was expected.
        FormatError: this version cannot read the file's format.
    """
    places: dict[Keys, Place] = {}
    given = parse(path, places, of_run=of_run)
    if is_study(given):
        raise ConfigError(
            "this is a study", file=str(path), expected="an experiment", remedy=f"python -m seq2seq_suite sweep {path}"
        )
    return _checked(given, overrides, places=places, file=str(path), own=own)


def is_study(given: Mapping[str, Any]) -> bool:
    """Whether this is the content of a study's file: it has `variants`, or `yamls` in case the former is misspelt."""
    return not {"variants", "yamls"}.isdisjoint(given)


def parse(path: Path, places: dict[Keys, Place] | None = None, *, of_run: bool = False) -> dict[str, Any]:
    """A YAML file as plain data, by the rules of this module, keys of older formats renamed; raises as `load` does."""
    given = parse_yaml(_read(path), file=str(path), places={} if places is None else places)
    upgrade(given, file=str(path), of_run=of_run)
    return given


def from_mapping(given: Mapping[str, Any], overrides: Sequence[str] = (), *, own: bool = False) -> Config:
    """The configuration that a dictionary and overrides describe; keys and errors are those of `load`."""
    plain = _plain(given)
    upgrade(plain, file="")
    return _checked(plain, overrides, places={}, file="", own=own)


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
        raise ConfigError(
            f"task={truncate(found.task)}, but the task is {truncate(task)}",
            file=COMMAND_LINE,
            expected="changes to its options",
            remedy=f"leave task={truncate(found.task)} out",
        )
    return found


def _checked(
    given: dict[str, Any], overrides: Sequence[str], *, places: dict[Keys, Place], file: str, own: bool = False
) -> Config:
    for override in overrides:
        _apply(override, given, places)
    by_runs = _take_in(given, places, file=file)
    code = []
    for keys, section, at in named_code(given):
        place = places.get(keys, places.get(keys[:-1], Place(file)))
        section[at] = absolute(
            section[at],
            Path() if place.text and Path(section[at].rpartition(":")[0]).is_file() else Path(file).parent,
        )
        code.append((section[at], ".".join(keys), place))
    typed_or_own = (one for one, _, place in code if place.text or not (_FORMAT in places or place.file in by_runs))
    with trusting(typed_or_own if own else ()):
        for reference, key, place in code:
            require_trust(reference, key=key, file=place.file, line=place.line)
        return _validated(given, places, file=file)


@contextmanager
def locating(path: Path, overrides: Sequence[str] = ()) -> Iterator[None]:
    """Give errors within that name a key, but no place, the place where a file or an override sets it: some are found
    only when a model is built."""
    try:
        yield
    except ConfigError as error:
        if error.file:
            raise
        from seq2seq_suite.config.messages import located

        given = parse(path, places := dict[Keys, Place]())
        for override in overrides:
            _apply(override, given, places)
        raise located(error, places) from error


def code_of(path: Path) -> dict[str, str]:
    """The code that a run's file names, which is not run: dotted key -> `FILE.py:NAME` with an absolute path."""
    return {
        ".".join(keys): absolute(section[at], path.parent) for keys, section, at in named_code(parse(path, of_run=True))
    }


def _validated(given: dict[str, Any], places: dict[Keys, Place], *, file: str) -> Config:
    """The configuration of plain data with absolute paths of code."""
    from pydantic import ValidationError

    from seq2seq_suite.config.messages import explain, without_effect
    from seq2seq_suite.config.schema import Config

    while True:
        try:
            return Config.model_validate(given)
        except ValidationError as error:
            if _leave_out(without_effect(error, given), given, places, file=file):
                continue
            found = explain(error, given, places=places, file=file)
        # One report of everything that is wrong; the attributes are those of the first error.
        found[0].args = ("\n".join(dict.fromkeys(str(one) for one in found)),)
        raise found[0]


def dump(config: Config, code: Mapping[str, str] = MappingProxyType({})) -> str:
    """The format and the whole configuration as YAML, keys as they are declared; `load` reads it back unchanged.

    What a joint run shares is not repeated in its tasks. `code` says where code of the user's own lies for the file.
    """
    from seq2seq_suite.config.schema import SHARED

    values = {"format": FORMAT, **config.model_dump(mode="python")}
    for part in values["tasks"].values():
        for key in (*SHARED, *_ALONE):
            part.pop(key)
    for _, section, at in named_code(values):
        section[at] = code.get(section[at], section[at])
    return yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)


def _take_in(given: dict[str, Any], places: dict[Keys, Place], *, file: str) -> set[str]:
    """Replace `yaml` in the tasks of a joint run by the file's contents; keys beside `yaml` override them.

    Names of files are relative to the joint run's own file. Returns those of the files that a run wrote.
    """
    from seq2seq_suite.config.schema import SHARED

    tasks = found if isinstance(found := given.get("tasks"), dict) else {}
    by_runs: set[str] = set()
    for name, part in tasks.items():
        if not isinstance(part, dict) or not isinstance(part.get("yaml"), str):
            continue
        inner: dict[Keys, Place] = {}
        path = find(part.pop("yaml"), Path(file).parent)
        theirs = parse(path, inner)
        if _FORMAT in inner:
            by_runs.add(str(path))
        for key in (*SHARED, *_ALONE):
            theirs.pop(key, None)
        for _, section, at in named_code(theirs):
            section[at] = absolute(section[at], path.parent)
        for keys, place in inner.items():
            if keys[0] in theirs:
                places.setdefault(("tasks", name, *keys), place)
        tasks[name] = _merged(theirs, part)
    return by_runs


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both mappings, sections of the same name merged; another kind of section leaves nothing of the one below."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if (
            isinstance(old, dict)
            and isinstance(value, dict)
            and ("kind" not in value or old.get("kind", value["kind"]) == value["kind"])
        ):
            value = _merged(old, value)
        merged[key] = value
    return merged


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings by their dotted keys as the command line writes them.

    >>> as_overrides({"a": (1, "b"), "c": 0.5, "d": True, "e": "3e-4", "f": "no"})
    ['a=[1, b]', 'c=0.5', 'd=true', "e='3e-4'", "f='no'"]
    """
    return [
        f"{key}={yaml.dump(value, Dumper=Dumper, default_flow_style=True, width=10**6).split(chr(10))[0]}"
        for key, value in settings.items()
    ]


def is_override(argument: str) -> bool:
    """Whether a command-line argument reads `dotted.key=value`.

    >>> is_override("training.learning_rate=3e-4"), is_override("runs/a=b/config.yaml"), is_override("tasks/p.yaml")
    (True, False, False)
    """
    return OVERRIDE.fullmatch(argument) is not None


def key_list(section: type[BaseModel] | None = None) -> tuple[str, ...]:
    """Every dotted key of a section, or of a configuration of whatever task, in the order of declaration."""
    from seq2seq_suite.config.messages import variants
    from seq2seq_suite.config.schema import of_any_task

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
    files = [file for folder in dict.fromkeys((path.parent, Path("tasks"))) for file in sorted(folder.glob("*.y*ml"))]
    files += [Path(file.stem) for file in sorted(PRESETS.glob("*.yaml"))]
    stems = {file.stem: file for file in reversed(files)}
    near = difflib.get_close_matches(path.stem, stems, n=1, cutoff=0.5)
    if near:
        return f"did you mean {stems[near[0]]}?"
    return f"choose one of: {', '.join(map(str, files[:8]))}" if files else f"there are no YAML files in {path.parent}"


def _apply(override: str, given: dict[str, Any], places: dict[Keys, Place]) -> None:
    """Apply an override to `given`."""
    if not is_override(override):
        raise ConfigError(
            truncate(override),
            file=COMMAND_LINE,
            expected="key.sub=value",
            remedy="for example training.learning_rate=3e-4",
        )
    from seq2seq_suite.config.messages import sections_at

    dotted, _, text = override.partition("=")
    keys = tuple(dotted.split("."))
    for known in [known for known in places if known[: len(keys)] == keys]:
        del places[known]
    value: Any = text
    if text.strip():
        try:
            node = yaml.compose(text, Loader=Loader)
        except yaml.YAMLError:
            remedy = f"put the value in quotes twice: '{truncate(dotted)}=\"{truncate(text)}\"'"
            raise ConfigError(
                f"{truncate(override)}: the value is not YAML",
                file=COMMAND_LINE,
                expected="key.sub=value",
                remedy=remedy,
            ) from None
        except RecursionError:
            raise too_deep(keys, COMMAND_LINE, 0) from None
        if node is not None:  # None: nothing but a comment, such as #1, which we take as text
            value = Reader(COMMAND_LINE, {}).value(node, keys)
    places[keys] = Place(COMMAND_LINE, text=override)
    section = given
    for depth, key in enumerate(keys[:-1], 1):
        inner = section.setdefault(key, {})
        if not isinstance(inner, dict) and not sections_at(keys[:depth], given):
            raise ConfigError(
                f"{truncate(override)}: {truncate('.'.join(keys[:depth]))} is no section",
                file=COMMAND_LINE,
                expected="key.sub=value",
                remedy="remove the part after it",
            )
        if not isinstance(inner, dict):
            return  # the file holds a value where a section belongs: reported as the file's error
        section = inner
    section[keys[-1]] = value
    if keys[-1] == "kind":
        _drop_foreign(section, keys[:-1], given, places)


def _leave_out(
    found: Sequence[tuple[Keys, Keys]], given: dict[str, Any], places: dict[Keys, Place], *, file: str
) -> bool:
    """Drop keys that have no effect because of a later setting; whether there were any.

    If an override chooses another kind of decoder, the file's `search.beam_size` is dropped, not refused. A joint run's
    own file is later than the files that it includes.
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
    """Drop the file's keys that the section's new kind does not have, so that an override can change the kind alone."""
    from seq2seq_suite.config.messages import sections_at

    chosen = [
        found
        for found in sections_at(keys, given)
        if "kind" in found.model_fields and section["kind"] in get_args(found.model_fields["kind"].annotation)
    ]
    for known in [(*keys, key) for key in section if chosen and key not in chosen[0].model_fields]:
        if not any(place.text for inside, place in places.items() if inside[: len(known)] == known):
            del section[known[-1]]
            places.pop(known, None)
