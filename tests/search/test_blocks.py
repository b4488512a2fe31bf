"""Decoding in blocks: verified is greedy search; left and any against loops without a cache; every output is valid."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from daily import daily
from making import SHAPE, auxiliaries_of, strategy_of, with_ctc
from plain import alone
from task_tools import make_task

from seq2seq_suite import kernels
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import Shape, SoundShape, TargetShape, TokenShape
from seq2seq_suite.common.types import BEGIN, END, Batch
from seq2seq_suite.data.batching import collate
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.blocks import MASK
from seq2seq_suite.search.logit_processors import EXCLUDED
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.block_language_model import BlockLanguageModel
from seq2seq_suite.strategies.blocks import Blocks, Layout
from seq2seq_suite.strategies.language_model import LanguageModel

SMALL = Shape(TokenShape(11), TargetShape(6))  # two symbols that may be written, so that drafts are often right
TEXT = ({}, {"min_length": 4}, {"no_repeat_ngram": 2}, {"repetition_penalty": 3.0}, {"begin": [[5, 4], [5, 0], [0, 0]]})


def assert_same(found, expected):
    for (ours, *_), (theirs, *_) in zip(found, expected, strict=True):
        assert (ours.symbols, ours.complete) == (theirs.symbols, theirs.complete)
        assert ours.score == pytest.approx(theirs.score, rel=1e-3, abs=1e-4)
        assert {**ours.details, "passes": ()} == {**theirs.details, "passes": ()}


def verified(model, strategy, batch: Batch, limits: list[int], *, constraint=None, expect=None, **options) -> int:
    """How many passes greedy search needs more, with blocks of several lengths; all outputs are greedy search's."""
    asked = {"limit": torch.tensor(limits), "constraint": constraint}
    expected = (expect or strategy).generate(model, batch, options=SearchOptions(block=1, **options), **asked)
    saved = 0
    for size in (2, 3, 7):
        found = strategy.generate(model, batch, options=SearchOptions(block=size, order="verified", **options), **asked)
        assert_same(found, expected)
        saved += sum(len(one.symbols) + 1 - one.details["passes"][-1] for one, *_ in found)
    return saved


BACKBONES = (
    {},
    {"norm_placement": "post"},
    {"positions": "learned"},
    {"encoder": "none"},
    {"attention_score": "additive"},
    {"experts": 3},
)


@pytest.mark.parametrize(
    ("backbone", "kernel"),
    daily(product(BACKBONES, kernels.KINDS), ({}, "plain"), ({}, "fast"), ({"encoder": "none"}, "fast")),
    ids=str,
)
def test_verified_outputs_are_those_of_greedy_search(make_model, make_batch, backbone, kernel):
    saved = 0
    for seed in range(6):
        model = make_model(SMALL, noise=0.6, seed=seed, kernel=kernel, **backbone)
        batch = make_batch([5, 3, 4, 6], [2] * 4, seed=seed, target_symbols=6)
        saved += verified(
            model,
            strategy_of(Blocks, kernel=kernel, copy_ratio=1.5 if seed % 2 and not backbone else 0.0),
            batch,
            [9, 16, 12, 1],
            expect=strategy_of(Autoregressive, kernel=kernel),
        )
    assert saved > 20


@pytest.mark.parametrize("options", TEXT, ids=str)
def test_verified_is_greedy_where_what_is_written_restrains(make_model, make_batch, options):
    for seed in range(3):
        model, batch = make_model(noise=0.5, seed=seed), make_batch([5, 3, 4], [2] * 3, seed=seed)
        if "begin" in options:
            batch = replace(batch, auxiliary={"begin": torch.tensor(options["begin"])})
        others = {name: value for name, value in options.items() if name != "begin"}
        verified(model, strategy_of(Blocks), batch, [9, 12, 7], **others)


def test_processors_of_the_users_own_restrain_blocks(make_model, make_batch, monkeypatch):
    def never_twice(scores, rows):
        return scores.scatter(1, rows.history.symbols[:, -1:], float("-inf"))

    monkeypatch.setattr(SearchOptions, "own_processors", lambda options: [never_twice])
    for seed in range(3):
        model, batch = make_model(noise=0.5, seed=seed), make_batch([5, 3, 4], [2] * 3, seed=seed)
        found = []
        for given in ({"block": 1}, {"order": "verified"}, {"order": "left"}, {"order": "any"}):
            options = SearchOptions(**given).changed(processors=("own.py:never_twice",))
            found.append(
                strategy_of(Blocks, block=4).generate(model, batch, options=options, limit=torch.tensor([9, 12, 7]))
            )
        assert_same(found[1], found[0])
        assert all(
            one != other
            for hypotheses in found
            for (best,) in hypotheses
            for one, other in zip(best.symbols, best.symbols[1:], strict=False)
        )


@pytest.mark.parametrize("linearisation", ["in_order", "brackets", "tetra_tags"])
@pytest.mark.parametrize("guide", daily([True, False], True))
def test_verified_is_greedy_for_guided_trees(make_model, make_parsing, linearisation, guide):
    task, examples = make_parsing(linearisation, guide=guide)
    batch, shape = collate(task.encode(examples), "parsing"), task.shape()
    limits, saved = [3 * len(example.source) + 4 for example in examples], 0
    for seed in range(3):
        strategy = strategy_of(Blocks, target=shape.target, auxiliaries=auxiliaries_of(shape))
        saved += verified(
            make_model(shape, seed=seed, noise=0.5), strategy, batch, limits, constraint=task.constraint()
        )
    assert saved > 0


@pytest.mark.parametrize("weight", [0.3, 0.9])
def test_verified_is_greedy_with_the_scores_of_ctc(make_model, make_batch, weight):
    for seed in range(3):
        batch = make_batch([5, 3, 4], [2] * 3, seed=seed)
        strategy = strategy_of(Blocks, auxiliaries=with_ctc().auxiliaries)
        verified(make_model(SHAPE, noise=0.5, seed=seed), strategy, batch, [9, 12, 7], ctc_weight=weight)


def test_verified_is_greedy_on_sound(make_model):
    shape = Shape(SoundShape(mean=(0.0,) * 8, deviation=(1.0,) * 8, subsampling=2, transcript=6), TargetShape(6))
    saved = 0
    for seed in range(3):
        torch.manual_seed(seed)
        mask = torch.arange(20) < torch.tensor([20, 13, 17]).unsqueeze(1)
        target = torch.full((3, 1), END)
        batch = Batch(torch.randn(3, 20, 8), mask, target, target == END, target != END, "test")
        strategy = strategy_of(Blocks, auxiliaries=auxiliaries_of(shape, ctc=0.5))
        saved += verified(make_model(shape, seed=seed, noise=0.6), strategy, batch, [9, 14, 12])
        verified(make_model(shape, seed=seed, noise=0.6), strategy, batch, [9, 14, 12], ctc_weight=0.4)
    assert saved > 0


def tagged() -> tuple:
    """A tagging task, its examples and a batch of them."""
    task = make_task("tagging")
    rows = [("the", "dog", "barks"), ("she", "sings"), ("the", "small", "dog", "sees", "her", "now")]
    examples = [Example(words, tuple("AB"[len(word) % 2] for word in words)) for words in rows]
    task.fit(examples)
    return task, examples, collate(task.encode(examples), "tagging")


def test_verified_is_greedy_for_tags(make_model):
    task, _, batch = tagged()
    for seed in range(3):
        model = make_model(task.shape(), seed=seed, noise=0.5)
        saved = verified(
            model, strategy_of(Blocks, target=task.shape().target), batch, [9, 9, 9], constraint=task.constraint()
        )
    assert saved > 0


@pytest.mark.parametrize("order", ["left", "any", "verified"])
def test_texts_are_continued_behind_what_is_given(make_model, make_batch, order):
    model, batch = make_model(SMALL, encoder="none", noise=0.5), make_batch([5, 3, 4], [3, 5, 3], target_symbols=6)
    target, limit = batch.target.masked_fill(batch.target == END, 4), torch.tensor([9, 7, 8])
    batch = replace(batch, target=target, given=batch.target_mask, indices=(0, 1, 2))
    strategy = strategy_of(BlockLanguageModel, block=3)
    greedy = strategy_of(LanguageModel).generate(model, batch, options=SearchOptions(), limit=limit)
    found = strategy.generate(model, batch, options=SearchOptions(order=order), limit=limit)
    if order == "verified":
        assert_same(found, greedy)
    for row in range(3):
        one = strategy.generate(
            model, alone(batch, row), options=SearchOptions(order=order), limit=limit[row : row + 1]
        )
        assert_same(one, found[row : row + 1])


@torch.no_grad()
def plainly(
    model, strategy: Blocks, batch: Batch, size: int, limit: int, order: str, threshold: float
) -> tuple[list[int], list[int]]:
    """The output of a batch of one, END included, and the pass that wrote each symbol, by a training pass a time."""
    memory, symbols, passes, number = strategy.encode_source(model, batch), [], [], 0
    while True:
        width, last = size, limit - 1 - len(symbols)
        written: list[int | None] = [None] * width
        when = [0] * width
        while None in written:
            number += 1
            target = torch.tensor([[*symbols, *(MASK if one is None else one for one in written)]])
            ones = torch.ones_like(target, dtype=torch.bool)
            layout = Layout.of(replace(batch, target=target, target_mask=ones, given=~ones), size, tail=False)
            hidden = torch.tensor([[*[False] * len(symbols), *(one is None for one in written)]])
            states, _ = Blocks.states(model, replace(batch, target=target, target_mask=ones), memory, layout, hidden)
            logits = model.logits(states, memory)[0, len(symbols) :]
            logits[:, list(EXCLUDED)] = float("-inf")
            scores = logits.softmax(-1)
            if last < width:  # only END is possible, of the probability that it has
                scores[last, [symbol for symbol in range(scores.size(1)) if symbol != END]] = -1.0
            best = [int(row.argmax()) if one is None else one for row, one in zip(scores, written, strict=True)]
            sure = [float(row.max()) if one is None else 2.0 for row, one in zip(scores, written, strict=True)]
            if END in best:
                end = best.index(END)
                best[end:], sure[end + 1 :] = [END] * (width - end), [sure[end]] * (width - end - 1)
            free = [place for place, one in enumerate(written) if one is None]
            chosen = {free[0]} if order == "left" else {max(free, key=lambda place: (sure[place], -place))}
            for place in range(width):
                if sure[place] >= threshold:
                    chosen.add(place)
                elif order == "left":
                    break
            kept = [place for place in range(width) if written[place] is not None]
            if any(best[place] == END for place in (*chosen, *kept)):
                first = min(place for place in (*chosen, *kept) if best[place] == END)
                chosen |= set(range(first, width))
            for place in sorted(chosen):
                if written[place] is None or best[place] == END != written[place]:
                    when[place] = number if written[place] is None else when[place]
                    written[place] = best[place]
        symbols += written
        passes += when
        if END in written:
            length = symbols.index(END) + 1
            return symbols[:length], passes[:length]


@pytest.mark.parametrize("kernel", daily(kernels.KINDS, "fast"))
@pytest.mark.parametrize("order", ["left", "any"])
@pytest.mark.parametrize("threshold", daily([0.0, 0.5, 0.8, 1.0], 0.5, 1.0))
def test_a_search_is_its_plain_loop(make_model, make_batch, order, threshold, kernel):
    for seed in range(4):
        model = make_model(SMALL, noise=0.6, seed=seed, kernel=kernel)
        batch, limits = make_batch([5, 3, 4], [2] * 3, seed=seed, target_symbols=6), [11, 8, 2]
        strategy = strategy_of(Blocks, kernel=kernel, copy_ratio=seed / 2)
        for size in (2, 5):
            found = strategy.generate(
                model,
                batch,
                limit=torch.tensor(limits),
                options=SearchOptions(block=size, order=order, threshold=threshold),
            )
            for row, most in enumerate(limits):
                symbols, passes = plainly(model, strategy, alone(batch, row), size, most, order, threshold)
                assert found[row][0].symbols == tuple(symbols[:-1]), (seed, size, row)
                assert found[row][0].details["passes"] == tuple(passes), (seed, size, row)
                assert found[row][0].complete == (len(symbols) < most)


def test_a_threshold_of_zero_writes_a_block_in_a_pass(make_model, make_batch):
    model, batch = make_model(noise=0.5), make_batch([5, 3], [2, 2])
    for order in ("left", "any"):
        for (best,) in strategy_of(Blocks, block=4).generate(
            model, batch, options=SearchOptions(order=order, threshold=0.0), limit=torch.tensor([14, 9])
        ):
            assert list(best.details["passes"]) == [1 + place // 4 for place in range(len(best.symbols) + 1)]


@pytest.mark.parametrize("order", ["left", "any"])
@pytest.mark.parametrize("threshold", daily([0.0, 0.3, 1.0], 0.3))
@pytest.mark.parametrize(("linearisation", "guide"), [("in_order", True), ("brackets", False), ("tetra_tags", True)])
def test_every_output_is_a_tree_over_the_words(make_model, make_parsing, linearisation, guide, threshold, order):
    task, examples = make_parsing(linearisation, guide=guide)
    batch, shape = collate(task.encode(examples), "parsing"), task.shape()
    limits = torch.tensor([3 * len(example.source) + 4 for example in examples])
    for seed in range(2):
        model, strategy = make_model(shape, seed=seed, noise=0.8), strategy_of(Blocks, target=shape.target)
        for size in (3, 64):
            options = SearchOptions(block=size, order=order, threshold=threshold)
            found = strategy.generate(model, batch, options=options, limit=limits, constraint=task.constraint())
            for row, ((best,), example) in enumerate(zip(found, examples, strict=True)):
                tree = task.read_hypothesis(best, example)
                assert tree is not None and tuple(tree.words()) == example.source and len(best.symbols) < limits[row]
                assert min(best.details["passes"]) > 0 and best.score > float("-inf")


@pytest.mark.parametrize("order", ["left", "any", "verified"])
@pytest.mark.parametrize("linearisation", ["in_order", "tetra_tags"])
def test_a_sentence_alone_is_written_as_in_a_padded_batch(make_model, make_parsing, order, linearisation):
    task, examples = make_parsing(linearisation)
    items, shape = task.encode(examples), task.shape()
    limits = [3 * len(example.source) + 4 for example in examples]
    model, strategy = make_model(shape, noise=0.5), strategy_of(Blocks, target=shape.target)
    options = SearchOptions(block=4, order=order, **({} if order == "verified" else {"threshold": 0.4}))
    found = strategy.generate(
        model, collate(items, "parsing"), options=options, limit=torch.tensor(limits), constraint=task.constraint()
    )
    for item, together, most in zip(items, found, limits, strict=True):
        one = strategy.generate(
            model, collate([item], "parsing"), options=options, limit=torch.tensor([most]), constraint=task.constraint()
        )
        assert_same(one, [together])
        assert one[0][0].details["passes"] == together[0].details["passes"]


@pytest.mark.parametrize("order", ["left", "any"])
@pytest.mark.parametrize("options", TEXT[1:], ids=str)
def test_what_restrains_greedy_search_restrains_blocks(make_model, make_batch, order, options):
    for seed in range(3):
        model, batch = make_model(noise=0.5, seed=seed), make_batch([5, 3, 4], [2] * 3, seed=seed)
        if "begin" in options:
            batch = replace(batch, auxiliary={"begin": torch.tensor(options["begin"])})
        others = {name: value for name, value in options.items() if name != "begin"}
        found = strategy_of(Blocks).generate(
            model, batch, limit=torch.tensor([9, 12, 7]), options=SearchOptions(order=order, threshold=0.3, **others)
        )
        for row, (best,) in enumerate(found):
            if "min_length" in options:
                assert len(best.symbols) >= 4
            if "no_repeat_ngram" in options:
                pairs = list(zip(best.symbols, best.symbols[1:], strict=False))
                assert len(pairs) == len(set(pairs))
            if "begin" in options:
                begin = [symbol for symbol in options["begin"][row] if symbol]
                assert list(best.symbols[: len(begin)]) == begin


def test_begin_is_no_symbol_of_an_output(make_model, make_batch):
    found = strategy_of(Blocks).generate(
        make_model(noise=1.0), make_batch([5, 3], [2, 2]), options=SearchOptions(), limit=torch.tensor([30, 30])
    )
    assert not {symbol for (best,) in found for symbol in best.symbols} & {*EXCLUDED, BEGIN, END}
