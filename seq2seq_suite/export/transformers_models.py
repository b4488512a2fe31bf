"""A run as a folder of Hugging Face's transformers: Marian's class for post-norm, Pegasus' for pre-norm.

Both are the Transformer of Vaswani et al. 2017 with scaled embeddings, a bias of the logits and no norm of the
embeddings; Pegasus' has norms before sub-layers and at the ends of both stacks. Their positions have all sines before
all cosines, where the suite's alternate: the hidden state's features are renumbered so that theirs fit.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.files import to_json
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN, UNLIKELY
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.subwords import SentencePieces
from seq2seq_suite.export.compatibility import both_sides, check_plain, tensors, write_folder
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.tasks.base import Task

if TYPE_CHECKING:
    from seq2seq_suite.options.backbone import Backbone

NAME = "transformers"
_CLASSES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}

# Our names -> theirs, and the axis of the weight along which the hidden state's features lie; biases of those that lie
# along the first axis have them, too.
_ENDS = {
    "frontend.embedding": ("encoder.embed_tokens", 1),
    "frontend.positions": ("encoder.embed_positions", 1),
    "embedding": ("decoder.embed_tokens", 1),
    "positions": ("decoder.embed_positions", 1),
    "encoder.norm": ("encoder.layer_norm", 0),
    "decoder.norm": ("decoder.layer_norm", 0),
}
_LAYER = {
    **{
        f"{ours}.{part}": (f"{theirs}.{part[0]}_proj", 1)
        for part in ("query", "key", "value")
        for ours, theirs in (("attention", "self_attn"), ("cross_attention", "encoder_attn"))
    },
    "attention.output": ("self_attn.out_proj", 0),
    "attention_norm": ("self_attn_layer_norm", 0),
    "cross_attention.output": ("encoder_attn.out_proj", 0),
    "cross_norm": ("encoder_attn_layer_norm", 0),
    "feed_forward.inner": ("fc1", 1),
    "feed_forward.outer": ("fc2", 0),
    "feed_forward_norm": ("final_layer_norm", 0),
}
KINDS = {"weight": "weight", "gain": "weight", "table": "weight", "bias": "bias"}  # of a module's tensors


def modules(layers: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """Our modules, theirs, and the axis of their weights along which the hidden state's features lie.

    Args:
        layers: of the stacks `encoder` and `decoder`.
    """
    for module, (name, axis) in _ENDS.items():
        yield module, f"model.{name}", axis
    for stack, count in layers.items():
        for number in range(count):
            for module, (name, axis) in _LAYER.items():
                yield f"{stack}.layers.{number}.{module}", f"model.{stack}.layers.{number}.{name}", axis


def in_both(present: Container[str], layers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Our names and theirs of the weights of both stacks, of those of ours that are present."""
    for module, name, _ in modules(layers):
        for kind, their_kind in KINDS.items():
            if f"{module}.{kind}" in present and module.rpartition(".")[2] not in ("embedding", "positions"):
                yield f"{module}.{kind}", f"{name}.{their_kind}"


def feature_order(width: int) -> Tensor:
    """(D,) int64: our number of each of their features, which have all sines of the positions before all cosines.

    >>> feature_order(5).tolist()
    [0, 2, 4, 1, 3]
    """
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def check(config: Config, task: Task, directory: Path) -> None:
    """Raises ConfigError for a run that is more than a plain Transformer, or reads or writes single characters."""
    check_plain(config, task, directory, program=NAME)
    for side, field in zip(("source", "target"), both_sides(task), strict=True):
        if not isinstance(field.pieces, SentencePieces):
            raise ConfigError(
                f"{NAME} cannot express {side}s in {field.kind}: Marian's tokenizer reads pieces of SentencePiece",
                file=str(directory),
                expected="subwords bpe or unigram",
                remedy="use --to hub-folder, which takes any run",
            )


def write(run: LoadedRun, folder: Path) -> list[str]:
    """Write weights, configurations and tokenizer; returns the files' names."""
    task, config = run.task, run.config
    source, target = (side.pieces for side in both_sides(task))
    assert isinstance(source, SentencePieces) and isinstance(target, SentencePieces)
    vocabularies = [
        {name: number for number, name in enumerate(pieces.names(range(len(pieces))))} for pieces in (source, target)
    ]
    files: dict[str, Any] = {
        "config.json": _config(config, task),
        "generation_config.json": _generation(config),
        "vocab.json": vocabularies[0],
        "target_vocab.json": vocabularies[1],
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": not both_sides(task)[0].shared,
            **dict(zip(("source_lang", "target_lang"), task.languages or (), strict=False)),
            "model_max_length": config.data.max_length,
            "split_special_tokens": True,
            "clean_up_tokenization_spaces": False,
            "pad_token": SPECIALS[PAD],
            "bos_token": SPECIALS[BEGIN],  # left out of texts; an imported model of SentencePiece does not know it
            "eos_token": SPECIALS[END],
            "unk_token": SPECIALS[UNKNOWN],
        },
    }
    if both_sides(task)[0].shared:
        del files["target_vocab.json"]
    files |= {"source.spm": source.model, "target.spm": target.model}
    return write_folder(folder, files, converted(run.predictor.model, tied=_tied(config, task)))


def example(task: Task, text: str) -> str:
    """How to use the folder."""
    return f"""import sys

sys.modules["torchaudio"] = None  # text needs none, and one that was made for CUDA fails beside a CPU's PyTorch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "path/to/this/folder"
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
batch = tokenizer([{to_json(both_sides(task)[0].normalised(text))}], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)[0])"""


def converted(model: Seq2Seq, *, tied: bool) -> dict[str, Tensor]:
    """A model's weights under the names of transformers; vocabularies of two sizes are filled up to the larger."""
    ours, theirs = tensors(model), {}
    order = feature_order(model.embedding.embedding_dim)
    for module, name, axis in modules({stack: len(getattr(model, stack).layers) for stack in ("encoder", "decoder")}):
        for kind, their_kind in KINDS.items():
            if (tensor := ours.get(f"{module}.{kind}")) is not None:
                moves = axis < tensor.dim()
                theirs[f"{name}.{their_kind}"] = tensor.index_select(axis, order) if moves else tensor
    source, target = theirs["model.encoder.embed_tokens.weight"], theirs["model.decoder.embed_tokens.weight"]
    size = max(len(source), len(target))
    theirs["final_logits_bias"] = _filled(ours["output.bias"], size, UNLIKELY).unsqueeze(0)
    theirs["model.shared.weight"] = _filled(source, size)
    if tied:
        del theirs["model.encoder.embed_tokens.weight"], theirs["model.decoder.embed_tokens.weight"]
    else:
        theirs["model.encoder.embed_tokens.weight"] = _filled(source, size)
        theirs["model.decoder.embed_tokens.weight"] = _filled(target, size)
        theirs["lm_head.weight"] = _filled(ours["output.weight"].index_select(1, order), size)
    return theirs


def _filled(tensor: Tensor, size: int, value: float = 0.0) -> Tensor:
    """A tensor (N,...) with further rows up to `size`."""
    return torch.cat((tensor, tensor.new_full((size - len(tensor), *tensor.shape[1:]), value)))


def _tied(config: Config, task: Task) -> bool:
    """Whether one matrix is source embedding, target embedding and output, as the classes tie them."""
    return config.backbone.tie_embeddings and both_sides(task)[0].shared


def shape_of(backbone: Backbone, kind: str, architecture: str) -> dict[str, Any]:
    """What config.json says of sizes, in the words that Marian, BART and Whisper have in common."""
    sides = {
        f"{side}_{key}": value
        for side, layers in (("encoder", backbone.encoder_layers), ("decoder", backbone.decoder_layers))
        for key, value in (
            ("layers", layers),
            ("attention_heads", backbone.num_heads),
            ("ffn_dim", backbone.feed_forward_width),
        )
    }
    return {
        "model_type": kind,
        "architectures": [architecture],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "d_model": backbone.width,
        **sides,
        "activation_function": backbone.activation,
        "dropout": backbone.dropout,
        "attention_dropout": backbone.attention_dropout,
    }


def _config(config: Config, task: Task) -> dict[str, Any]:
    size = max(map(len, both_sides(task)))
    return {
        **shape_of(config.backbone, *_CLASSES[config.backbone.norm_placement]),
        "vocab_size": size,
        "decoder_vocab_size": size,
        "scale_embedding": True,
        "max_position_embeddings": config.backbone.max_positions,
        "tie_word_embeddings": _tied(config, task),
        "share_encoder_decoder_embeddings": True,
        **_symbols(),
    }


def _symbols() -> dict[str, int]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
        "forced_eos_token_id": END,
    }


def _generation(config: Config) -> dict[str, Any]:
    search = config.search
    longest = int(config.data.max_length * search.max_length_factor) + search.max_length_extra + 1
    return {
        "num_beams": search.beam_size,
        "max_length": min(longest, config.backbone.max_positions),
        "suppress_tokens": [PAD, BEGIN, UNKNOWN],
        **_symbols(),
    }
