"""Folders of tiny pretrained models with random weights, as transformers' own classes write them."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.miniworld import rows

_ROWS = [row for row in rows("translations", "train", size=200) if len(row["en"].split()) < 7]
TEXTS = {side: [row[side] for row in _ROWS] for side in ("en", "de")}
CARD = "---\nlanguage:\n- en\n- de\nlicense: cc-by-4.0\n---\n\n# A tiny model\n"


def need_transformers() -> ModuleType:
    """transformers, whose import of a torchaudio made for CUDA does not fail; skips where it is not installed."""
    from seq2seq_suite.data.torchaudio_import import load_torchaudio

    found = pytest.importorskip("transformers", reason="comes with the extra `transformers`")
    with suppress(DataError):
        load_torchaudio()
    return found


@cache
def sentencepiece(side: str, size: int = 160) -> bytes:
    """A unigram model of one side's texts, with SentencePiece's own defaults."""
    from sentencepiece import SentencePieceTrainer

    buffer = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[side]),
        model_writer=buffer,
        vocab_size=size,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=3,
    )
    return buffer.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a model without its specials."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, len(processor))]


def roughened(model: Any, noise: float = 0.15) -> Any:
    """A model whose every parameter is random enough to matter, in evaluation mode; sinusoids stay what they are."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * noise)
    return model.eval()


def taught(model: Any, batch: Any, updates: int) -> Any:
    """A model that has learned a batch by heart, so that its outputs differ and end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(updates):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    return model.eval()


def generated(model, tokenizer, text, limit, beams=1):
    """The output of transformers' search and its score; length normalises nothing."""
    found = model.generate(
        **tokenizer(text, return_tensors="pt"),
        num_beams=beams,
        max_new_tokens=limit,
        length_penalty=0.0,
        early_stopping="never" if beams > 1 else False,
        renormalize_logits=True,
        suppress_tokens=[tokenizer.pad_token_id, tokenizer.unk_token_id],
        output_scores=True,
        return_dict_in_generate=True,
    )
    score = float(found.sequences_scores[0]) if beams > 1 else None
    return tokenizer.batch_decode(found.sequences, skip_special_tokens=True)[0], score


def write_marian(folder: Path, *, separate: bool = False, **changes: Any) -> Any:
    """Write a `MarianMTModel` with the tokenizer's files as OPUS-MT has them; returns the model."""
    transformers = need_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    source, target = (pieces_of(sentencepiece(side)) for side in ("en", "de"))
    sides = [source, target] if separate else [sorted({*source, *target, ">>deu<<"})]
    tables = [["</s>", "<unk>", *pieces, "<pad>"] for pieces in sides]
    if separate:  # padding has one number
        size = max(map(len, tables)) - 1
        for table in tables:
            table[-1:-1] = [f"spare{number}" for number in range(size + 1 - len(table))]
    for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        (folder / name).write_text(json.dumps({piece: number for number, piece in enumerate(table)}))
    for name, side in (("source.spm", "en"), ("target.spm", "de")):
        (folder / name).write_bytes(sentencepiece(side))
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "README.md").write_text(CARD)
    pad = len(tables[0]) - 1
    sizes = {
        "vocab_size": len(tables[0]),
        "decoder_vocab_size": len(tables[-1]),
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 128,
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": not separate,
    }
    symbols = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    config = transformers.MarianConfig(**{**sizes, **symbols, "num_beams": 4, **changes})
    torch.manual_seed(3)
    model = roughened(transformers.MarianMTModel(config))
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.5)
    model.save_pretrained(folder)
    return model


def write_t5(folder: Path, *, gated: bool = False, **changes: Any) -> Any:
    """Write a `T5ForConditionalGeneration`: 1.0, or 1.1 if it is `gated`; returns the model."""
    from safetensors.torch import save_file
    from sentencepiece import SentencePieceTrainer

    transformers = need_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    buffer = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS["en"], *TEXTS["de"]]),
        model_writer=buffer,
        vocab_size=180,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=3,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    (folder / "spiece.model").write_bytes(buffer.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 7}))
    (folder / "README.md").write_text(CARD)
    sizes = {
        "vocab_size": 192,
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 24,
        "num_layers": 2,
        "num_heads": 2,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "tie_word_embeddings": not gated,
        "decoder_start_token_id": 0,
    }
    torch.manual_seed(3)
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**{**sizes, **changes}))
    if gated:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(192, model.model_dim) * 0.3)
    roughened(model, 0.2)
    model.config.save_pretrained(folder)
    weights = {name: one for name, one in model.state_dict().items() if ".embed_tokens." not in name}
    if not gated:
        del weights["lm_head.weight"]
    save_file({name: one.contiguous() for name, one in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    return model
