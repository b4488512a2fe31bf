"""A run as a folder of CTranslate2, a fast engine for inference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from seq2seq_suite.common.files import to_json
from seq2seq_suite.common.lazy_imports import need
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN, UNLIKELY
from seq2seq_suite.config.schema import Config
from seq2seq_suite.export.compatibility import both_sides, check_plain, tensors
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.tasks.base import Task

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

NAME = "ctranslate2"
MORE = {
    "activation": ("relu", "gelu", "swish", "swiglu"),
    "norm": ("layer", "rms"),
    "positions": ("sinusoidal", "learned"),
}
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH", "swiglu": "SWISH"}
_EPSILON = {"layer": 1e-5, "rms": 1e-6}

# Our names -> theirs.
_ENDS = {
    "frontend.embedding": "encoder/embeddings_0",
    "frontend.positions": "encoder/position_encodings",
    "embedding": "decoder/embeddings",
    "positions": "decoder/position_encodings",
    "encoder.norm": "encoder/layer_norm",
    "decoder.norm": "decoder/layer_norm",
    "output": "decoder/projection",
}
_LAYER = {
    "attention.output": "self_attention/linear_1",
    "attention_norm": "self_attention/layer_norm",
    "cross_attention.query": "attention/linear_0",
    "cross_attention.output": "attention/linear_2",
    "cross_norm": "attention/layer_norm",
    "feed_forward.inner": "ffn/linear_0",
    "feed_forward.outer": "ffn/linear_1",
    "feed_forward_norm": "ffn/layer_norm",
}
# Several of ours in one of theirs.
_TOGETHER = {
    "attention": (("query", "key", "value"), "self_attention/linear_0"),
    "cross_attention": (("key", "value"), "attention/linear_1"),
}
_KINDS = {"weight": "weight", "gain": "gamma", "table": "encodings", "bias": "bias"}


def check(config: Config, task: Task, directory: Path) -> None:
    """Raises ConfigError for a run that is more than CTranslate2 knows, or if it is not installed."""
    need(NAME)
    check_plain(config, task, directory, program=NAME, more=MORE)


def write(run: LoadedRun, folder: Path) -> list[str]:
    """Write the model and the subwords; returns the files' names."""
    made = specification(run)
    folder.mkdir(parents=True, exist_ok=True)
    before = {path.name for path in folder.iterdir()}
    made.save(str(folder))
    for field in both_sides(run.task):
        field.save(folder)
    return sorted({path.name for path in folder.iterdir()} - before)


def example(task: Task, text: str) -> str:
    """How to use the folder."""
    source, target = both_sides(task)
    opened = [f'SentencePieceProcessor(model_file=folder + "/{field.name}.model")' for field in (source, target)]
    pieces, joined = "source.encode(text, out_type=str)", "target.decode(found.hypotheses[0])"
    imported, sides = "from sentencepiece import SentencePieceProcessor\n", f"source, target = {', '.join(opened)}\n"
    if "characters" in (source.kind, target.kind):
        sides = "".join(
            f"{name} = {code}\n"
            for name, code, field in zip(("source", "target"), opened, (source, target), strict=True)
            if field.kind != "characters"
        )
        imported = imported if sides else ""
        pieces = pieces if source.kind != "characters" else "list(text)"
        joined = joined if target.kind != "characters" else '"".join(found.hypotheses[0])'
    return f"""import ctranslate2
{imported}
folder, text = "path/to/this/folder", {to_json(source.normalised(text))}
{sides}found = ctranslate2.Translator(folder).translate_batch([{pieces}], beam_size=1)[0]
print({joined})"""


def specification(run: LoadedRun) -> TransformerSpec:
    """The model as CTranslate2 writes it; the specials that no output has are made impossible by their bias."""
    from ctranslate2.specs import TransformerSpec, common_spec
    from ctranslate2.specs.model_spec import index_spec

    backbone, ours = run.config.backbone, tensors(run.predictor.model)
    gated = backbone.activation == "swiglu"
    spec = TransformerSpec.from_config(
        (backbone.encoder_layers, backbone.decoder_layers),
        backbone.num_heads,
        pre_norm=backbone.norm_placement == "pre",
        rms_norm=backbone.norm == "rms",
        ffn_glu=gated,
        activation=common_spec.Activation[_ACTIVATIONS[backbone.activation]],
    )

    def put(module: str, name: str, part: slice = slice(None)) -> None:
        for kind, their_kind in _KINDS.items():
            if (tensor := ours.get(f"{module}.{kind}")) is not None:
                place = index_spec(spec, name)
                setattr(
                    place,
                    "beta" if kind == "bias" and hasattr(place, "beta") else their_kind,
                    tensor[part].contiguous(),
                )

    ours["output.bias"] = ours["output.bias"].index_fill(
        0, ours["output.bias"].new_tensor([PAD, BEGIN, UNKNOWN]).long(), UNLIKELY
    )
    for module, name in _ENDS.items():
        put(module, name)
    for stack, count in (("encoder", backbone.encoder_layers), ("decoder", backbone.decoder_layers)):
        for number in range(count):
            layer, theirs = f"{stack}.layers.{number}", f"{stack}/layer_{number}"
            for module, name in _LAYER.items():
                put(f"{layer}.{module}", f"{theirs}/{name}")
            for attention, (parts, name) in _TOGETHER.items():
                for kind in ("weight", "bias"):
                    if f"{layer}.{attention}.query.{kind}" in ours:
                        ours[f"{layer}.{attention}.{kind}"] = torch.cat(
                            [ours[f"{layer}.{attention}.{part}.{kind}"] for part in parts]
                        )
                put(f"{layer}.{attention}", f"{theirs}/{name}")
            if gated:
                inner, half = f"{layer}.feed_forward.inner", len(ours[f"{layer}.feed_forward.inner.weight"]) // 2
                put(inner, f"{theirs}/ffn/linear_0", slice(half))
                put(inner, f"{theirs}/ffn/linear_0_noact", slice(half, None))
    for side, register in zip(
        both_sides(run.task), (spec.register_source_vocabulary, spec.register_target_vocabulary), strict=True
    ):
        register(side.pieces.names(range(len(side))))
    for key, value in {
        "bos_token": SPECIALS[BEGIN],
        "eos_token": SPECIALS[END],
        "unk_token": SPECIALS[UNKNOWN],
        "decoder_start_token": SPECIALS[BEGIN],
        "add_source_eos": True,
        "layer_norm_epsilon": _EPSILON[backbone.norm],
    }.items():
        setattr(spec.config, key, value)
    spec.validate()
    spec.optimize()
    return spec
