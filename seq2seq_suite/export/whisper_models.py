"""A run of an imported Whisper as a folder of `WhisperForConditionalGeneration`: the way back of `imports.whisper`.

Whisper has no bias of the output: a run that has learned one is refused. `backbone.lora` leaves it at 0, and so does
`training.freeze` of "model.output.bias". Nor have its keys biases, which change no attention: they are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.files import to_json
from seq2seq_suite.common.types import BEGIN, END, PAD
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.audio import RATE
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.export.compatibility import REMEDY, check_plain, tensors, write_folder
from seq2seq_suite.export.imported_models import imported_pieces, layers_of, numbers_of, symbols_of
from seq2seq_suite.export.transformers_models import NAME, shape_of
from seq2seq_suite.model.variants.whisper_frontend import FRAMES, halved_sinusoids
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.sound import Sounds

ENDS = {"first": "conv1", "second": "conv2"}  # of the front-end: ours -> theirs
_KNOWN = {
    "positions": ("learned",),
    "norm_placement": ("pre",),
    "scale_embeddings": (False,),
    "tie_embeddings": (True,),
}
_PROGRAM = f"{NAME}' Whisper"
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


def fits(config: Config) -> bool:
    """Whether a run has what Whisper alone has."""
    return getattr(_audio(config), "frontend", "") == "whisper"


def _audio(config: Config) -> Any:
    """How sound is read; None of another task."""
    return getattr(config, "audio", None)


def check(config: Config, task: Task, directory: Path) -> None:
    """Raises ConfigError for a run that has other parts than Whisper, or pieces that `import` did not bring in."""
    check_plain(config, task, directory, program=_PROGRAM, more=_KNOWN, reads=Sounds)
    imported_pieces(task.target, directory, _PROGRAM)
    audio = _audio(config)
    for key, value in (
        ("audio.level", audio.level),
        ("audio.pad_seconds", audio.pad_seconds),
        ("search.ctc_weight", config.search.ctc_weight),
    ):
        if value:
            raise ConfigError(
                f"{_PROGRAM} cannot express {key} {str(value).lower()}",
                file=str(directory),
                expected="sound that is read as Whisper reads it, and a search by the decoder alone",
                remedy=REMEDY,
            )


def write(run: LoadedRun, folder: Path) -> list[str]:
    """Write weights, configurations, tokenizer and feature extractor; returns the files' names.

    Raises:
        ConfigError: the output has a bias.
    """
    pieces, ours = imported_pieces(run.task.target, folder, _PROGRAM), tensors(run.predictor.model)
    backbone, bins = run.config.backbone, _audio(run.config).bins
    symbols = symbols_of(pieces, ours, _PROGRAM)
    if ours["output.bias"][symbols].any():
        raise ConfigError(
            f"{_PROGRAM} has no bias of the output, but output.bias has learned",
            expected="a bias that is 0, as an imported one is",
            remedy='train with backbone.lora, or with training.freeze=["model.output.bias"], or use --to hub-folder',
        )
    numbers = numbers_of(pieces, symbols)
    special = {
        "pad_token_id": numbers[PAD],
        "bos_token_id": numbers[END],
        "eos_token_id": numbers[END],
        "decoder_start_token_id": numbers[BEGIN],
    }
    end, prompt = pieces.their_name(END), _prompt(pieces)
    files = {
        "config.json": {
            **shape_of(backbone, "whisper", "WhisperForConditionalGeneration"),
            "vocab_size": len(symbols),
            "num_mel_bins": bins,
            "max_source_positions": FRAMES // 2,
            "max_target_positions": backbone.max_positions,
            "begin_suppress_tokens": None,  # they are in generation_config.json
            **special,
        },
        "generation_config.json": {**special, **_generation(run.config, pieces, numbers), **prompt},
        "preprocessor_config.json": {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            "feature_size": bins,
            "sampling_rate": RATE,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            "processor_class": "WhisperProcessor",
            **{f"{name}_token": end for name in ("pad", "bos", "eos", "unk")},
            **prompt,
            "predict_timestamps": False,
        },
        "tokenizer.json": pieces.content.encode(),
    }
    weights = {
        "model.encoder.embed_positions.weight": halved_sinusoids(FRAMES // 2, backbone.width),
        "model.decoder.embed_tokens.weight": ours["embedding.weight"][symbols],
        "model.decoder.embed_positions.weight": ours["positions.table"],
        **{name: one for name, one in layers_of(ours, backbone).items() if not name.endswith(".k_proj.bias")},
    }
    for part, theirs in ENDS.items():
        for kind in ("weight", "bias"):
            weights[f"model.encoder.{theirs}.{kind}"] = ours[f"frontend.{part}.{kind}"]
    return write_folder(folder, files, weights)


def _prompt(pieces: ImportedTokenizer) -> dict[str, str]:
    """The language and the task that outputs begin with; none of a model of English alone."""
    if len(pieces.before) < 2:
        return {}
    language, task, *_ = map(pieces.their_name, pieces.before)
    return {"language": language.strip("<|>"), "task": task.strip("<|>")}


def _generation(config: Config, pieces: ImportedTokenizer, numbers: list[int]) -> dict[str, Any]:
    """How `generate` searches."""
    names = {pieces.their_name(symbol): number for symbol, number in enumerate(numbers)}
    found: dict[str, Any] = {
        "num_beams": config.search.beam_size,
        "max_length": config.backbone.max_positions,
        "is_multilingual": len(pieces.before) > 1,
        "no_timestamps_token_id": numbers[pieces.before[-1]],
        "return_timestamps": False,
        "suppress_tokens": sorted({numbers[symbol] for symbol in (BEGIN, *config.search.suppress)}),
        "begin_suppress_tokens": sorted(numbers[symbol] for symbol in config.search.begin_suppress) or None,
    }
    if found["is_multilingual"]:
        found["lang_to_id"] = {name: number for name, number in names.items() if _LANGUAGE.fullmatch(name)}
        found["task_to_id"] = {name: names[f"<|{name}|>"] for name in ("transcribe", "translate")}
    return found


def example(task: Task, text: str) -> str:
    """How to use the folder."""
    return f"""import sys

sys.modules["torchaudio"] = None  # one that was made for CUDA fails beside a CPU's PyTorch
import soundfile
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

folder = "path/to/this/folder"
processor, model = AutoProcessor.from_pretrained(folder), AutoModelForSpeechSeq2Seq.from_pretrained(folder)
samples, rate = soundfile.read({to_json(text)})  # one channel of {RATE:,} Hz
features = processor(samples, sampling_rate=rate, return_tensors="pt").input_features
print(processor.batch_decode(model.generate(features), skip_special_tokens=True)[0])"""
