"""Keys without effect: which strategies, tasks and searches use a key.

A key that is set but never read is a mistake that would otherwise go unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import truncate
from seq2seq_suite.common.groups import grouped
from seq2seq_suite.common.parts import TABLES, compiled
from seq2seq_suite.common.user_code import is_code
from seq2seq_suite.options.miniworld import KNOBS
from seq2seq_suite.options.section import Use, among, one_of
from seq2seq_suite.strategies import KINDS, classes_of
from seq2seq_suite.tasks import find_task

if TYPE_CHECKING:
    from seq2seq_suite.config.schema import Config

_OFF = {"strategy.label_smoothing": 0.0}  # values that have no effect, besides the default
_OF_FREE_TEXT = (
    *("search.min_length", "search.no_repeat_ngram", "search.repetition_penalty"),
    *("search.suppress", "search.begin_suppress"),
)
# What else than dropout training draws anew in each pass over a batch.
_DRAWN = (
    "backbone.attention_dropout",
    "strategy.glancing",
    "strategy.scheduled_sampling",
    "strategy.block",
    "parsing.unknown_rate",
    "tagging.unknown_rate",
    "multilabel.word_dropout",
    "qa.segment_jitter",
    "audio.frequency_bars",
    "audio.time_bars",
)
_OF_TASKS = ("data", "miniworld", "strategy", "search")  # sections that each task of a joint run has for itself


@dataclass(frozen=True)
class Finding:
    """A key without effect, and the key that makes it so."""

    key: str
    by: str
    got: str
    expected: str
    remedy: str


class WithoutEffect(ValueError):
    """Some keys are set that have no effect.

    Args:
        findings: why; several for a key that has no effect for several reasons.
    """

    def __init__(self, findings: list[Finding]):
        super().__init__("; ".join(f"{one.got}: {one.remedy}" for one in findings))
        self.findings = findings


def _reads_other(views: tuple[str, ...], config: Config) -> bool:
    """Whether a task reads the embedded data, but none of these views."""
    view = config.data.subset or getattr(find_task(config.task), "view", "")
    return config.data.path == "miniworld" and view not in views


def _draws_nothing(config: Config) -> bool:
    """Whether two passes of the suite's own strategies over a batch differ in dropout alone."""
    values = [_value(config, key) for key in _DRAWN]
    hides = "iterations" in config.strategy_class.uses  # symbols, which it then predicts in several passes
    return not (
        hides or is_code(config.strategy.kind) or any(any(one) if isinstance(one, tuple) else one for one in values)
    )


_USES = (
    Use(
        ("search.constraint",),
        "task",
        "a task with structured output, such as parsing, multilabel or tagging",
        lambda task: False,
        lambda config: not config.options.constrained,
    ),
    Use(
        _OF_FREE_TEXT,
        "task",
        "a task that writes free text, such as translation or asr",
        lambda task: False,
        lambda config: config.options.constrained,
    ),
    Use(
        (*_OF_FREE_TEXT, "search.sampling", "search.compile", "search.processors", "search.risk"),
        "search.ctc_weight",
        "below 1; at 1 the CTC head decodes alone",
        lambda weight: weight < 1.0,
    ),
    among(("data.size", "miniworld.world"), "data.path", "miniworld"),
    *(among((f"miniworld.{knob}",), "miniworld.world", "rich") for knob in KNOBS),
    *(
        Use(
            (f"miniworld.{knob}",),
            "task",
            f"a task with the embedded {one_of(views)}",
            lambda task: False,
            partial(_reads_other, views),
        )
        for knob, views in KNOBS.items()
    ),
    Use(("miniworld.cognates",), "miniworld.words", "above 0", bool),
    Use(
        ("miniworld.ambiguity_skew", "miniworld.ambiguity_scope", "miniworld.ambiguity_named"),
        "miniworld.ambiguity",
        "above 1",
        lambda ways: ways > 1,
    ),
    Use(("data.format",), "data.path", "other than miniworld", "miniworld".__ne__),
    # Keys that a search does not use.
    Use(
        ("search.temperature", "search.top_k", "search.top_p"),
        "search.sampling",
        "true",
        bool,
        lambda config: not config.search.samples,
    ),
    Use(
        ("search.risk",),
        "search.beam_size",
        "above 1",
        lambda size: size > 1,
        lambda config: "risk" in config.strategy_class.uses and "sampling" not in config.strategy_class.uses,
    ),
    Use(("search.drafter",), "search.risk", "0", lambda risk: risk == 0),
    Use(("strategy.consistency",), "backbone.dropout", "above 0, so that two passes differ", bool, _draws_nothing),
    Use(("search.drafter",), "search.beam_size", "1", lambda size: size == 1),
    Use(("search.drafter",), "search.sampling", "false", lambda sampling: not sampling),
    Use(("search.drafter",), "search.ctc_weight", "0", lambda weight: weight == 0.0),
    Use(("search.drafter",), "backbone.decoder", "transformer", "transformer".__eq__),
    Use(
        ("search.drafter",),
        "strategy.ctc_weight",
        "above 0, so that there is a CTC head",
        lambda weight: weight > 0.0,
        lambda config: config.search.drafter == "ctc" and config.strategy.kind == "autoregressive",
    ),
    among(("search.threshold",), "search.order", "left", "any"),
    Use(("search.order", "search.threshold"), "search.block", "above 1", lambda size: size != 1),
    Use(
        ("search.order", "search.threshold"),
        "strategy.block",
        "above 1",
        lambda size: size != 1,
        lambda config: config.search.block == 0,
    ),
    Use(
        ("strategy.weighting", "strategy.tail", "strategy.copy_ratio"),
        "strategy.block",
        "above 1",
        lambda size: size != 1,
        lambda config: set(getattr(config.strategy, "blocks", ())) <= {1},
    ),
    Use(("strategy.copy_ratio",), "backbone.encoder", "other than none", lambda kind: kind != "none"),
    among(("backbone.norm_warmup",), "backbone.norm", "power"),
    Use(("training.compile",), "training.shard", "false", lambda shard: not shard),
    # What step.cpp does not know.
    among(("search.compile",), "kernels", "fast"),
    Use(("search.compile",), "components", "{}", lambda given: not given),
    Use(("search.compile",), "search.processors", "[]", lambda given: not given),
    among(("search.compile",), "backbone.decoder", "transformer"),
    Use(("search.compile",), "backbone.encoder", "other than none", lambda kind: kind != "none"),
    Use(("search.compile",), "backbone.decoder_steps", "1", lambda steps: steps == 1),
    Use(("search.compile",), "backbone.experts", "0", lambda experts: experts == 0),
    *(among(("search.compile",), f"backbone.{key}", *compiled(key)) for key in TABLES),
    Use(("search.compile",), "search.drafter", "'' or a run", lambda drafter: drafter != "ctc"),
    Use(
        ("search.beam_size",),
        "search.sampling",
        "false",
        lambda sampling: not sampling,
        lambda config: not config.search.rescorer,
    ),
)


@cache
def _of_strategies() -> tuple[Use, ...]:
    """Keys that a kind of strategy, or its class for a task's outputs, does not use."""
    users = grouped(
        (name, kind) for kind in KINDS for name in dict.fromkeys(name for one in classes_of(kind) for name in one.uses)
    )
    uses = []
    for name, kinds in users.items():
        targets = {
            target: None for kind in kinds for one in classes_of(kind) if name in one.uses for target in one.writes
        }
        uses += [
            among((f"search.{name}",), "strategy.kind", *kinds, where=partial(_is_unused, name)),
            Use(
                (f"search.{name}",),
                "task",
                f"a task that writes {one_of(tuple(targets))}",
                lambda task: False,
                partial(_is_unused_for_task, name, tuple(kinds)),
            ),
        ]
    return tuple(uses)


def _is_unused(name: str, config: Config) -> bool:
    """Whether nothing uses a key of `search`: whatever wrote an output, a rescorer weighs its length."""
    return name not in config.strategy_class.uses and not (name == "length_penalty" and config.search.rescorer)


def _is_unused_for_task(name: str, kinds: tuple[str, ...], config: Config) -> bool:
    return config.strategy.kind in kinds and name not in config.strategy_class.uses


def check_uses(config: Config) -> None:
    """Raises WithoutEffect if a key is set that has no effect."""
    found = list(_of_joint_run(config) if config.task == "multitask" else _of_one_task(config))
    if found:
        raise WithoutEffect(found)


def why_unused(config: Config, key: str) -> str:
    """The reason why a dotted key has no effect in a configuration of one task, such as `task detection`; or empty.

    >>> from seq2seq_suite.config.schema import Config
    >>> why_unused(Config(task="translation"), "search.iterations")
    'strategy.kind autoregressive'
    """
    return next((f"{use.by} {_plain(_value(config, use.by))}" for use in _broken(config) if key in use.keys), "")


def _default(config: Config, key: str) -> Any:
    section, _, name = key.rpartition(".")
    return type(getattr(config, section)).model_fields[name].default


def _broken(config: Config) -> Iterator[Use]:
    return (
        use
        for use in (*config.options.uses, *_USES, *_of_strategies())
        if use.where(config) and not use.suits(_value(config, use.by))
    )


def _of_one_task(config: Config) -> Iterator[Finding]:
    for use in _broken(config):
        for key in use.keys:
            value = _value(config, key)
            if value not in (None, _OFF.get(key)) and value != _default(config, key):
                needs = use.needs if use.needs.startswith("a task ") else f"{use.by} {use.needs}"
                yield Finding(
                    key,
                    use.by,
                    f"{key} {_plain(value)} has no effect with {use.by} {_plain(_value(config, use.by))}",
                    needs,
                    f"leave {key} at {_plain(_default(config, key))}",
                )


def _of_joint_run(config: Config) -> Iterator[Finding]:
    for section in _OF_TASKS:
        own, usual = getattr(config, section), type(config).model_fields[section].default
        for name in type(own).model_fields:
            key, value = f"{section}.{name}", getattr(own, name)
            if value != getattr(usual, name, value):
                yield Finding(
                    key,
                    "task",
                    f"{key} {_plain(value)} has no effect with task multitask: each of its "
                    f"tasks has its own section {section}",
                    f"tasks.NAME.{key}",
                    f"set it for {one_of(tuple(config.tasks))}",
                )
    for name, part in config.tasks.items():
        if part.search.rescorer:
            key = f"tasks.{name}.search.rescorer"
            yield Finding(
                key,
                "task",
                f"{key} {_plain(part.search.rescorer)} has no effect in a joint run, which does not rescore",
                "search.rescorer=RUN with `evaluate` or `predict`",
                f"leave {key} out",
            )


def _value(config: Config, key: str) -> Any:
    """The value of a dotted key; None where the section has no such key."""
    found: Any = config
    for name in key.split("."):
        found = getattr(found, name, None)
    return found


def _plain(value: Any) -> str:
    """A value as it is written in YAML.

    >>> _plain(True), _plain(0.5), _plain(""), _plain(())
    ('true', '0.5', "''", '[]')
    """
    value = list(value) if isinstance(value, tuple) else value
    return str(value).lower() if isinstance(value, bool) else truncate(str(value)) or "''"
