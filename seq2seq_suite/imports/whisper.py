"""Whisper, for speech recognition, and for translation of speech into English.

Source: Radford et al. 2023. It is a pre-norm Transformer with GELU, behind two convolutions over time; the encoder's
positions are sinusoids, the decoder's are learned, its embeddings are not scaled, and keys have no bias. Each output
begins with a prompt: the language, the task, and that there are no timestamps; models of English alone have the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.export.transformers_models import in_both
from seq2seq_suite.export.whisper_models import ENDS
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.marian import backbone_of
from seq2seq_suite.imports.text import around, bias_of, check_tokenizer, tokenizer_of
from seq2seq_suite.model.variants.whisper_frontend import FRAMES, halved_sinusoids

TASKS = {"asr": "transcribe", "speech_translation": "translate"}
_MULTILINGUAL = 51865  # symbols of those that read other languages than English


class Whisper:
    """A folder of `WhisperForConditionalGeneration` and `WhisperTokenizer`; see `families.Family`.

    Args:
        checkpoint: the folder.

    Raises:
        ConfigError: the task or the language that is asked for is not the model's.
        DataError: it has parts that the suite does not have, or another tokenizer.
    """

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint, value = checkpoint, checkpoint.value
        self.backbone = backbone_of(checkpoint, "max_target_positions")
        if value("max_source_positions") != FRAMES // 2:
            raise checkpoint.refusal(f"max_source_positions is {value('max_source_positions')}", str(FRAMES // 2))
        self.size, self.bins = value("vocab_size"), value("num_mel_bins")
        self.embedding = checkpoint.weights.take(
            "model.decoder.embed_tokens.weight", (self.size, self.backbone["width"])
        )
        checkpoint.weights.take_copy("proj_out.weight", self.embedding)
        self.tokenizer = tokenizer_of(checkpoint)
        check_tokenizer(checkpoint, self.tokenizer, self.size)
        self.generation = {**checkpoint.config, **checkpoint.read("generation_config.json", optional=True)}
        said = next((ours for ours, theirs in TASKS.items() if theirs == self.generation.get("task")), "asr")
        self.task = checkpoint.asked.pop("task", said)
        self.begins = self._prompt()
        self.target = self._target()
        self.settings = self._settings()

    def _prompt(self) -> list[int]:
        """The symbols with which each output begins, without the decoder's first input."""
        checkpoint, tokenizer = self.checkpoint, self.tokenizer
        if self.task not in TASKS:
            raise ConfigError(
                f"--task {self.task}", file=COMMAND_LINE, expected=" or ".join(TASKS), remedy="correct it"
            )
        chosen: dict[str, Any] = {"predict_timestamps": False}
        if self.generation.get("is_multilingual", self.size >= _MULTILINGUAL):
            said = str(self.generation.get("language") or "en").strip("<|>")
            language = checkpoint.asked.pop("language", said)
            chosen |= {"language": language, "task": TASKS[self.task]}
        elif self.task != "asr":
            raise checkpoint.refusal("a model of English alone, which translates nothing", "a multilingual one")
        try:
            tokenizer.set_prefix_tokens(**chosen)
        except (AttributeError, TypeError, ValueError) as problem:  # TypeError: of a code that it has no symbol for
            raise ConfigError(
                f"--language {chosen.get('language')}: {problem}",
                file=COMMAND_LINE,
                expected="a code such as en or de",
                remedy="correct it",
            ) from None
        start, *begins = around(tokenizer)[0]
        unknown = [number for number in (start, *begins) if not number < self.size]
        if start != checkpoint.value("decoder_start_token_id") or unknown:
            raise checkpoint.refusal(
                f"texts begin with {[start, *begins]}, the decoder with {checkpoint.value('decoder_start_token_id')}",
                "the tokenizer of this model",
                file="",
            )
        return begins

    def _settings(self) -> dict[str, Any]:
        positions = self.backbone["max_positions"]
        return {
            "task": self.task,
            "data": {"max_length": FRAMES},
            "search": {
                "max_length_factor": 1e-6,
                "max_length_extra": positions - len(self.begins),
                "suppress": self._suppressed("suppress_tokens"),
                "begin_suppress": self._suppressed("begin_suppress_tokens"),
            },
            self.task: {"subwords": "imported", "vocabulary_size": self.size + 4},
            "audio": {
                "frontend": "whisper",
                "bins": self.bins,
                "subsampling": 2,
                "frequency_bars": 0,
                "time_bars": 0,
            },
            "backbone": {
                **self.backbone,
                "norm_placement": "pre",
                "positions": "learned",
                "scale_embeddings": False,  # transformers' class has the key, but no use for it
                "tie_embeddings": True,
            },
        }

    def _suppressed(self, key: str) -> list[int]:
        """Our numbers of the symbols that generation_config.json excludes from outputs, where ours may have them."""
        ours = {**dict(zip(self.target.rows, range(len(self.target)), strict=True)), self.target.rows[END]: END}
        found = {ours[number] for number in self.generation.get(key) or () if number in ours}
        return sorted(found - {PAD, BEGIN, UNKNOWN})

    def pieces(self, config: Config) -> dict[str, ImportedTokenizer]:
        """See `families.Family`."""
        return {"target": self.target}

    def _target(self) -> ImportedTokenizer:
        tokenizer, value = self.tokenizer, self.checkpoint.value
        end = value("eos_token_id")
        unknown = end if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        specials = (value("pad_token_id"), value("decoder_start_token_id"), end, unknown)
        content = tokenizer.backend_tokenizer.to_str()
        return ImportedTokenizer(content, specials, self.size, before=self.begins, after=[end])

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """See `families.Family`."""
        weights, width = self.checkpoint.weights, self.backbone["width"]
        rows = self.target.rows
        yield "embedding.weight", self.embedding[rows]
        yield "output.weight", self.embedding[rows]
        yield "output.bias", bias_of(torch.zeros(self.size), rows)
        yield "positions.table", weights.take("model.decoder.embed_positions.weight", shapes["positions.table"])
        for ours, theirs in ENDS.items():
            for kind in ("weight", "bias"):
                name = f"frontend.{ours}.{kind}"
                yield name, weights.take(f"model.encoder.{theirs}.{kind}", shapes[name])
        self._check_positions()
        layers = {stack: self.backbone[f"{stack}_layers"] for stack in ("encoder", "decoder")}
        for name, theirs in in_both(shapes, layers):
            yield name, torch.zeros(width) if name.endswith(".key.bias") else weights.take(theirs, shapes[name])

    def _check_positions(self) -> None:
        """Take the encoder's table of positions, if it is there; raises DataError if it has no sinusoids."""
        weights, name, width = self.checkpoint.weights, "model.encoder.embed_positions.weight", self.backbone["width"]
        if name in weights:
            difference = weights.take(name, (FRAMES // 2, width)) - halved_sinusoids(FRAMES // 2, width)
            if difference.abs().max() > 1e-3:
                raise self.checkpoint.refusal(f"{name} has learned positions", "sinusoids", file="")
