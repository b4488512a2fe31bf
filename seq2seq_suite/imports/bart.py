"""BART, for summaries, and mBART, mBART-50 among them, for translation.

Source: Lewis et al. 2020 (BART); Liu et al. 2020 (mBART); Tang et al. 2021 (mBART-50). They have learned positions, of
which the first two are never used, and a norm of the embeddings. BART's other norms are behind the sub-layers; mBART's
are in front of them, and at the ends of both stacks.

BART's decoder begins with </s>, whose row becomes that of BEGIN, too, and its texts with <s>. Those of mBART-50 begin
with the code of their language instead; mBART's own have it behind </s>, from where it comes round to the decoder's
first input: its row is BEGIN's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.export.bart_models import UNUSED_POSITIONS
from seq2seq_suite.export.transformers_models import KINDS, in_both
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.marian import backbone_of
from seq2seq_suite.imports.text import IMPORTED, around, bias_of, check_tokenizer, room, tokenizer_of

_OF_THE_LANGUAGE = ("source", "target")


class Bart:
    """A folder of `BartForConditionalGeneration` or `MBartForConditionalGeneration`; see `families.Family`.

    Args:
        checkpoint: the folder.

    Raises:
        DataError: it has parts that the suite does not have, or another tokenizer.
    """

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint, self.backbone = checkpoint, backbone_of(checkpoint)
        self.generation = {**checkpoint.config, **checkpoint.read("generation_config.json", optional=True)}
        self.prefix = "model." if "model.shared.weight" in checkpoint.weights else ""  # none in the first files
        self._embed()
        self.tokenizer = tokenizer_of(checkpoint)
        check_tokenizer(checkpoint, self.tokenizer, self.size)
        self.codes: dict[str, int] = getattr(self.tokenizer, "lang_code_to_id", {})
        self.settings = self._settings()

    def _embed(self) -> None:
        """Take the matrix of embeddings (V,D), that of the output, which may be the same, and the bias (V,)."""
        weights = self.checkpoint.weights
        self.size = self.checkpoint.value("vocab_size")
        shape = (self.size, self.backbone["width"])
        self.embedding = self.output = weights.take(f"{self.prefix}shared.weight", shape)
        for stack in ("encoder", "decoder"):
            weights.take_copy(f"{self.prefix}{stack}.embed_tokens.weight", self.embedding)
        if self.checkpoint.config.get("tie_word_embeddings") is False and "lm_head.weight" in weights:
            self.output = weights.take("lm_head.weight", shape)
        weights.take_copy("lm_head.weight", self.output)
        self.bias, name = torch.zeros(self.size), "final_logits_bias"
        if name in weights:
            self.bias = weights.take(name, (1, self.size))[0]

    def _settings(self) -> dict[str, Any]:
        config, said, positions = self.checkpoint.config, self.generation, self.backbone["max_positions"]
        search = {"beam_size": said.get("num_beams") or 1, "no_repeat_ngram": said.get("no_repeat_ngram_size") or 0}
        multilingual = config["model_type"] == "mbart"
        return {
            **(self._translation(search, positions) if self.codes else self._summaries(search, positions)),
            "backbone": {
                **self.backbone,
                "norm_placement": "pre" if multilingual else "post",
                "positions": "learned",
                "embedding_norm": True,
                "scale_embeddings": bool(config.get("scale_embedding")),
                "tie_embeddings": torch.equal(self.output, self.embedding),
            },
        }

    def _summaries(self, search: Mapping[str, Any], positions: int) -> dict[str, Any]:
        """Sources fill the positions; outputs are as long as the model's own searches allow, <s> and END included."""
        longest, least = self.generation.get("max_length"), self.generation.get("min_length") or 0
        own = {"max_length_factor": 0.8, "max_length_extra": min(20, positions // 8)}
        if isinstance(longest, int) and 20 < longest <= positions:  # 20 is what transformers sets where none is given
            own = {"max_length_factor": 1e-6, "max_length_extra": longest - 2}
        return {
            "task": "summarisation",
            "data": {"max_length": positions - 2},
            "search": {**search, **own, "min_length": max(0, least - 1)},
            "summarisation": {"subwords": "imported", "vocabulary_size": self.size + 1},
        }

    def _translation(self, search: Mapping[str, Any], positions: int) -> dict[str, Any]:
        names = {number: code for code, number in self.codes.items()}
        limits, given = room(positions - 1), self.generation  # a code begins each output
        numbers = (given.get("forced_bos_token_id"), given.get("decoder_start_token_id"))
        target = next((names[number] for number in numbers if number in names), self.tokenizer.tgt_lang or "target")
        source = self.tokenizer.src_lang or target
        return {
            "task": "translation",
            **limits,
            "search": {**search, **limits["search"]},
            "translation": {
                "source_language": source if source != target else "source",
                "target_language": target,
                **IMPORTED,
                "joint": True,
                "vocabulary_size": self.size + 1,
            },
        }

    def pieces(self, config: Config) -> dict[str, ImportedTokenizer]:
        """See `families.Family`."""
        tokenizer, value, frames = self.tokenizer, self.checkpoint.value, [around(self.tokenizer)] * 2
        start = self.generation.get("decoder_start_token_id", value("eos_token_id"))
        if self.codes:
            source, target = (self._language(side, config) for side in _OF_THE_LANGUAGE)
            tokenizer.set_src_lang_special_tokens(source)
            frames[0] = around(tokenizer)
            tokenizer.set_tgt_lang_special_tokens(target)
            frames[1] = around(tokenizer)
            if not frames[1][0]:
                start = self.codes[target]
        unknown = tokenizer.pad_token_id if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        specials, content = (
            (value("pad_token_id"), start, value("eos_token_id"), unknown),
            tokenizer.backend_tokenizer.to_str(),
        )
        source, target = (
            ImportedTokenizer(content, specials, self.size, before=before, after=after) for before, after in frames
        )
        self.rows = target.rows
        return {"source": source, "target": target}

    def _language(self, side: str, config: Config) -> str:
        """The code of a side's language; raises ConfigError if the model has none of this name."""
        key, code = f"translation.{side}_language", getattr(config.options, f"{side}_language")
        if code not in self.codes:
            raise ConfigError(
                f"{key} is {code}",
                file=COMMAND_LINE,
                expected=f"one of the model's languages, {', '.join(sorted(self.codes))}",
                remedy=f"add it, as in {key}={min(self.codes)}",
            )
        return code

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """See `families.Family`."""
        weights, width = self.checkpoint.weights, self.backbone["width"]
        yield "frontend.embedding.weight", self.embedding[self.rows]
        yield "embedding.weight", self.embedding[self.rows]
        yield "output.weight", self.output[self.rows]
        yield "output.bias", bias_of(self.bias, self.rows)
        for stack, ours in (("encoder", "frontend."), ("decoder", "")):
            theirs = f"{self.prefix}{stack}"
            shape = (self.backbone["max_positions"] + UNUSED_POSITIONS, width)
            table = weights.take(f"{theirs}.embed_positions.weight", shape)
            yield f"{ours}positions.positions.table", table[UNUSED_POSITIONS:]
            for kind in ("gain", "bias"):
                yield (
                    f"{ours}positions.norm.{kind}",
                    weights.take(f"{theirs}.layernorm_embedding.{KINDS[kind]}", (width,)),
                )
            if f"{theirs}.version" in weights:  # of the program that converted it
                weights.take(f"{theirs}.version", (1,))
        layers = {stack: self.backbone[f"{stack}_layers"] for stack in ("encoder", "decoder")}
        for name, theirs in in_both(shapes, layers):
            yield name, weights.take(f"{self.prefix}{theirs.removeprefix('model.')}", shapes[name])
