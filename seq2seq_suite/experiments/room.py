"""Targets that are too long for a decoder, judged by their lengths, and the key that makes room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.data.batching import lengths
from seq2seq_suite.options.search import Search
from seq2seq_suite.options.strategies import StrategyOptions
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.tasks.rows import place_of

_SHOWN = 3  # origins


def without_room(
    options: StrategyOptions, search: Search, task: Task, items: Sequence[Encoded]
) -> tuple[np.ndarray, str]:
    """Which targets need more positions than a parallel decoder has, or more symbols than a search allows.

    Args:
        options: of the strategy; they count the positions.
        search: how long outputs may be.
        task: with its vocabularies.
        items: encoded examples.

    Returns:
        Their indices in `items` (N,) int64, ascending, and the consequence with the key that helps.
    """
    source_lengths, target_lengths = lengths(items)
    step = getattr(task.shape().source, "subsampling", 1)
    sources = torch.from_numpy(-(-source_lengths // step)).long()
    room = options.room(sources)
    if room is None:
        if task.options.target != "text" or options.kind != "autoregressive":
            return np.zeros(0, dtype=np.int64), ""
        limit = (torch.from_numpy(source_lengths) * search.max_length_factor).long() + search.max_length_extra
        return np.flatnonzero(target_lengths > limit.numpy()), (
            "longer than the search allows: raise search.max_length_factor or search.max_length_extra"
        )
    # At most twice the symbols are needed: those of CTC with a blank between equal ones.
    needed = np.array(
        [
            options.needed(items[place].target)
            if target_lengths[place] * 2 > room[place] and target_lengths[place]
            else 0
            for place in range(len(items))
        ],
        dtype=np.int64,
    )
    places = np.flatnonzero(needed > room.numpy())
    if not len(places):
        return places, ""
    return places, (
        f"longer than the decoder's positions, and {options.crowded}: "
        f"{options.more_room(sources[places], torch.from_numpy(needed[places]))}"
    )


def tell_room(
    options: StrategyOptions, search: Search, task: Task, split: str, items: Sequence[Encoded], origins: Sequence[str]
) -> None:
    """Print how many targets of a split are too long.

    Raises:
        DataError: none of the training split does, so that nothing can be learned.
    """
    places, why = without_room(options, search, task, items)
    if len(places):
        refuse_all(options, split, len(places) == len(items), why, origins[int(places[0])])
        named = ", ".join(origins[int(place)] for place in places[:_SHOWN])
        print(
            f"{split}: {len(places):,} of {len(items):,} targets are {why}: {named}{', ...' * (len(places) > _SHOWN)}"
        )


def refuse_all(options: StrategyOptions, split: str, every: bool, why: str, origin: str) -> None:
    """Raises DataError where `every` target of the training split is without room, the first of them at `origin`."""
    if every and split.endswith("train") and options.needs_room:
        raise DataError(
            f"all targets of {split} are {why.partition(',')[0]}",
            **place_of(origin),
            expected="targets that a decoder has room for",
            remedy=why.partition(": ")[2],
        )
