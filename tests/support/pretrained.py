"""Folders of tiny pretrained models with random weights, as transformers' own classes write them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
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
from seq2seq_suite.runs.weights import MODEL

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


def changed_run(run: Path, place: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """A copy of a run with other weights."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(run, place, symlinks=True)
    path = place / "checkpoints" / "best" / MODEL
    weights = load_file(path)
    change(weights)
    save_file(weights, path)
    path.with_name("state.json").unlink()
    return place


def moved(weights: dict[str, torch.Tensor], *but: str) -> None:
    """Change all weights, as training does, but for those whose names end in one of some words."""
    generator = torch.Generator().manual_seed(11)
    for name in [*weights]:
        if not name.endswith(but):
            weights[name] = weights[name] + 0.05 * torch.randn(weights[name].shape, generator=generator)


def taught(model: Any, batch: Any, updates: int) -> Any:
    """A model that has learned a batch by heart, so that its outputs differ and end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(updates):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    return model.eval()


def generated(model, tokenizer, text, limit, beams=1, **others):
    """The output of transformers' search and its score; length normalises nothing."""
    found = model.generate(
        **tokenizer(text, return_tensors="pt"),
        num_beams=beams,
        max_new_tokens=limit,
        length_penalty=0.0,
        early_stopping="never" if beams > 1 else False,
        renormalize_logits=True,
        output_scores=True,
        return_dict_in_generate=True,
        **{"suppress_tokens": [tokenizer.pad_token_id, tokenizer.unk_token_id], **others},
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


def write_bart(folder: Path, *, kind: str = "bart", begins: str | None = "de_DE", **changes: Any) -> Any:
    """Write a model with its tokenizer's files; returns the model.

    Args:
        folder: where.
        kind: `bart`, a `BartForConditionalGeneration` with byte-level pieces; `mbart` and `mbart50`, an
            `MBartForConditionalGeneration` from English to German with SentencePiece's.
        begins: the language whose code mbart50 is made to begin with, if any.
        changes: of the model's configuration.
    """
    transformers = need_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(CARD)
    if kind == "bart":
        write_byte_pairs(folder)
        names = {"tokenizer_class": "BartTokenizer"}
    else:
        (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece("de"))
        name = "MBart50Tokenizer" if kind == "mbart50" else "MBartTokenizer"
        names = {"tokenizer_class": name, "src_lang": "en_XX", "tgt_lang": "de_DE"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "config.json").write_text(json.dumps({"model_type": kind.removesuffix("50")}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    code = {} if kind == "bart" else tokenizer.lang_code_to_id
    sizes = {
        "vocab_size": len(tokenizer),
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 128,
        "scale_embedding": kind != "bart",
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": code["de_DE"] if kind == "mbart" else 2,
        "forced_eos_token_id": 2,
    }
    name = "Bart" if kind == "bart" else "MBart"
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**{**sizes, **changes})
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    if not config.tie_word_embeddings:
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_tokens.weight = model.model.shared.weight
    roughened(model)
    model.generation_config.forced_bos_token_id = {"bart": 0, "mbart50": code.get(begins or "")}.get(kind)
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.5)
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.normal_(std=0.3)
    model.save_pretrained(folder)
    return model


def write_byte_pairs(folder: Path, specials: Sequence[str] = ("<s>", "<pad>", "</s>", "<unk>")) -> None:
    """Write vocab.json and merges.txt of byte-level pieces of both sides' texts, specials first."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TEXTS["en"], *TEXTS["de"]], trainer)
    tokenizer.model.save(str(folder))


LANGUAGES = ("en", "zh", "de")  # the first of Whisper's, in its order


def write_whisper(folder: Path, *, multilingual: bool = True, bins: int = 80, **changes: Any) -> Any:
    """Write a `WhisperForConditionalGeneration` with its tokenizer and feature extractor; returns the model."""
    from transformers.models.whisper.tokenization_whisper import WhisperTokenizer

    transformers = need_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    write_byte_pairs(folder, specials=())
    (folder / "README.md").write_text(CARD)
    tasks = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    codes = [f"<|{code}|>" for code in LANGUAGES]
    symbols = ["<|startoftranscript|>", *codes, *tasks]
    tokenizer = WhisperTokenizer(
        vocab=str(folder / "vocab.json"),
        merges=str(folder / "merges.txt"),
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|endoftext|>", *symbols],
    )
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=bins).save_pretrained(folder)
    end, start = (tokenizer.convert_tokens_to_ids(name) for name in ("<|endoftext|>", "<|startoftranscript|>"))
    sizes = {
        "vocab_size": len(tokenizer),
        "num_mel_bins": bins,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_target_positions": 64,
        "pad_token_id": end,
        "bos_token_id": end,
        "eos_token_id": end,
        "decoder_start_token_id": start,
        "begin_suppress_tokens": None,
    }
    torch.manual_seed(3)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**{**sizes, **changes}))
    roughened(model, 0.2)
    with torch.no_grad():
        model.model.decoder.embed_positions.weight.normal_(std=0.3)
    generation = model.generation_config
    generation.is_multilingual = multilingual
    generation.no_timestamps_token_id = tokenizer.convert_tokens_to_ids("<|notimestamps|>")
    if multilingual:
        generation.lang_to_id = {code: tokenizer.convert_tokens_to_ids(code) for code in codes}
        names = ("transcribe", "translate")
        generation.task_to_id = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in names}
    model.save_pretrained(folder)
    return model
