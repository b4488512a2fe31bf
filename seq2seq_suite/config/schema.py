"""The configuration of a run: the keys of a YAML file.

It has the core's sections and those of its task (`tasks.TASKS`). Every key has one meaning and one default. Named
sizes fill the backbone's fields, so that the resolved copy in the run directory has plain numbers. `config_file`
reads files and overrides.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, cast

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    SerializeAsAny,
    create_model,
    model_validator,
)

from seq2seq_suite.common.errors import truncate
from seq2seq_suite.common.user_code import is_code, named_code
from seq2seq_suite.config.unused_keys import check_uses
from seq2seq_suite.data.formats import READERS, is_format
from seq2seq_suite.kernels import SLOTS
from seq2seq_suite.metrics import METRICS
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.options.data import Data
from seq2seq_suite.options.miniworld import Miniworld
from seq2seq_suite.options.search import Search
from seq2seq_suite.options.section import (
    Code,
    NotNegative,
    PositiveFloat,
    Section,
    name_or_code,
    one_of,
)
from seq2seq_suite.options.training import Mixture, Training, optimizer_of
from seq2seq_suite.strategies import KINDS, classes_of, options_of, strategy_for, targets_of
from seq2seq_suite.tasks import TASKS, find_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from seq2seq_suite.options.strategies import StrategyOptions as Strategy
    from seq2seq_suite.strategies.base import Strategy as StrategyBase
    from seq2seq_suite.tasks.options import TaskOptions

    TaskName = MetricName = str
else:
    Strategy = Annotated[Union[tuple(map(options_of, KINDS))], Field(discriminator="kind")]  # noqa: UP007
    TaskName = Literal[*TASKS, "multitask"]
    MetricName = name_or_code(METRICS)

Part = Literal["frontend", "encoder", "decoder", "ctc", "language", "all"]
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # torch's range

SHARED = ("seed", "device", "kernels", "components", "backbone", "training")  # what a joint run gives its tasks


class Config(Section):
    """A whole run. Constructing one gives the class of its task, see `class_for`."""

    own_sections: ClassVar[tuple[str, ...]] = ()  # the task's, the one of its name first
    own_strategy: ClassVar[type[StrategyBase] | None] = None  # the user's, which strategy.kind names

    task: TaskName  # or FILE.py:NAME, a task of yours; the path is relative to this YAML, and the
    # file's code is run
    tasks: dict[str, SerializeAsAny[Config]] = {}  # of a joint run (task: multitask): name -> the task's
    # own keys; `yaml` names a file with the rest; seed, device, backbone and training are the joint run's
    task_weight: PositiveFloat = 1.0  # weight of this task's loss in a joint run
    task_share: PositiveFloat = 1.0  # factor on this task's share of a joint run's batches
    task_batch_tokens: NotNegative = 0  # of this task's batches in a joint run; 0 is training.batch_tokens
    mixture: Mixture = Mixture()
    seed: Seed = 1  # of weights, dropout, batches and samples
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    kernels: Literal["fast", "plain"] = "fast"  # plain: the readable code of model/ and strategies/;
    # fast: its faster twins in kernels/
    components: dict[str, Code] = {}  # slot of kernels/ -> FILE.py:NAME, your function or class for it; the
    # file's path is relative to this YAML, and its code is run
    init_from: str = ""  # directory of another run, whose best weights some parts start from; empty: none
    init_parts: tuple[Part, ...] = ("frontend", "encoder")  # all: every weight, and the vocabulary, of a run of the
    # same task; for translation, the front-end includes its subwords
    metrics: tuple[MetricName, ...] = ()  # beside the task's own: bleu, error_rates, rouge, or FILE.py:NAME, a
    # function of yours from outputs and references, lists of lines, to figures by name
    data: Data = Data()
    miniworld: Miniworld = Miniworld()
    backbone: Backbone = Field(default_factory=lambda: Backbone.model_validate({}))
    strategy: Strategy = options_of("autoregressive").model_validate({})  # its kind may be FILE.py:NAME, a strategy
    # of yours
    search: Search = Search()
    training: Training = Training()

    def __new__(cls, **given: Any) -> Config:
        return object.__new__(class_for(given) if cls is Config else cls)

    def __reduce__(self) -> tuple[Any, ...]:
        return Config.model_validate, (self.model_dump(),)  # its class is made here, and has no name in this module

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_task(cls, given: Any, make: ModelWrapValidatorHandler[Config]) -> Config:
        kind = class_for(given) if cls is Config and isinstance(given, dict) else Config
        return make(given) if kind is Config else kind.model_validate(given)

    @property
    def options(self) -> TaskOptions:
        """The task's own section."""
        return getattr(self, self.own_sections[0])

    @property
    def code(self) -> dict[str, str]:
        """What is code of the user's own: dotted key -> `FILE.py:NAME`."""
        return {".".join(keys): section[place] for keys, section, place in named_code(self.model_dump())}

    @property
    def strategy_class(self) -> type[StrategyBase]:
        """What learns and decodes the task's targets; not defined for a joint run."""
        return self.own_strategy or strategy_for(self.strategy.kind, self.target)

    @property
    def in_parallel(self) -> bool:
        """Whether all symbols are predicted in parallel; not defined for a joint run."""
        return self.strategy_class.in_parallel

    @property
    def target(self) -> str:
        """What the task's outputs are, see `TaskOptions.target`; not defined for a joint run."""
        return {"trees": "structures", "tags": "structures"}.get(self.options.target, self.options.target)  # of 0.1.0

    @model_validator(mode="before")
    @classmethod
    def _share_the_core(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("tasks"), dict):
            return given
        shared = {key: given[key] for key in SHARED if key in given}
        return {
            **given,
            "tasks": {
                name: {**{key: value for key, value in part.items() if key not in SHARED}, **_fitted(shared, part)}
                if isinstance(part, dict)
                else part
                for name, part in given["tasks"].items()
            },
        }

    @model_validator(mode="before")
    @classmethod
    def _left_to_right_by_default(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("strategy"), dict):
            return {**given, "strategy": {"kind": "autoregressive", **given["strategy"]}}
        return given

    @model_validator(mode="after")
    def _goes_together(self) -> Config:
        self._check_names()
        self._check_tasks()
        self._check_shards()
        self._check_lora()
        if self.task != "multitask":
            self._check_strategy()
            self._check_positions()
        check_uses(self)
        return self

    def _check_names(self) -> None:
        if not is_format(self.data.format):
            raise ValueError(
                f"data.format {truncate(self.data.format)}: choose one of "
                f"{one_of(tuple(name[1:] for name in READERS))}, or give FILE.py:NAME"
            )
        for slot in self.components:
            if slot not in SLOTS:
                raise ValueError(
                    f"components.{truncate(slot)}: there is no such slot: choose one of {', '.join(SLOTS)}"
                )

    def _check_tasks(self) -> None:
        if (self.task == "multitask") != bool(self.tasks):
            raise ValueError("task multitask trains the tasks listed under tasks: give both, or neither")
        if self.tasks and self.metrics:
            raise ValueError("metrics: a joint run has those of its tasks: give them as tasks.NAME.metrics")
        if self.tasks and self.init_from:
            raise ValueError("init_from: a joint run starts from fresh weights; other runs may start from its tasks")
        for name, part in self.tasks.items():
            if part.task in ("multitask", "language_model") or not name.isidentifier():
                raise ValueError(
                    f"tasks.{truncate(name)} has task {part.task}: a joint run needs tasks with a source "
                    "and names of letters, digits and _"
                )

    def _check_lora(self) -> None:
        rank = self.backbone.lora.rank
        if rank and self.task == "multitask":
            raise ValueError(f"backbone.lora.rank {rank}: a joint run starts from fresh weights: set it to 0")
        if rank and not self.init_from:
            raise ValueError(
                f"backbone.lora.rank {rank} changes the weights of another run, but init_from names none: set "
                "init_from, and init_parts=[all] for a run of the same task"
            )

    def _check_shards(self) -> None:
        backbone, training = self.backbone, self.training
        # A pointer is weighed by a single number, which cannot be divided.
        points = self.task == "multilabel" and getattr(self.options, "pointer", False)
        without = optimizer_of(training.optimizer).without
        for key, value, wrong in (
            ("training.optimizer", training.optimizer, "training.shard" in without),
            ("multilabel.pointer", "true", points),
            ("backbone.lora.rank", backbone.lora.rank, backbone.lora.rank),  # a changed layer's weight is computed
            ("task", "multitask", self.task == "multitask"),
            ("backbone.positions", "t5", backbone.positions == "t5"),  # all layers of a stack have one table
            ("backbone.encoder", "rnn", backbone.encoder == "rnn"),
            ("backbone.decoder", "rnn", backbone.decoder == "rnn"),
        ):
            if training.shard and wrong:
                raise ValueError(
                    f"training.shard does not go with {key} {value}: set it to false or choose another {key}"
                )

    def _check_strategy(self) -> None:
        kind = self.strategy.kind
        if self.target not in targets_of(kind):
            fitting = [one for one in KINDS if self.target in targets_of(one)]
            raise ValueError(
                f"strategy.kind {kind} writes {one_of(targets_of(kind))}; the outputs of task "
                f"{self.task} are {self.target}: choose strategy.kind {one_of(fitting)}"
            )
        for need in self.strategy.needs:
            value = reduce(getattr, need.key.split("."), self)
            if not need.suits(value):
                raise ValueError(
                    f"{need.key} {value} does not go with strategy.kind {kind}, which {need.why}: set {need.remedy}"
                )
        self.strategy.check(self)
        self.options.check(self)

    def _check_positions(self) -> None:
        if not self.options.numbered:
            return
        longest, sources = self.options.target_symbols(self), self.options.source_positions(self)
        read = sources if self.backbone.encoder == "none" else 0
        behind = f" behind a source of {read}" if read else ""
        decoded = self.strategy.most_positions(sources or self.data.max_length + 2) + 1
        needed = {
            f"an output may be {longest} symbols long{behind} (search.max_length_factor * data.max_length + "
            "search.max_length_extra)": longest + read,
            f"a source may have {sources} positions (data.max_length)": sources,
            f"the decoder may have {decoded} positions (strategy.factor * the source's length)": decoded,
        }
        for what, positions in needed.items():
            if positions > self.backbone.max_positions:
                raise ValueError(f"{what}, but backbone.max_positions is {self.backbone.max_positions}")


def _fitted(shared: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """What a joint run gives to one of its tasks, with the task's own batches; errors are reported later."""
    size, training = part.get("task_batch_tokens"), shared.get("training", {})
    if not isinstance(size, int) or size < 1 or not isinstance(training, dict):
        return shared
    return {**shared, "training": {**training, "batch_tokens": size}}


def class_for(given: Mapping[str, Any]) -> type[Config]:
    """The configurations of a task and, where it is the user's own, of a strategy; `Config` itself without a task.

    >>> class_for({"task": "asr"}).own_sections, Config(task="qa").qa.min_count
    (('asr', 'audio'), 1)
    """
    task, strategy = given.get("task"), given.get("strategy")
    kind = strategy.get("kind") if isinstance(strategy, dict) else getattr(strategy, "kind", None)
    if is_code(task):
        find_task(task)  # raises ConfigError if it is not trusted, also where its class was made before
    known = isinstance(task, str) and (task in TASKS or is_code(task))
    made = _made_of((task,)) if known else Config
    return _with_strategy(made, kind, *classes_of(kind)) if is_code(kind) else made


def of_any_task() -> type[Config]:
    """The sections of all tasks together: every key that a configuration may have."""
    return _made_of(tuple(TASKS))


@cache
def _made_of(tasks: tuple[str, ...]) -> type[Config]:
    sections = {name: section for task in tasks for name, section in find_task(task).sections.items()}
    fields: dict[str, Any] = {key: (section, Field(default_factory=section)) for key, section in sections.items()}
    made = create_model(f"Config_{tasks[0]}", __base__=Config, **{"task": (Literal[*tasks], ...), **fields})
    made.own_sections = tuple(sections)
    return made


@cache
def _with_strategy(config: type[Config], kind: str, strategy: type[StrategyBase]) -> type[Config]:
    fields: dict[str, Any] = {"kind": (Literal[kind], kind)}
    options = create_model(strategy.Options.__name__, __base__=strategy.Options, **fields)
    by_default = cast("Callable[[], Strategy]", options)  # it has a default for `kind`
    fields = {"strategy": (options, Field(default_factory=by_default))}
    made = create_model(config.__name__, __base__=config, **fields)
    made.own_strategy = strategy
    return made
