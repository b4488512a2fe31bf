"""A task with the options of a configuration."""

from __future__ import annotations

from seq2seq_suite.config.schema import Config
from seq2seq_suite.metrics import find_metric
from seq2seq_suite.tasks import find_task
from seq2seq_suite.tasks.base import Task


def open_task(name: str, config: Config | None = None) -> Task:
    """A task by its name, with the options of `config` or its defaults; raises ConfigError as `find_task` does."""
    if config is None:
        from seq2seq_suite.config.schema import Config

        find_task(name)
        config = Config(task=name)
    sections = (getattr(config, section) for section in config.own_sections)
    # Those tasks alone that are to see the rich world: tasks of users need not know of it.
    world = {"world": config.miniworld} if config.miniworld.world == "rich" else {}
    task = find_task(name)(
        *sections,
        data=config.data,
        seed=config.seed,
        **world,
        pieces_from=config.init_from if "frontend" in config.init_parts else "",
    )
    task.metrics = tuple(map(find_metric, config.metrics))
    return task
