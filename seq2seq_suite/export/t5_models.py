"""A run with T5's parts as a folder of transformers' `T5ForConditionalGeneration`: the way back of `imports.t5`.

T5 has no biases: a run whose biases have learned is refused. `backbone.lora` leaves them at 0, and so does
`training.freeze` of "*.bias".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.subwords import ImportedPieces, pieces_in
from seq2seq_suite.export.compatibility import REMEDY, both_sides, check_plain, tensors, write_folder
from seq2seq_suite.export.transformers_models import NAME, example
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.tasks.base import Task

__all__ = ["NAME", "check", "example", "fits", "write"]

ATTENTIONS = {"attention": ("attention_norm", "SelfAttention"), "cross_attention": ("cross_norm", "EncDecAttention")}
PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}
POSITIONS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
_ACTIVATIONS = {"relu": "relu", "geglu": "gated-gelu"}  # ours -> feed_forward_proj
_KNOWN = {"activation": tuple(_ACTIVATIONS), "norm": ("rms",), "norm_placement": ("pre",), "positions": ("t5",)}


def fits(config: Config) -> bool:
    """Whether a run has what T5 alone has."""
    return config.backbone.positions == "t5"


def check(config: Config, task: Task, directory: Path) -> None:
    """Raises ConfigError for a run that has other parts than T5, or pieces that `import` did not bring in."""
    check_plain(config, task, directory, program=f"{NAME}' T5", more=_KNOWN)
    source, target = both_sides(task)
    if not (source.shared and isinstance(source.pieces, ImportedPieces) and isinstance(target.pieces, ImportedPieces)):
        raise ConfigError(
            f"{NAME}' T5 cannot express these pieces",
            file=str(directory),
            expected="those of an imported T5, or of a run that began from one with init_parts=[all]",
            remedy=REMEDY,
        )


def write(run: LoadedRun, folder: Path) -> list[str]:
    """Write weights, configurations and tokenizer; returns the files' names. Raises ConfigError for learned biases."""
    pieces = both_sides(run.task)[0].pieces
    assert isinstance(pieces, ImportedPieces)
    numbers, own = _numbers(pieces), pieces_in(pieces.model)
    weights, heads = _converted(run, numbers)
    symbols = {
        "pad_token_id": numbers[PAD],
        "eos_token_id": numbers[END],
        "decoder_start_token_id": numbers[BEGIN],
    }
    size = max(numbers) + 1
    files = {
        "config.json": {**_config(run.config, size, heads, weights), **symbols},
        "generation_config.json": {**symbols, "num_beams": run.config.search.beam_size},
        "tokenizer_config.json": {
            "tokenizer_class": "T5Tokenizer",
            "extra_ids": min(100, size - len(own)),
            "pad_token": own[numbers[PAD]],
            "eos_token": own[numbers[END]],
            "unk_token": own[numbers[UNKNOWN]],
        },
    }
    return write_folder(folder, {**files, "spiece.model": pieces.model}, weights)


def _numbers(pieces: ImportedPieces) -> list[int]:
    """Their number of each of our symbols: SentencePiece's own, and the place of a row that has no piece."""
    own = {name: number for number, name in enumerate(pieces_in(pieces.model))}
    names = pieces.names(range(len(SPECIALS), len(pieces)))
    rest = [own[name] if name in own else int(re.sub(r"\D", "", name)) for name in names]
    end, unknown = own["</s>"], own["<unk>"]
    spare = sorted(
        {*range(max(rest) + 1)} - {*rest, end, unknown}
    )  # padding, and what begins an output if it is another
    return [spare[0], spare[-1], end, unknown, *rest]


def _converted(run: LoadedRun, numbers: list[int]) -> tuple[dict[str, Tensor], int]:
    """The weights by their names, and how many heads there are: further ones of zeros are left out."""
    ours, backbone = tensors(run.predictor.model), run.config.backbone
    biases = [name for name, one in ours.items() if name.endswith(".bias") and name != "output.bias" and one.any()]
    if biases or not torch.equal(ours["output.bias"], _fixed_bias(ours["output.bias"], numbers)):
        raise ConfigError(
            f"{NAME}' T5 has no biases, but {(biases or ['output.bias'])[0]} has learned",
            expected="biases that are 0, as imported ones are",
            remedy='train with backbone.lora, or with training.freeze=["*.bias"], or use --to hub-folder',
        )
    head = backbone.width // backbone.num_heads
    heads = max(_used(name, one, head) for name, one in ours.items())
    symbols = {number: symbol for symbol, number in reversed([*enumerate(numbers)])}  # of two of a row the first
    width, place = backbone.width**0.5, torch.tensor([symbols[number] for number in range(len(symbols))])
    same = torch.equal(ours["embedding.weight"][BEGIN], ours["embedding.weight"][PAD])
    if numbers[BEGIN] == numbers[PAD] and not same:
        raise ConfigError(
            f"{NAME}' T5 begins with padding, whose vector here is not that of the beginning",
            expected="one vector for both, as an imported T5 has",
            remedy="train with backbone.lora, or with training.freeze=[embeddings], or use --to hub-folder",
        )
    found = {"shared.weight": _before(ours["embedding.weight"][place], lambda one: one / width, width)}
    if not backbone.tie_embeddings:
        found["lm_head.weight"] = ours["output.weight"][place]
    for stack, count in (("encoder", backbone.encoder_layers), ("decoder", backbone.decoder_layers)):
        found[f"{stack}.final_layer_norm.weight"] = ours[f"{stack}.norm.gain"]
        found[f"{stack}.{POSITIONS}"] = ours[f"{stack}.layers.0.attention.positions.table"][:, :heads]
        for number in range(count):
            found |= _layer(ours, f"{stack}.layers.{number}", f"{stack}.block.{number}.layer", heads * head, head)
    return found, heads


def _layer(ours: Mapping[str, Tensor], layer: str, theirs: str, inner: int, head: int) -> Iterator[tuple[str, Tensor]]:
    """The weights of a layer."""
    here = {name: parts for name, parts in ATTENTIONS.items() if f"{layer}.{name}.query.weight" in ours}
    for number, (name, (norm, their_name)) in enumerate(here.items()):
        yield f"{theirs}.{number}.layer_norm.weight", ours[f"{layer}.{norm}.gain"]
        for part, letter in PARTS.items():
            tensor = ours[f"{layer}.{name}.{part}.weight"]
            tensor = tensor[:, :inner] if part == "output" else tensor[:inner]
            if part == "query":
                tensor = _before(tensor, lambda one: one * head**0.5, head**-0.5)
            yield f"{theirs}.{number}.{their_name}.{letter}.weight", tensor
    place = f"{theirs}.{len(here)}"
    yield f"{place}.layer_norm.weight", ours[f"{layer}.feed_forward_norm.gain"]
    matrix, outer = (ours[f"{layer}.feed_forward.{name}.weight"] for name in ("inner", "outer"))
    names = ("wi",) if len(matrix) == outer.size(1) else ("wi_0", "wi_1")
    for name, part in zip(names, matrix.chunk(len(names)), strict=True):
        yield f"{place}.DenseReluDense.{name}.weight", part
    yield f"{place}.DenseReluDense.wo.weight", outer


def _before(scaled: Tensor, scale: Callable[[Tensor], Tensor], back: float) -> Tensor:
    """x of which `scale` gives `scaled`, to the last bit where there is such an x; `back` is about its inverse."""
    found = scaled * back
    for direction in (torch.inf, -torch.inf):
        near = torch.nextafter(scaled * back, torch.tensor(direction))
        found = torch.where((scale(found) != scaled) & (scale(near) == scaled), near, found)
    return found


def _fixed_bias(bias: Tensor, numbers: list[int]) -> Tensor:
    """The bias of the logits as `import` makes it; that of BEGIN, which no output has, is not 0."""
    found = torch.zeros_like(bias)
    found[BEGIN] = bias[BEGIN] if numbers[BEGIN] == numbers[PAD] else 0.0
    return found


def _used(name: str, tensor: Tensor, head: int) -> int:
    """Up to which head an attention's matrix, or a table of positions, is not 0."""
    found = re.search(r"attention\.(query|key|value|output)\.weight$|positions\.table$", name)
    if found is None:
        return 0
    heads = tensor if found[1] is None else (tensor.t() if found[1] == "output" else tensor).unflatten(0, (-1, head))
    heads = heads.t() if found[1] is None else heads.flatten(1)
    return int(heads.ne(0).any(1).nonzero().max()) + 1 if heads.any() else 0


def _config(config: Config, size: int, heads: int, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    backbone = config.backbone
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": size,
        "d_model": backbone.width,
        "d_kv": backbone.width // backbone.num_heads,
        "d_ff": weights["encoder.block.0.layer.1.DenseReluDense.wo.weight"].size(1),
        "num_layers": backbone.encoder_layers,
        "num_decoder_layers": backbone.decoder_layers,
        "num_heads": heads,
        "n_positions": backbone.max_positions // 2,
        "feed_forward_proj": _ACTIVATIONS[backbone.activation],
        "dropout_rate": backbone.dropout,
        "tie_word_embeddings": backbone.tie_embeddings,
        "scale_decoder_outputs": backbone.tie_embeddings,
    }
