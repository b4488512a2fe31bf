"""A run of an imported BART or mBART as a folder of transformers' classes: the way back of `imports.bart`.

The vector with which outputs begin is that of END in BART and in mBART-50 as they come in, and learns beside it here. A
run in which both differ has another symbol for it there, without a piece. `generate` begins with it; a training of
transformers' class does so for BART, but begins mBART-50 with END.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.export.compatibility import REMEDY, both_sides, check_plain, tensors, write_folder
from seq2seq_suite.export.imported_models import imported_pieces, layers_of, numbers_of, symbols_of
from seq2seq_suite.export.transformers_models import KINDS, NAME, example, shape_of
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.tasks.base import Task

__all__ = ["NAME", "check", "example", "fits", "write"]

UNUSED_POSITIONS = 2  # the first of both tables
_KNOWN = {"positions": ("learned",), "embedding_norm": (True,), "scale_embeddings": (False, True)}
_PROGRAM = f"{NAME}' BART"
_CLASSES = {"post": ("bart", "BartForConditionalGeneration"), "pre": ("mbart", "MBartForConditionalGeneration")}


def fits(config: Config) -> bool:
    """Whether a run has what BART alone has."""
    return config.backbone.embedding_norm


def check(config: Config, task: Task, directory: Path) -> None:
    """Raises ConfigError for a run that has other parts than BART, or pieces that `import` did not bring in."""
    check_plain(config, task, directory, program=_PROGRAM, more=_KNOWN)
    source, target = (imported_pieces(side, directory, _PROGRAM) for side in both_sides(task))
    if not both_sides(task)[0].shared or source.rows != target.rows or len(target.before) > 1:
        raise ConfigError(
            f"{_PROGRAM} cannot express pieces of two tokenizers, or outputs that begin with several symbols",
            file=str(directory),
            expected="the tokenizer of an imported BART or mBART",
            remedy=REMEDY,
        )


def write(run: LoadedRun, folder: Path) -> list[str]:
    """Write weights, configurations and tokenizer; returns the files' names.

    Raises:
        ConfigError: a symbol has a probability that has none there.
    """
    source, target = (imported_pieces(side, folder, _PROGRAM) for side in both_sides(run.task))
    ours, backbone, search = tensors(run.predictor.model), run.config.backbone, run.config.search
    symbols = symbols_of(target, ours, _PROGRAM)
    numbers = numbers_of(target, symbols)
    special = {
        "pad_token_id": numbers[PAD],
        "eos_token_id": numbers[END],
        "decoder_start_token_id": numbers[BEGIN],
        "forced_eos_token_id": numbers[END],
    }
    longest = int(run.config.data.max_length * search.max_length_factor) + search.max_length_extra
    begins = len(target.before)
    generation = {
        "num_beams": search.beam_size,
        "max_length": min(longest + begins + 1, backbone.max_positions),
        "min_length": search.min_length and search.min_length + 1,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "suppress_tokens": sorted({numbers[symbol] for symbol in (PAD, BEGIN, UNKNOWN)} - {numbers[END]}),
        **({"forced_bos_token_id": numbers[target.before[0]]} if begins else {}),
    }
    files = {
        "config.json": {
            **shape_of(backbone, *_CLASSES[backbone.norm_placement]),
            "vocab_size": len(symbols),
            "scale_embedding": backbone.scale_embeddings,
            "max_position_embeddings": backbone.max_positions,
            "tie_word_embeddings": backbone.tie_embeddings,
            **special,
        },
        "generation_config.json": {**special, **generation},
        "tokenizer_config.json": _tokenizer(source, target, run.config),
        "tokenizer.json": source.content.encode(),
    }
    return write_folder(folder, files, _converted(run, ours, symbols))


def _tokenizer(source: ImportedTokenizer, target: ImportedTokenizer, config: Config) -> dict[str, Any]:
    """Its class and its languages: codes are in front of texts in mBART-50, behind them in mBART, in BART are none."""
    names = {"pad_token": PAD, "eos_token": END, "unk_token": UNKNOWN}
    found = {name: target.their_name(symbol) for name, symbol in names.items()}
    if source.around == target.around:
        return {**found, "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    languages = {f"{short}_lang": getattr(config.options, f"{side}_language") for short, side in _SIDES.items()}
    return {**found, **languages, "tokenizer_class": "MBart50Tokenizer" if target.before else "MBartTokenizer"}


_SIDES = {"src": "source", "tgt": "target"}


def _converted(run: LoadedRun, ours: dict[str, Tensor], symbols: list[int]) -> dict[str, Tensor]:
    """The weights by their names."""
    backbone = run.config.backbone
    embedding = ours["embedding.weight"][symbols]
    found = {"model.shared.weight": embedding, "final_logits_bias": ours["output.bias"][symbols].unsqueeze(0)}
    if not backbone.tie_embeddings:
        found["lm_head.weight"] = ours["output.weight"][symbols]
    for stack, prefix in (("encoder", "frontend."), ("decoder", "")):
        theirs, table = f"model.{stack}", ours[f"{prefix}positions.positions.table"]
        found[f"{theirs}.embed_positions.weight"] = functional.pad(table, (0, 0, UNUSED_POSITIONS, 0))
        for kind in ("gain", "bias"):
            found[f"{theirs}.layernorm_embedding.{KINDS[kind]}"] = ours[f"{prefix}positions.norm.{kind}"]
        if not backbone.tie_embeddings:
            found[f"{theirs}.embed_tokens.weight"] = embedding
    return found | layers_of(ours, backbone)
