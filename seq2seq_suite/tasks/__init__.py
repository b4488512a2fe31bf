"""Task adapters: data, symbols, constraint, metric and options of each task, behind one interface (`base.Task`)."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.lazy_imports import classes_in, exports
from seq2seq_suite.common.user_code import is_code, load_code
from seq2seq_suite.options.section import one_of

# The list of tasks, in which all else finds them: what a task is called, needs, reads and looks like is said by its
# class. Classes are imported when they are needed: commands do not wait for tasks that they do not use.
TASKS = {
    "parsing": "seq2seq_suite.tasks.parsing.task:ParsingTask",
    "translation": "seq2seq_suite.tasks.translation:TranslationTask",
    "qa": "seq2seq_suite.tasks.qa.task:QuestionAnsweringTask",
    "multilabel": "seq2seq_suite.tasks.multilabel.task:MultilabelTask",
    "asr": "seq2seq_suite.tasks.asr:SpeechRecognitionTask",
    "speech_translation": "seq2seq_suite.tasks.speech_translation:SpeechTranslationTask",
    "detection": "seq2seq_suite.tasks.detection.task:DetectionTask",
    "tagging": "seq2seq_suite.tasks.tagging.task:TaggingTask",
    "summarisation": "seq2seq_suite.tasks.summarisation:SummarisationTask",
    "language_model": "seq2seq_suite.tasks.language_model:LanguageModelTask",
}
__getattr__, __dir__ = exports(__name__, classes_in(Path(__file__).parent))


def find_task(name: str) -> Any:
    """The class of a task: a name of the list, or `FILE.py:NAME`, whose code is run.

    Raises:
        ConfigError: there is no such task.
    """
    if is_code(name):
        from seq2seq_suite.tasks.base import Task

        found = load_code(name, key="task")
        if not (isinstance(found, type) and issubclass(found, Task)):
            raise ConfigError(
                f"task: {name} is no task",
                expected="a subclass of seq2seq_suite.tasks.base.Task",
                remedy="see seq2seq_suite/tasks/README.md",
            )
        return found
    if name not in TASKS:
        near = get_close_matches(name, TASKS, n=1)
        raise ConfigError(
            f"unknown task '{name}'",
            expected=f"one of {', '.join(TASKS)}",
            remedy=f"did you mean {near[0]}?" if near else "choose one of these",
        )
    module, _, attribute = TASKS[name].partition(":")
    return getattr(import_module(module), attribute)


def tasks_with(attribute: str) -> str:
    """The tasks of the list whose class sets an attribute to true, in a sentence.

    >>> tasks_with("streams")
    'translation, summarisation or language_model'
    """
    return one_of([name for name in TASKS if getattr(find_task(name), attribute)])
