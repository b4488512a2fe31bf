"""CTranslate2 in float32: a C++ engine without PyTorch, the mark to reach."""

from __future__ import annotations

import os
from pathlib import Path

import ctranslate2
import torch
from ctranslate2.converters import transformers as converters

from benchmarks.corpus import Corpus
from benchmarks.systems import DecodingSystem, Shape, marian
from seq2seq_suite.types import BEGIN, END, UNKNOWN


def decoding(shape: Shape, corpus: Corpus, weights: Path) -> DecodingSystem:
    """Its translator, with as many threads as PyTorch has."""
    folder = weights.with_suffix(".ctranslate2")
    if not (folder / "model.bin").exists():
        _convert(shape, corpus.pieces, weights, folder)
    translator = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1,
                                        intra_threads=torch.get_num_threads(), compute_type="float32")
    pieces, ids = corpus.pieces, {piece: index for index, piece in enumerate(corpus.pieces)}

    def decode(sources: list[list[int]], beam_size: int, longest: int, size: int) -> list[list[int]]:
        found = translator.translate_batch([[pieces[index] for index in source] for source in sources],
                                           beam_size=beam_size, max_decoding_length=longest, max_batch_size=size,
                                           length_penalty=0.6)
        return [[ids[piece] for piece in result.hypotheses[0]] for result in found]

    return DecodingSystem(ctranslate2.__version__, decode)


def _convert(shape: Shape, pieces: list[str], weights: Path, folder: Path) -> None:
    model = marian.convert(torch.load(weights)["weights"], shape)
    model.config.normalize_before = model.config.normalize_embedding = False
    # The loader of Marian drops the last symbol and starts from a zero vector, as that toolkit does; not so here.
    spec = converters.BartLoader.get_model_spec(converters.MarianMTLoader(), model)
    spec.decoder.start_from_zero_embedding = False
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    config = spec.config
    config.bos_token = config.decoder_start_token = pieces[BEGIN]
    config.eos_token, config.unk_token = pieces[END], pieces[UNKNOWN]
    config.add_source_bos = config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=None)
    os.makedirs(folder, exist_ok=True)
    spec.save(str(folder))
