"""T5 1.0 and 1.1, with Flan-T5 and others of their architecture.

Source: Raffel et al. 2020; for 1.1 Shazeer 2020 (GEGLU). They are pre-norm Transformers with RMSNorm, one learned bias
for each bucket of distances, and linear layers without biases.

Their scores are not divided by sqrt(E), nor are their embeddings multiplied by sqrt(D), as the suite's are: W^Q is
multiplied and the embedding divided once instead. T5 1.0 divides the decoder's output by sqrt(D) before a tied
projection, which is then the suite's. Biases are 0. Where H * E is smaller than D, as in the small models of 1.1,
further heads of zeros fill up the width: they add nothing, and their gradients are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.subwords import ImportedPieces
from seq2seq_suite.export.t5_models import ATTENTIONS, PARTS, POSITIONS
from seq2seq_suite.imports.checkpoint import Checkpoint
from seq2seq_suite.imports.text import IMPORTED, bias_of, numbered, pieces_of, room
from seq2seq_suite.model.variants.bucket_positions import BUCKETS, FARTHEST

ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu"}  # feed_forward_proj -> ours
_FIXED = {  # what the suite has of these alone
    "relative_attention_num_buckets": BUCKETS,
    "relative_attention_max_distance": FARTHEST,
    "layer_norm_epsilon": 1e-6,
}
_POSITIONS, _SHARED, _OUTPUT, _PIECES = 512, "shared.weight", "lm_head.weight", "spiece.model"
_NEVER_USED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"  # of the first files


class T5:
    """A folder of `T5ForConditionalGeneration` and `T5Tokenizer`; see `families.Family`.

    Args:
        checkpoint: the folder.

    Raises:
        DataError: it has parts that the suite does not have, or another tokenizer.
    """

    def __init__(self, checkpoint: Checkpoint):
        self.checkpoint, config, value = checkpoint, checkpoint.config, checkpoint.value
        for key, fixed in _FIXED.items():
            if config.get(key, fixed) != fixed:
                raise checkpoint.refusal(f"{key} is {config[key]}", str(fixed))
        network = str(config.get("feed_forward_proj", "relu"))  # files of T5 1.0 do not name it
        if network not in ACTIVATIONS:
            raise checkpoint.refusal(f"feed_forward_proj is {network}", " or ".join(ACTIVATIONS))
        self.activation = ACTIVATIONS[network]
        self.width, self.head, self.heads = value("d_model"), value("d_kv"), value("num_heads")
        if self.heads * self.head > self.width or self.width % self.head:
            raise checkpoint.refusal(
                f"{self.heads} heads of width {self.head}", f"heads that fill the width of {self.width} or less"
            )
        if self.activation == "geglu" and value("d_ff") % 8:
            raise checkpoint.refusal(f"d_ff is {value('d_ff')}", "a multiple of 8 for gated-gelu")
        self.layers = {"encoder": value("num_layers")}
        self.layers["decoder"] = config.get("num_decoder_layers") or self.layers["encoder"]
        self._embed()
        self._read_pieces()
        self.settings = self._settings()

    def _embed(self) -> None:
        """Take embedding and output (V,D), as the suite scales them, and find whether both are one matrix."""
        weights, config = self.checkpoint.weights, self.checkpoint.config
        shape = (self.checkpoint.value("vocab_size"), self.width)
        embedding = weights.take(_SHARED, shape)
        for side in self.layers:
            weights.take_copy(f"{side}.embed_tokens.weight", embedding)
        output = weights.take(_OUTPUT, shape) if _OUTPUT in weights else embedding
        scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
        self.tied = bool(scaled) and torch.equal(output, embedding)
        self.embedding = embedding / self.width**0.5
        self.output = (self.embedding if self.tied else output / self.width**0.5) if scaled else output

    def _read_pieces(self) -> None:
        checkpoint, size = self.checkpoint, self.checkpoint.value("vocab_size")
        said = str(checkpoint.read("tokenizer_config.json", optional=True).get("tokenizer_class", "T5Tokenizer"))
        if said.removesuffix("Fast") != "T5Tokenizer":
            raise checkpoint.refusal(f"the tokenizer is {said}", "T5Tokenizer", file="tokenizer_config.json")
        # SentencePiece's own numbers; behind them sentinels of pre-training, and rows for nothing.
        own = pieces_of(checkpoint, _PIECES)
        pad, end = checkpoint.value("pad_token_id"), checkpoint.value("eos_token_id")
        unknown = own.index("<unk>") if "<unk>" in own else -1
        if len(own) > size or unknown < 0 or own[end : end + 1] != ["</s>"]:
            raise checkpoint.refusal(
                f"{len(own)} pieces for {size} rows of the embedding", "the pieces of this model", file=_PIECES
            )
        names = dict(enumerate(own)) | {number: f"<extra_{number}>" for number in range(len(own), size)}
        begin = checkpoint.config.get("decoder_start_token_id", pad)
        self.source, self.rows = numbered(checkpoint, _PIECES, names, (pad, begin, end, unknown))
        self.target = self.source

    def _settings(self) -> dict[str, Any]:
        value, config = self.checkpoint.value, self.checkpoint.config
        inner = value("d_ff") * 3 // 2 if self.activation == "geglu" else value("d_ff")
        positions = 2 * config.get("n_positions", _POSITIONS)
        return {
            "task": "translation",
            **room(positions),
            "translation": {
                "source_language": "source",
                "target_language": "target",
                **IMPORTED,
                "joint": True,
                "vocabulary_size": len(self.target),
            },
            "backbone": {
                "width": self.width,
                "feed_forward_width": inner,
                "num_heads": self.width // self.head,
                "encoder_layers": self.layers["encoder"],
                "decoder_layers": self.layers["decoder"],
                "dropout": float(config.get("dropout_rate", 0.0)),
                "attention_dropout": float(config.get("dropout_rate", 0.0)),
                "activation": self.activation,
                "norm": "rms",
                "norm_placement": "pre",
                "positions": "t5",
                "max_positions": positions,
                "tie_embeddings": self.tied,
            },
        }

    def pieces(self, config: Config) -> dict[str, ImportedPieces]:
        """See `families.Family`."""
        return {"source": self.source, "target": self.target}

    def tensors(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """See `families.Family`."""
        for name, matrix in (
            ("frontend.embedding", self.embedding),
            ("embedding", self.embedding),
            ("output", self.output),
        ):
            yield f"{name}.weight", matrix[self.rows]
        yield "output.bias", bias_of(torch.zeros(len(self.output)), self.rows)
        take, width = self.checkpoint.weights.take, self.width
        for stack, count in self.layers.items():
            yield f"{stack}.norm.gain", take(f"{stack}.final_layer_norm.weight", (width,))
            for number in range(count):
                yield from self._layer(f"{stack}.layers.{number}", f"{stack}.block.{number}.layer", shapes)
            table = take(f"{stack}.{POSITIONS}", (BUCKETS, self.heads))
            yield (
                f"{stack}.layers.0.attention.positions.table",
                functional.pad(table, (0, width // self.head - self.heads)),
            )
        if _NEVER_USED in self.checkpoint.weights:
            take(_NEVER_USED, (BUCKETS, self.heads))

    def _layer(self, ours: str, theirs: str, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a layer."""
        take, width, inner = self.checkpoint.weights.take, self.width, self.heads * self.head
        here = [(name, *parts) for name, parts in ATTENTIONS.items() if f"{ours}.{name}.query.weight" in shapes]
        for number, (name, norm, their_name) in enumerate(here):
            yield f"{ours}.{norm}.gain", take(f"{theirs}.{number}.layer_norm.weight", (width,))
            for part, letter in PARTS.items():
                last = part == "output"
                tensor = take(
                    f"{theirs}.{number}.{their_name}.{letter}.weight", (width, inner) if last else (inner, width)
                )
                tensor = functional.pad(tensor, (0, width - inner) if last else (0, 0, 0, width - inner))
                yield f"{ours}.{name}.{part}.weight", tensor * self.head**0.5 if part == "query" else tensor
                yield f"{ours}.{name}.{part}.bias", torch.zeros(width)
        place, hidden = f"{theirs}.{len(here)}", self.checkpoint.value("d_ff")
        yield f"{ours}.feed_forward_norm.gain", take(f"{place}.layer_norm.weight", (width,))
        names = ("wi_0", "wi_1") if self.activation == "geglu" else ("wi",)
        matrices = [take(f"{place}.DenseReluDense.{name}.weight", (hidden, width)) for name in names]
        yield f"{ours}.feed_forward.inner.weight", torch.cat(matrices)
        yield f"{ours}.feed_forward.outer.weight", take(f"{place}.DenseReluDense.wo.weight", (width, hidden))
        for name in ("inner", "outer"):
            if (shape := shapes.get(f"{ours}.feed_forward.{name}.bias")) is not None:
                yield f"{ours}.feed_forward.{name}.bias", torch.zeros(shape)
