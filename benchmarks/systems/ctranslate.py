"""CTranslate2: a C++ engine, the mark to reach. It is measured in a process that never loads PyTorch."""

from __future__ import annotations

from pathlib import Path

import ctranslate2

from benchmarks.corpus import Corpus
from benchmarks.systems import DecodingSystem, Shape


def decoding(
    shape: Shape,
    corpus: Corpus,
    weights: Path,
    *,
    threads: int,
    compute_type: str = "float32",
    bulk: int = 0,
    device: str = "cpu",
) -> DecodingSystem:
    """Its translator over a model that `convert` wrote.

    Args:
        shape: of the model; the converted one knows it.
        corpus: with the names of the pieces.
        weights: the suite's, beside which the converted model lies.
        threads: in all.
        compute_type: float32, bfloat16 or int8.
        bulk: 0 gives it batch after batch on all threads, as the others get them; otherwise it has all sentences at
            once, sorts them itself and translates batches of `bulk` with a worker on each thread.
        device: cpu or cuda.
    """
    workers = threads if bulk else 1
    translator = ctranslate2.Translator(
        str(folder_of(weights)),
        device=device,
        inter_threads=workers,
        intra_threads=threads // workers,
        compute_type=compute_type,
    )
    pieces, ids = corpus.pieces, {piece: index for index, piece in enumerate(corpus.pieces)}

    def decode(sources: list[list[int]], beam_size: int, longest: int, size: int) -> list[list[int]]:
        named = [[pieces[index] for index in source] for source in sources]
        step = len(named) if bulk else size
        return [
            [ids[piece] for piece in result.hypotheses[0]]
            for first in range(0, len(named), step)
            for result in translator.translate_batch(
                named[first : first + step],
                beam_size=beam_size,
                max_decoding_length=longest,
                max_batch_size=bulk,
                length_penalty=0.6,
            )
        ]

    return DecodingSystem(ctranslate2.__version__, decode)


def folder_of(weights: Path) -> Path:
    """Where the converted model lies."""
    return weights.with_suffix(".ctranslate2")


def convert(shape: Shape, pieces: list[str], weights: Path) -> None:
    """Write the suite's weights as CTranslate2 reads them, through Marian; in another process than those measured."""
    import torch
    from ctranslate2.converters import transformers as converters

    from benchmarks.systems import marian
    from seq2seq_suite.common.types import BEGIN, END, UNKNOWN

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
    folder_of(weights).mkdir(parents=True, exist_ok=True)
    spec.save(str(folder_of(weights)))
