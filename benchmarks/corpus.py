"""The data of the speed benchmarks: a data set split into pieces, or synthetic pairs of similar lengths."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a corpus is read in processes without PyTorch, too, which the suite's types bring with them
    from seq2seq_suite.common.examples import Encoded

VOCABULARY = 8000
LONGEST = 100  # pieces kept of a sentence


@dataclass(frozen=True)
class Corpus:
    """Pairs of sentences as ids, END included.

    Args:
        name: for the report.
        train, test: (source, target) ids.
        pieces: the vocabulary in order, for programs that want names.
    """

    name: str
    train: list[tuple[list[int], list[int]]]
    test: list[tuple[list[int], list[int]]]
    pieces: list[str]

    def encoded(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[Encoded]:
        """The pairs in the form that the suite's batching needs."""
        import numpy as np

        from seq2seq_suite.common.examples import Encoded

        return [
            Encoded(np.array(source), np.array(target), index=index) for index, (source, target) in enumerate(pairs)
        ]

    def save(self, file: Path) -> None:
        """Write for the processes that measure."""
        file.write_text(json.dumps([self.name, self.train, self.test, self.pieces]), encoding="utf-8")

    @staticmethod
    def load(file: Path) -> Corpus:
        """Read what `save` wrote."""
        return Corpus(*json.loads(file.read_text(encoding="utf-8")))


def synthetic(seed: int, *, train: int = 29_000, test: int = 1_000) -> Corpus:
    """Synthetic pairs with the lengths of Multi30k English-German in 8,000 joint pieces and frequencies after Zipf.

    A target repeats its source in reverse order, shifted by half the vocabulary, so that there is something to
    learn. Lengths are log-normal: source mean 14.2, deviation 4.7; the target has 1.03 of them, deviation 2.7.
    """
    import numpy as np

    from seq2seq_suite.common.types import END, SPECIALS

    generator = random.Random(seed)
    symbols = VOCABULARY - len(SPECIALS)
    weights = np.cumsum(1.0 / np.arange(5, symbols // 2 + 5)).tolist()

    def pair() -> tuple[list[int], list[int]]:
        length = min(LONGEST, max(3, round(generator.lognormvariate(2.608, 0.317))))
        words = generator.choices(range(symbols // 2), cum_weights=weights, k=length)
        kept = max(2, round(1.03 * length + generator.gauss(0, 2.7)))
        target = (words[::-1] * 2)[:kept]
        return (
            [word + len(SPECIALS) for word in words] + [END],
            [word + symbols // 2 + len(SPECIALS) for word in target] + [END],
        )

    pieces = [*SPECIALS, *(f"piece{index}" for index in range(symbols))]
    return Corpus("synthetic", [pair() for _ in range(train)], [pair() for _ in range(test)], pieces)


def from_folder(folder: str, cache: Path) -> Corpus:
    """Rows with `src` and `tgt` in joint SentencePiece BPE; the pieces are learned once and kept in `cache`."""
    import sentencepiece

    from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN
    from seq2seq_suite.data.sources import read_rows

    texts = {
        split: [(row.fields["src"], row.fields["tgt"]) for row in read_rows(folder, split, splits={})]
        for split in ("train", "test")
    }
    key = hashlib.sha256(json.dumps([texts["train"], VOCABULARY]).encode()).hexdigest()[:12]
    model = cache / f"pieces-{key}.model"
    if not model.exists():
        cache.mkdir(parents=True, exist_ok=True)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([text for pair in texts["train"] for text in pair]),
            model_prefix=str(model.with_suffix("")),
            vocab_size=VOCABULARY,
            model_type="bpe",
            character_coverage=1.0,
            num_threads=1,
            minloglevel=2,
            pad_id=PAD,
            bos_id=BEGIN,
            eos_id=END,
            unk_id=UNKNOWN,
            pad_piece=SPECIALS[PAD],
            bos_piece=SPECIALS[BEGIN],
            eos_piece=SPECIALS[END],
            unk_piece=SPECIALS[UNKNOWN],
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def ids(text: str) -> list[int]:
        return [*processor.encode(text)[:LONGEST], END]

    pairs = {split: [(ids(source), ids(target)) for source, target in texts[split]] for split in texts}
    return Corpus(
        Path(folder).name, pairs["train"], pairs["test"], [processor.id_to_piece(index) for index in range(VOCABULARY)]
    )
