"""Marian's models of translation, such as the thousand of OPUS-MT.

Source: Junczys-Dowmunt et al. 2018 (Marian); Tiedemann & Thottingal 2020 (OPUS-MT). They are the Transformer of Vaswani
et al. 2017 with norms behind the sub-layers, swish, embeddings scaled by sqrt(D) and a bias of the logits. Their
positions have all sines before all cosines: features are renumbered, as in `export.transformers_models`. The decoder
begins with padding, whose row becomes that of BEGIN, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.types import UNLIKELY
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.subwords import ImportedPieces
from seq2seq_suite.export.transformers_models import KINDS, feature_order, modules
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.text import IMPORTED, bias_of, numbered, room
from seq2seq_suite.model.positions import sinusoids

ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}  # their names -> ours
_SHARED, _POSITIONS = "model.shared.weight", "model.{}.embed_positions.weight"


def backbone_of(checkpoint: Checkpoint, positions: str = "max_position_embeddings") -> dict[str, Any]:
    """Keys of `backbone` that configurations of Marian's, BART's and Whisper's kind name alike, but for `positions`.

    Raises:
        DataError: one is missing, or the suite does not have it.
    """
    value, config, keys = (
        checkpoint.value,
        checkpoint.config,
        {"feed_forward_width": "ffn_dim", "num_heads": "attention_heads"},
    )
    if value("activation_function", str) not in ACTIVATIONS:
        raise checkpoint.refusal(
            f"activation_function is {value('activation_function', str)}", " or ".join(ACTIVATIONS)
        )
    for name in keys.values():
        both = [value(f"{side}_{name}") for side in ("encoder", "decoder")]
        if both[0] != both[1]:
            raise checkpoint.refusal(f"{name} are {both[0]} in the encoder and {both[1]} in the decoder", "equal ones")
    return {
        "width": value("d_model"),
        **{key: value(f"encoder_{name}") for key, name in keys.items()},
        "encoder_layers": value("encoder_layers"),
        "decoder_layers": value("decoder_layers"),
        "dropout": float(config.get("dropout", 0.0)),
        "attention_dropout": float(config.get("attention_dropout", 0.0)),
        "activation": ACTIVATIONS[value("activation_function", str)],
        "max_positions": value(positions),
    }


class Marian:
    """A folder of `MarianMTModel` and `MarianTokenizer`; see `families.Family`.

    Args:
        checkpoint: the folder.

    Raises:
        DataError: it has parts that the suite does not have, or another tokenizer.
    """

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint = checkpoint
        self.backbone = backbone_of(checkpoint)
        if not checkpoint.config.get("scale_embedding"):
            raise checkpoint.refusal("scale_embedding is false", "embeddings that are scaled by sqrt(d_model)")
        self.width, self.tied = checkpoint.value("d_model"), bool(checkpoint.config.get("tie_word_embeddings", True))
        self.layers = {stack: checkpoint.value(f"{stack}_layers") for stack in ("encoder", "decoder")}
        tokenizer = checkpoint.read("tokenizer_config.json", optional=True)
        said = tokenizer.get("tokenizer_class", "MarianTokenizer")
        if said != "MarianTokenizer":
            raise checkpoint.refusal(f"the tokenizer is {said}", "MarianTokenizer", file="tokenizer_config.json")
        separate = bool(tokenizer.get("separate_vocabs"))
        self._embed(separate)
        unknown = str(tokenizer.get("unk_token", "<unk>"))
        self.source, self.source_rows = self._side("source", "vocab.json", unknown, len(self.embeddings[0]))
        self.target, self.target_rows = self._side(
            "target", "target_vocab.json" if separate else "vocab.json", unknown, len(self.embeddings[1])
        )
        self.settings = self._settings(tokenizer)

    def _embed(self, separate: bool) -> None:
        """Take the embeddings (V,D) of both sides and the bias (V,), and find whether both are one matrix."""
        weights, config = self.checkpoint.weights, self.checkpoint.config
        size = self.checkpoint.value("vocab_size")
        shared = bool(config.get("share_encoder_decoder_embeddings", True))
        sizes = (size, size if shared else config.get("decoder_vocab_size") or size)
        names = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
        self.embeddings = source, target = tuple(
            weights.take(name if name in weights else _SHARED, (rows, self.width))
            for name, rows in zip(names, sizes, strict=True)
        )
        weights.take_copy(_SHARED, source, target)
        self.bias = weights.take("final_logits_bias", (1, sizes[1]))[0]
        self.joint = not separate and torch.equal(source, target)
        self.output = target
        if "lm_head.weight" in weights and not self.tied:
            self.output = weights.take("lm_head.weight", tuple(target.shape))
            self.tied = torch.equal(self.output, target)
        weights.take_copy("lm_head.weight", self.output)

    def _side(self, side: str, file: str, unknown: str, size: int) -> tuple[ImportedPieces, list[int]]:
        """The pieces of a side, and their number of each of ours."""
        given = self.checkpoint.read(file)
        names = {number: name for name, number in given.items() if type(number) is int and 0 <= number < size}
        keys = ("pad_token_id", "decoder_start_token_id", "eos_token_id")
        specials = [*map(self.checkpoint.value, keys), given.get(unknown, -1)]
        unnamed = sorted({*range(size)} - names.keys() - {*specials})
        possible = bool(unnamed) and (side == "target" or self.joint) and self.bias[unnamed].max() > UNLIKELY
        if len(names) < len(given) or not {*specials} <= {*range(size)} or possible:
            raise self.checkpoint.refusal(
                f"{len(given)} pieces for {size} rows of the embedding",
                f"the vocabulary of this model: {unknown}, and a piece for each row",
                file=file,
            )
        return numbered(self.checkpoint, f"{side}.spm", names, specials)

    def _settings(self, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
        config = self.checkpoint.config
        generation = self.checkpoint.read("generation_config.json", optional=True)
        beams, limits = (
            generation.get("num_beams") or config.get("num_beams") or 1,
            room(self.backbone["max_positions"]),
        )
        languages = [tokenizer.get(key) for key in ("source_lang", "target_lang")]
        source, target = languages if all(languages) and languages[0] != languages[1] else ("source", "target")
        return {
            "task": "translation",
            **limits,
            "search": {"beam_size": beams, **limits["search"]},
            "translation": {
                "source_language": source,
                "target_language": target,
                **IMPORTED,
                "joint": self.joint,
                "vocabulary_size": len(self.target),
            },
            "backbone": {
                **self.backbone,
                "norm_placement": "post",
                "positions": "sinusoidal",
                "tie_embeddings": self.tied,
            },
        }

    def pieces(self, config: Config) -> dict[str, ImportedPieces]:
        """See `families.Family`."""
        return {"source": self.source, "target": self.target}

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """See `families.Family`."""
        weights, order = self.checkpoint.weights, feature_order(self.width)
        back = order.argsort()  # their feature for each of ours
        source, target = self.embeddings
        for name, matrix, rows in (
            ("frontend.embedding.weight", source, self.source_rows),
            ("embedding.weight", target, self.target_rows),
            ("output.weight", self.output, self.target_rows),
        ):
            yield name, matrix[torch.tensor(rows).unsqueeze(1), back]  # at once: each is a third of all weights
        yield "output.bias", bias_of(self.bias, self.target_rows)
        for module, name, axis in modules(self.layers):
            if module.rpartition(".")[2] in ("embedding", "positions"):
                continue
            for kind, their_kind in KINDS.items():
                if (shape := shapes.get(f"{module}.{kind}")) is not None:
                    tensor = weights.take(f"{name}.{their_kind}", shape)
                    yield f"{module}.{kind}", tensor.index_select(axis, back) if axis < tensor.dim() else tensor
        self._check_positions(order)

    def _check_positions(self, order: Tensor) -> None:
        """Take the tables of positions, which older files have; raises DataError if they are no sinusoids."""
        weights, size = self.checkpoint.weights, self.checkpoint.value("max_position_embeddings")
        for name in map(_POSITIONS.format, self.layers):
            if name in weights:
                difference = weights.take(name, (size, self.width)) - sinusoids(size, self.width)[:, order]
                if difference.abs().max() > 1e-3:
                    raise self.checkpoint.refusal(f"{name} has learned positions", "sinusoids", file="")
