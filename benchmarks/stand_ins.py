"""Small pretrained models for where none can be downloaded: a Marian that translates, a T5 that restores spans.

transformers' own classes with random weights, trained by a plain PyTorch loop, and written with the files that OPUS-MT
and T5 have on the Hub, tokenizers included.

Source: Junczys-Dowmunt et al. 2018 (Marian); Raffel et al. 2020, section 3.1.4 (15 % of the pieces, spans of 3).
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from seq2seq_suite.training.muon import Muon
from seq2seq_suite.training.optimizer import set_rate

WIDTH, INNER, HEADS, LAYERS = 128, 512, 4, 3
PIECES = {"marian": 3000, "t5": 4000}  # of each side; of all texts
SENTINELS, NOISE, SPAN = 100, 0.15, 3
IGNORED = -100  # a label without a loss, in transformers
Pair = tuple[list[int], list[int]]  # ids of a source and of a target


def marian(folder: Path, pairs: Sequence[tuple[str, str]], *, minutes: float, seed: int, tokens: int) -> dict[str, Any]:
    """Write a `MarianMTModel` that has learned to translate.

    Args:
        folder: which is made.
        pairs: sentence and translation, English and German.
        minutes: of CPU time.
        seed: of the weights and of the batches.
        tokens: padded pieces of both sides in a batch.

    Returns:
        What it cost: `updates`, `epochs`, CPU `seconds`, the last `loss` and the `parameters`.
    """
    transformers = _transformers()
    models = [_pieces(side, PIECES["marian"]) for side in zip(*pairs, strict=True)]
    sides = [_processor(model) for model in models]
    own = sorted({side.id_to_piece(number) for side in sides for number in range(3, len(side))})
    vocabulary = {name: number for number, name in enumerate(["</s>", "<unk>", *own, "<pad>"])}
    pad = len(vocabulary) - 1
    both = {
        f"{stack}_{key}": value
        for stack in ("encoder", "decoder")
        for key, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", INNER))
    }
    sizes = {"vocab_size": pad + 1, "d_model": WIDTH, "max_position_embeddings": 512, **both}
    symbols = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    config = transformers.MarianConfig(activation_function="swish", scale_embedding=True, **sizes, **symbols)
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config)

    def encoded(text: str, side: Any) -> list[int]:
        return [*(vocabulary.get(piece, 1) for piece in side.encode(text, out_type=str)), 0]

    numbers = [(encoded(source, sides[0]), encoded(target, sides[1])) for source, target in pairs]
    cost = _train(model, lambda draw: numbers, pad=pad, minutes=minutes, seed=seed, tokens=tokens)
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    for name, content in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(content)
    kind = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")
    return cost


def t5(folder: Path, texts: Sequence[str], *, minutes: float, seed: int, tokens: int) -> dict[str, Any]:
    """Write a `T5ForConditionalGeneration` that has learned to restore spans of texts; see `marian`."""
    transformers = _transformers()
    content = _pieces(texts, PIECES["t5"], pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    own = _processor(content)
    size = len(own) + SENTINELS
    stacks = {"num_layers": LAYERS, "num_decoder_layers": LAYERS, "num_heads": HEADS}
    config = transformers.T5Config(
        vocab_size=size, d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=INNER, decoder_start_token_id=0, **stacks
    )
    torch.manual_seed(seed)
    model = transformers.T5ForConditionalGeneration(config)
    numbers = [ids for ids in own.encode(list(texts)) if len(ids) > 3]
    cost = _train(
        model,
        lambda draw: [corrupted(ids, size, draw) for ids in numbers],
        pad=0,
        minutes=minutes,
        seed=seed,
        tokens=tokens,
    )
    model.save_pretrained(folder)
    (folder / "spiece.model").write_bytes(content)
    kind = {"tokenizer_class": "T5Tokenizer", "extra_ids": SENTINELS}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")
    return cost


def generated(folder: Path, texts: Sequence[str], longest: Callable[[int], int]) -> list[str]:
    """What transformers' greedy search writes with an exported model, a text at a time, of several spaces one.

    Args:
        folder: the model's.
        texts: its sources.
        longest: how many pieces an output may have for that many of a source, the end of both included.
    """
    transformers = _transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found = []
    for text in texts:
        batch = tokenizer(text, return_tensors="pt")
        most = longest(batch["input_ids"].size(1))
        ids = model.generate(**batch, num_beams=1, max_length=most + 1)[0]  # and what it begins with
        found.append(" ".join(tokenizer.decode(ids, skip_special_tokens=True).split()))
    return found


def use(threads: int) -> None:
    """Bound PyTorch's threads."""
    torch.set_num_threads(threads)


def corrupted(ids: Sequence[int], size: int, draw: random.Random) -> Pair:
    """A text with spans in the place of which sentinels stand, and the spans behind theirs; both end with 1.

    Args:
        ids: of its pieces, four or more.
        size: of the vocabulary, whose last number is the first sentinel.
        draw: of random numbers.

    >>> corrupted(range(10, 20), 100, random.Random(1))
    ([10, 11, 99, 14, 15, 16, 17, 18, 19, 1], [99, 12, 13, 98, 1])
    """
    spans = max(1, round(len(ids) * NOISE / SPAN))
    noise = max(spans, round(len(ids) * NOISE))
    lengths, kept = _parts(noise, spans, draw), _parts(len(ids) - noise, spans + 1, draw)
    source, target, place = list(ids[: kept[0]]), [], kept[0]
    for number, length in enumerate(lengths):
        sentinel = size - 1 - number
        source.append(sentinel)
        target += [sentinel, *ids[place : place + length]]
        place += length
        source += ids[place : place + kept[number + 1]]
        place += kept[number + 1]
    return [*source, 1], [*target, size - 1 - spans, 1]


def _parts(total: int, count: int, draw: random.Random) -> list[int]:
    """`count` random numbers above 0, whose sum is `total`."""
    cuts = [0, *sorted(draw.sample(range(1, total), count - 1)), total]
    return [end - begin for begin, end in pairwise(cuts)]


def _train(
    model: Any,
    epoch: Callable[[random.Random], Sequence[Pair]],
    *,
    pad: int,
    minutes: float,
    seed: int,
    tokens: int,
    peak: float = 1e-3,
) -> dict[str, Any]:
    """Train with Muon, embeddings and norms with AdamW; the rate rises for a tenth of the CPU time and falls to 0."""
    draw, optimizers = random.Random(seed), _optimizers(model)
    begin, updates, epochs, loss = time.process_time(), 0, 0.0, torch.tensor(float("nan"))
    model.train()
    while (share := (time.process_time() - begin) / (60 * minutes)) < 1:
        pairs = epoch(draw)
        for batch in _batches(pairs, tokens, draw):
            if (share := (time.process_time() - begin) / (60 * minutes)) >= 1:
                break
            for optimizer in optimizers:
                set_rate(optimizer, peak * min(share / 0.1, (1 - share) / 0.9))
            sources, targets = _padded([one for one, _ in batch], pad), _padded([two for _, two in batch], IGNORED)
            with torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported()):
                loss = model(input_ids=sources, attention_mask=sources != pad, labels=targets).loss
            model.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            updates, epochs = updates + 1, epochs + len(batch) / len(pairs)
    seconds, parameters = time.process_time() - begin, sum(one.numel() for one in model.parameters())
    return {
        "updates": updates,
        "epochs": round(epochs, 2),
        "seconds": round(seconds, 1),
        "loss": round(loss.item(), 3),
        "parameters": parameters,
    }


def _optimizers(model: Any) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between hidden states, at three times the rate of AdamW, which has the rest.

    T5 does not divide its scores by the root of a head's width: its queries do, and so does their rate.
    """
    linear = {n: part.weight for n, part in model.named_modules() if isinstance(part, nn.Linear) and n != "lm_head"}
    queries = [weight for name, weight in linear.items() if name.endswith(".q")]
    matrices = [weight for name, weight in linear.items() if not name.endswith(".q")]
    both = {*queries, *matrices}
    rest = [one for one in model.parameters() if one not in both]
    groups = [{"params": matrices, "factor": 3.0}, {"params": queries, "factor": 3.0 * (WIDTH // HEADS) ** -0.5}]
    return [
        Muon([group for group in groups if group["params"]], lr=0.0, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=0.0, weight_decay=0.01),
    ]


def _batches(pairs: Sequence[Pair], tokens: int, draw: random.Random) -> Iterator[list[Pair]]:
    """All pairs once, those of like length together, batches in random order."""
    order = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), draw.random()))
    found: list[list[Pair]] = [[]]
    for pair in order:
        if found[-1] and (len(found[-1]) + 1) * (len(pair[0]) + len(pair[1])) > tokens:
            found.append([])
        found[-1].append(pair)
    draw.shuffle(found)
    yield from found


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """(B,T) int64."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def _pieces(texts: Sequence[str], size: int, **numbers: Any) -> bytes:
    """SentencePiece's unigram model of texts, of fewer pieces where they have not as many."""
    from sentencepiece import SentencePieceTrainer

    buffer = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=buffer,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=0.9999,
        num_threads=1,
        minloglevel=2,
        **numbers,
    )
    return buffer.getvalue()


def _processor(model: bytes) -> Any:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model)


def _transformers() -> Any:
    """transformers, which without this looks for a torchaudio that text does not need."""
    sys.modules.setdefault("torchaudio", None)  # pyright: ignore[reportArgumentType]
    import transformers

    return transformers
