"""The shared core's options: sizes, norms, positions, kinds of encoders and decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from seq2seq_suite.common.parts import (
    ACTIVATIONS,
    ATTENTIONS,
    FEED_FORWARDS,
    NORMS,
    POSITIONS,
    RESIDUALS,
    TABLES,
    row_of,
)
from seq2seq_suite.common.user_code import is_code
from seq2seq_suite.options.section import (
    Few,
    FewOrNone,
    Fraction,
    NotNegative,
    NotNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    ShareOrNone,
    name_or_code,
    refuse_if,
)

# Vaswani et al. 2017, Table 3, rows "base" and "big"; `tiny` is Wu et al. 2021 (Multi30k), `small` is in between.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "width": 128,
        "feed_forward_width": 256,
        "num_heads": 4,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "dropout": 0.1,
    },
    "small": {
        "width": 256,
        "feed_forward_width": 1024,
        "num_heads": 4,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "dropout": 0.1,
    },
    "base": {
        "width": 512,
        "feed_forward_width": 2048,
        "num_heads": 8,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "dropout": 0.1,
    },
    "big": {
        "width": 1024,
        "feed_forward_width": 4096,
        "num_heads": 16,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "dropout": 0.3,
    },
}
SIZES |= {
    f"{size}_12_1": {**SIZES[size], "encoder_layers": 12, "decoder_layers": 1}  # deep encoder, shallow decoder:
    for size in ("tiny", "base")
}  # the autoregressive baseline of parallel decoders

MOST_PARAMETERS = 10**11  # 400 GB for the weights alone

LoraPart = Literal["query", "key", "value", "output", "feed_forward", "convolution"]

if TYPE_CHECKING:
    Norm = Residual = Positions = Activation = FeedForward = Attention = str
else:
    Norm = name_or_code(NORMS)
    Residual = name_or_code(RESIDUALS)
    Positions = name_or_code(POSITIONS)
    Activation = name_or_code(ACTIVATIONS)
    FeedForward = name_or_code(FEED_FORWARDS)
    Attention = name_or_code(ATTENTIONS)


class Lora(Section):
    """Low-rank changes to another run, whose weights stay: a matrix W becomes W + alpha / rank B A; B and A learn."""

    rank: FewOrNone = 0  # of B A; 0: no changes
    alpha: PositiveFloat = 16.0  # the change is scaled by alpha / rank
    parts: tuple[LoraPart, ...] = ("query", "value")  # which matrices: query, key, value and output of attentions,
    # feed_forward, and convolution: the two around each convolution of a layer


class Backbone(Section):
    """The shared core. `size` is the default of the keys that are not given.

    The keys norm, norm_placement, positions, activation, feed_forward and attention_score also take FILE.py:NAME, a
    class of yours with the arguments of the suite's own; the path is relative to this YAML, and the file's code is run.
    """

    size: Literal["tiny", "small", "base", "big", "tiny_12_1", "base_12_1"] = "small"
    width: Positive  # of the hidden states
    feed_forward_width: Positive  # hidden units of the feed-forward sublayers
    num_heads: Positive  # of each attention; they divide the width
    encoder_layers: Few  # blocks
    decoder_layers: Few  # blocks
    dropout: Fraction  # of embeddings and sublayer outputs
    attention_dropout: Fraction = 0.0  # of attention weights
    attention_score: Attention = "dot"  # of query and key; additive: v . tanh(q + k), slower
    activation: Activation = "relu"
    feed_forward: FeedForward = "dense"  # the position-wise network between attentions
    norm: Norm = "layer"
    norm_warmup: ShareOrNone = 0.1  # share of the training in which norm power uses the statistics of each batch
    norm_placement: Residual = "pre"
    positions: Positions = "sinusoidal"  # alibi: a penalty on
    # distance in each head; t5: a learned bias of each head for each bucket of distances; none: a bag of words
    max_positions: Positive = 2048  # longest sequence
    encoder: Literal["self_attention", "conv", "rnn", "none"] = "self_attention"  # conv: gated convolutions as in
    # ConvS2S; none: a decoder-only model reads the source, then predicts the target (GPT)
    encoder_kernel: FewOrNone = 0  # width of the convolution in each encoder layer; 0: none (self-attention)
    encoder_dilations: tuple[Few, ...] = (1,)  # of conv: dilation of each layer
    decoder_kernel: FewOrNone = 0  # the same in decoder layers, if decoding in parallel; 0: none
    decoder: Literal["transformer", "rnn"] = "transformer"  # rnn: with additive attention, as in RNNsearch
    cell: Literal["lstm", "gru"] = "lstm"  # of rnn encoders and decoders
    encoder_steps: Few = 1  # how often the encoder's layers are applied, with shared weights (Universal Transformer)
    decoder_steps: Few = 1  # how often the decoder's layers are applied, with shared weights
    experts: FewOrNone = 0  # feed-forward networks in each Transformer layer, a few for each position; 0: one for all
    experts_per_token: Few = 2  # how many each position uses, the most probable ones
    expert_capacity: PositiveFloat = 1.25  # most positions of an expert in training, as a multiple of an even share
    balance_weight: NotNegativeFloat = 0.01  # of the load-balance loss
    embedding_width: NotNegative = 0  # E below width: factorised embeddings (ALBERT); 0: none
    embedding_norm: bool = False  # h = Norm(embedding + position) goes into the first layer of either stack (BART)
    scale_embeddings: bool = True  # embeddings are multiplied by sqrt(width), Vaswani et al. 2017, section 3.4
    tie_embeddings: bool = True  # target embedding and output projection share their weights
    parameters: dict[str, dict[str, float | int | bool | str]] = {}  # of classes of yours: key of this section ->
    # keyword arguments, e.g. {norm: {gain: 2.0}}
    lora: Lora = Lora()
    source_tag: bool = False  # a learned vector added to the front-end's output, one for each task of a joint run

    @model_validator(mode="before")
    @classmethod
    def _fill_from_size(cls, given: Any) -> Any:
        return {**SIZES.get(str(given.get("size", "small")), {}), **given} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _is_possible(self) -> Backbone:
        attention, network = 4 * self.width**2, 2 * self.width * self.feed_forward_width * max(1, self.experts)
        kernels = self.encoder_layers * self.encoder_kernel + self.decoder_layers * self.decoder_kernel
        found = (
            self.encoder_layers * (attention + network)
            + self.decoder_layers * (2 * attention + network)
            + self.width * (kernels + self.max_positions)
        )
        recurrent, additive = self.decoder == "rnn", self.attention_score == "additive"
        own = {key: getattr(self, key) for key in TABLES}
        no_layers = recurrent and self.encoder != "self_attention"
        have_none = f"backbone.encoder {self.encoder} and backbone.decoder rnn have none"
        refuse_if(
            (
                found > MOST_PARAMETERS,
                f"backbone.width {self.width:,}, backbone.feed_forward_width {self.feed_forward_width:,}, "
                f"backbone.encoder_layers {self.encoder_layers}, backbone.decoder_layers {self.decoder_layers}, "
                f"backbone.experts {self.experts} and backbone.max_positions {self.max_positions:,} make {found:.1e} "
                "parameters, too many for any memory",
            ),
            (
                self.width % self.num_heads,
                f"backbone.width {self.width} is not a multiple of backbone.num_heads {self.num_heads}",
            ),
            (
                row_of(POSITIONS, self.positions).even_heads and self.width // self.num_heads % 2,
                f"backbone.positions {self.positions} needs an even backbone.width / backbone.num_heads",
            ),
            *(
                (
                    getattr(self, refusal.key) in refusal.values,
                    f"backbone.{key} {name} does not go with backbone.{refusal.key} {getattr(self, refusal.key)}, for "
                    f"it {refusal.why}: set {refusal.remedy}",
                )
                for key, name in own.items()
                for refusal in row_of(TABLES[key], name).refuses
            ),
            *(
                (
                    not is_code(own.get(key, "")),
                    f"backbone.parameters.{key} are arguments of a class of yours, but "
                    f"backbone.{key} names none: set it to FILE.py:NAME",
                )
                for key in self.parameters
            ),
            (
                self.experts and self.experts_per_token >= self.experts,
                f"backbone.experts {self.experts} leaves no choice with backbone.experts_per_token "
                f"{self.experts_per_token}: set a larger backbone.experts, or backbone.experts=0 for one network",
            ),
            (
                self.experts and no_layers,
                f"backbone.experts are in Transformer layers, of which {have_none}: set backbone.experts=0",
            ),
            (
                self.embedding_width >= self.width,
                f"backbone.embedding_width {self.embedding_width} is not below backbone.width {self.width}: set it to "
                "0 for vectors as wide as the model",
            ),
            (
                self.embedding_norm and self.norm == "power",
                "backbone.embedding_norm does not go with backbone.norm power, for it knows no padding: set "
                "backbone.norm=layer",
            ),
            (
                additive and no_layers,
                f"backbone.attention_score additive changes Transformer layers, of which {have_none} (decoder rnn is "
                "additive already): set backbone.attention_score=dot",
            ),
            (
                self.encoder == "conv" and not (self.encoder_kernel and self.encoder_dilations),
                "backbone.encoder conv needs backbone.encoder_kernel, such as 3, and backbone.encoder_dilations, such "
                "as [1]",
            ),
            (
                self.encoder == "rnn" and (self.encoder_kernel or self.width % 2),
                "backbone.encoder rnn needs an even backbone.width and backbone.encoder_kernel=0",
            ),
            (
                self.encoder == "none" and (self.encoder_kernel or recurrent or self.decoder_steps > 1),
                "backbone.encoder none needs backbone.encoder_kernel=0, backbone.decoder=transformer and "
                "backbone.decoder_steps=1",
            ),
            (
                self.encoder != "self_attention" and self.encoder_steps > 1,
                "backbone.encoder_steps repeats the layers of backbone.encoder=self_attention alone",
            ),
            (
                recurrent and self.decoder_steps > 1,
                "backbone.decoder_steps repeats the layers of backbone.decoder=transformer alone",
            ),
            *(
                (kernel and kernel % 2 == 0, f"backbone.{name} {kernel} is even, but must be odd")
                for name, kernel in (("encoder_kernel", self.encoder_kernel), ("decoder_kernel", self.decoder_kernel))
            ),
        )
        return self
