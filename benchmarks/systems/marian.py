"""Hugging Face Marian: trained by a plain loop over length buckets, decoded by `generate`."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.data.torchaudio_import import load_torchaudio

# transformers imports torchaudio where it is installed, and breaks where that cannot be loaded beside a CPU torch.
with suppress(DataError):
    load_torchaudio()

import transformers
from transformers import MarianConfig, MarianMTModel

from benchmarks.corpus import Corpus
from benchmarks.systems import BATCH_TOKENS, LABEL_SMOOTHING, DecodingSystem, Pair, Shape, TrainingSystem, suite
from benchmarks.systems.student import pad, pad_pairs
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN

_POSITIONS = 512


def build(shape: Shape) -> MarianMTModel:
    """Post-norm, sinusoidal, one embedding for source, target and output."""
    transformers.logging.set_verbosity_error()
    model = MarianMTModel(
        MarianConfig(
            vocab_size=shape.vocabulary,
            d_model=shape.width,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_ffn_dim=shape.feed_forward,
            decoder_ffn_dim=shape.feed_forward,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            dropout=shape.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=_POSITIONS,
            pad_token_id=PAD,
            bos_token_id=BEGIN,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=None,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            num_beams=1,
            max_length=None,
        )
    )
    model.generation_config.bad_words_ids = None
    return model


def training(shape: Shape, precision: str, corpus: Corpus, seed: int, *, device: str = "cpu") -> TrainingSystem:
    """A careful user's loop: length buckets, but the library's model and PyTorch's loss as they come."""
    model = build(shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.01)

    def update(pairs: list[Pair]) -> Tensor:
        source, inputs, target = (one.to(device) for one in pad_pairs(pairs))
        model.train()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=inputs).logits
            loss = nn.functional.cross_entropy(
                logits.view(-1, shape.vocabulary), target.view(-1), ignore_index=PAD, label_smoothing=LABEL_SMOOTHING
            )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return TrainingSystem(transformers.__version__, model, _buckets(corpus.train, seed), update)


def _buckets(pairs: list[Pair], seed: int) -> list[list[Pair]]:
    """Sorted by target, then by source length; at most BATCH_TOKENS padded target symbols."""
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    batches: list[list[Pair]] = [[]]
    for pair in sorted(shuffled, key=lambda pair: (len(pair[1]), len(pair[0]))):
        if batches[-1] and (len(batches[-1]) + 1) * len(pair[1]) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(pair)
    return batches


def convert(weights: dict[str, Tensor], shape: Shape) -> MarianMTModel:
    """Marian with the weights of `suite.build`: the same function, up to rounding."""
    model = build(shape)
    ours = suite.build(shape)
    ours.load_state_dict(weights)
    with torch.no_grad():
        model.model.shared.weight.copy_(ours.embedding.weight)
        model.final_logits_bias.copy_(ours.output.bias.unsqueeze(0))
        model.final_logits_bias[:, [PAD, BEGIN, UNKNOWN]] = -1e9  # the suite's search never writes these
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(ours.positions.table[:_POSITIONS])
        for layer, theirs in zip(ours.encoder.layers, model.model.encoder.layers, strict=True):
            _copy_layer(layer, theirs)
        for layer, theirs in zip(ours.decoder.layers, model.model.decoder.layers, strict=True):
            _copy_layer(layer, theirs)
            _copy_attention(layer.cross_attention, theirs.encoder_attn)
            _copy_norm(layer.cross_norm, theirs.encoder_attn_layer_norm)
    model.tie_weights()
    return model.eval()


def _copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    _copy_attention(ours.attention, theirs.self_attn)
    _copy_norm(ours.attention_norm, theirs.self_attn_layer_norm)
    theirs.fc1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.fc2.load_state_dict(ours.feed_forward.outer.state_dict())
    _copy_norm(ours.feed_forward_norm, theirs.final_layer_norm)


def _copy_attention(ours: nn.Module, theirs: nn.Module) -> None:
    for part, own in (
        (theirs.q_proj, ours.query),
        (theirs.k_proj, ours.key),
        (theirs.v_proj, ours.value),
        (theirs.out_proj, ours.output),
    ):
        part.load_state_dict(own.state_dict())


def _copy_norm(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.weight.copy_(ours.gain)
    theirs.bias.copy_(ours.bias)


def decoding(
    shape: Shape,
    corpus: Corpus,
    weights: Path,
    *,
    threads: int,
    cache: str | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> DecodingSystem:
    """`generate` with the cache of that name, the growing one without a name."""
    torch.set_num_threads(threads)
    model = convert(torch.load(weights)["weights"], shape).to(device, dtype)

    def decode(sources: list[list[int]], beam_size: int, longest: int, size: int) -> list[list[int]]:
        return [
            output
            for first in range(0, len(sources), size)
            for output in decode_batch(sources[first : first + size], beam_size, longest)
        ]

    @torch.inference_mode()
    def decode_batch(sources: list[list[int]], beam_size: int, longest: int) -> list[list[int]]:
        padded = pad(sources).to(device)
        outputs = model.generate(
            input_ids=padded,
            attention_mask=(padded != PAD).long(),
            num_beams=beam_size,
            do_sample=False,
            max_new_tokens=longest,
            early_stopping=beam_size > 1,
            length_penalty=0.6,
            cache_implementation=cache,
        )
        return [[symbol for symbol in row if symbol not in (PAD, BEGIN, END)] for row in outputs.tolist()]

    return DecodingSystem(transformers.__version__, decode)
