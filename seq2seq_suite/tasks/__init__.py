"""Task adapters: data, symbols, constraint and metric of each task, behind one interface (`types.Task`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from seq2seq_suite.types import ConfigError, Task

if TYPE_CHECKING:
    from seq2seq_suite.config import Config

TASKS = ("parsing", "translation", "qa", "multilabel", "asr", "speech_translation", "detection", "language_model")


def open_task(name: str, config: Config | None = None) -> Task:
    """A task by its name, with the options of `config` or its defaults.

    Raises:
        ConfigError: there is no such task.
    """
    from seq2seq_suite.config import Config
    from seq2seq_suite.tasks.asr import SpeechRecognitionTask
    from seq2seq_suite.tasks.detection.task import DetectionTask
    from seq2seq_suite.tasks.language_model import LanguageModelTask
    from seq2seq_suite.tasks.multilabel.task import MultilabelTask
    from seq2seq_suite.tasks.parsing.task import ParsingTask
    from seq2seq_suite.tasks.qa.task import QuestionAnsweringTask
    from seq2seq_suite.tasks.speech_translation import SpeechTranslationTask
    from seq2seq_suite.tasks.translation import TranslationTask

    if name not in TASKS:
        near = get_close_matches(name, TASKS, n=1)
        raise ConfigError(f"unknown task '{name}'", expected=f"one of {', '.join(TASKS)}",
                          remedy=f"did you mean {near[0]}?" if near else "choose one of these")
    config = config if config is not None else Config.model_validate({"task": name})
    pieces_from = config.init_from if "frontend" in config.init_parts else ""
    match name:
        case "parsing":
            return ParsingTask(config.parsing, config.data)
        case "translation":
            return TranslationTask(config.translation, config.data, seed=config.seed, pieces_from=pieces_from)
        case "qa":
            return QuestionAnsweringTask(config.qa, config.data, pieces_from=pieces_from)
        case "multilabel":
            return MultilabelTask(config.multilabel, config.data, pieces_from=pieces_from)
        case "asr":
            return SpeechRecognitionTask(config.asr, config.audio, config.data, seed=config.seed)
        case "speech_translation":
            return SpeechTranslationTask(config.speech_translation, config.audio, config.data, seed=config.seed)
        case "detection":
            return DetectionTask(config.detection, config.data, seed=config.seed)
        case "language_model":
            return LanguageModelTask(config.language_model, config.data)
    raise AssertionError(name)
