"""The model: attention, layers, encoder, decoder, front-ends and variants; it knows tensors and no task."""

from __future__ import annotations

from seq2seq_suite.lazy import exports

# What is imported from here when it is first asked for: module -> classes.
MODULES = {
    "attention": ("KeysValues", "MultiHeadAttention",),
    "audio": ("Masking", "Subsampled",),
    "build": ("build_model",),
    "convolution": ("Convolution",),
    "decoder": ("CrossKeysValues", "Cache", "TransformerDecoder",),
    "dropout": ("Dropout",),
    "encoder": ("TransformerEncoder",),
    "frontends": ("Tokens", "Words",),
    "guide": ("Guide",),
    "layers": ("LayerShape", "FeedForward", "Residual", "TransformerLayer",),
    "norms": ("LayerNorm", "RMSNorm",),
    "output": ("LogitTerm", "OutputLayer",),
    "picture": ("ConvolutionalStem",),
    "pointer": ("Pointer",),
    "positions": ("SinusoidalPositions", "LearnedPositions", "NoPositions", "RelativePositions", "RotaryPositions",),
    "prefix": ("PrefixStates", "PrefixSeq2Seq",),
    "segments": ("Segments", "Sentences",),
    "seq2seq": ("Memory", "Seq2Seq",),
    "variants.additive": ("AdditiveMultiHeadAttention",),
    "variants.alibi": ("AlibiPositions",),
    "variants.convolutional": ("GatedConvolution", "ConvolutionalEncoder",),
    "variants.experts": ("MixtureOfExperts",),
    "variants.factorised": ("FactorisedEmbedding",),
    "variants.power_norm": ("PowerNorm",),
    "variants.recurrent": ("RecurrentEncoder", "CellStates", "RecurrentDecoder",),
    "variants.universal": ("StepSignal", "UniversalTransformerEncoder", "UniversalTransformerDecoder",),
}
__getattr__, __dir__ = exports(__name__, {name: module for module, names in MODULES.items() for name in names})
