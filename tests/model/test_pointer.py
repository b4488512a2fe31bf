"""Copying against its definition in plain loops, and through training and search."""

import math
from dataclasses import replace

import pytest
import torch
from making import strategy_of
from torch.nn import functional

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import States
from seq2seq_suite.model.pointer import Pointer, smoothed_cross_entropy
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive

WIDTH, SYMBOLS = 8, 10
SHAPE = Shape(TokenShape(SYMBOLS, copied=True), TargetShape(SYMBOLS))


def some(roughen, *, sentences: int = 2, beams: int = 1, length: int = 3):
    torch.manual_seed(1)
    pointer = roughen(Pointer(WIDTH), noise=0.5)
    symbols = torch.tensor([[4, 7, 4, 3, 9], [5, 5, 8, 6, 6]])[:sentences]
    mask = torch.arange(5) < torch.tensor([[5], [3]])[:sentences]
    states = States(torch.randn(sentences, 5, WIDTH), mask, symbols)
    rows = sentences * beams
    return pointer, torch.randn(rows, length, WIDTH), torch.randn(rows, length, SYMBOLS), states


@torch.no_grad()
def in_plain_loops(pointer, hidden, logits, memory, symbols) -> list[float]:
    """p of every symbol for one hidden state (D,), logits (V,), memory (S,D) and its symbols."""
    written = [math.exp(value) for value in logits.tolist()]
    probabilities = [value / sum(written) for value in written]
    copyable = [place for place, symbol in enumerate(symbols) if symbol >= 4]
    query = pointer.query.weight @ hidden
    scores = {place: math.exp(float(query @ (pointer.key.weight @ memory[place])) / WIDTH**0.5) for place in copyable}
    pointed = sum(scores[place] / sum(scores.values()) * memory[place] for place in copyable)
    gate = torch.sigmoid(pointer.gate.weight[0] @ torch.cat((hidden, pointed)) + pointer.gate.bias[0]).item()
    mixed = [gate * value for value in probabilities]
    for place in copyable:
        mixed[symbols[place]] += (1 - gate) * scores[place] / sum(scores.values())
    return mixed


@pytest.mark.parametrize("beams", [1, 3])
def test_probabilities_are_those_of_plain_loops(roughen, beams):
    pointer, hidden, logits, states = some(roughen, beams=beams)
    found = pointer(hidden, logits, states).exp()
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:2]))
    for row in range(hidden.size(0)):
        sentence = row // beams
        size = int(states.mask[sentence].sum())
        for column in range(hidden.size(1)):
            expected = in_plain_loops(
                pointer,
                hidden[row, column],
                logits[row, column],
                states.values[sentence, :size],
                states.symbols[sentence, :size].tolist(),
            )
            torch.testing.assert_close(found[row, column], torch.tensor(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [30, 300])
def test_probabilities_add_up_to_one_however_far_apart_the_logits_are(roughen, size):
    pointer, hidden, logits, states = some(roughen)
    logits = (size * logits).requires_grad_()
    found = pointer(hidden, logits, states)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(found.shape[:2]), rtol=1e-4, atol=0.0)
    found.sum().backward()
    assert logits.grad.isfinite().all()


def test_where_nothing_can_be_copied_the_vocabulary_alone_speaks(roughen):
    pointer, hidden, logits, states = some(roughen, sentences=1)
    blank = States(states.values, states.mask, torch.full_like(states.symbols, 3))
    found = pointer(hidden.requires_grad_(), logits, blank)
    torch.testing.assert_close(found, logits.log_softmax(-1))
    found.sum().backward()
    assert hidden.grad.isfinite().all()


def test_the_loss_is_that_of_torch_and_reaches_every_weight(roughen):
    pointer, hidden, logits, states = some(roughen)
    found, targets = pointer(hidden, logits, states).flatten(0, 1), torch.tensor([4, 7, 2, 5, 8, 2])
    for smoothing in (0.0, 0.2):
        expected = functional.cross_entropy(found, targets, reduction="sum", label_smoothing=smoothing)
        torch.testing.assert_close(smoothed_cross_entropy(found, targets, smoothing), expected)
    smoothed_cross_entropy(found, targets, 0.1).backward()
    assert all(parameter.grad.isfinite().all() and parameter.grad.any() for parameter in pointer.parameters())


@pytest.mark.parametrize("beam_size", [1, 3])
def test_search_scores_what_training_would(make_model, make_batch, beam_size):
    model, strategy = make_model(SHAPE, tie_embeddings=False), strategy_of(Autoregressive)
    batch = make_batch([4, 6], [3, 2], source_symbols=SYMBOLS, target_symbols=SYMBOLS)
    options = SearchOptions(beam_size=beam_size, length_penalty=0.0)
    with torch.no_grad():
        model.output.bias[2] += 2.0  # outputs of different lengths
    found = strategy.generate(model, batch, options=options, limit=torch.tensor([6, 9]))
    for row, hypotheses in enumerate(found):
        symbols = torch.tensor([[*hypotheses[0].symbols, 2]])  # one that the limit cuts pays for its END too
        mask = torch.ones_like(symbols, dtype=torch.bool)
        alone = replace(
            batch,
            source=batch.source[row : row + 1],
            source_mask=batch.source_mask[row : row + 1],
            target=symbols,
            target_mask=mask,
        )
        # The search renormalises without the three symbols that it never writes.
        memory = model.prepare(model.encode(alone))
        previous = torch.cat((torch.ones(1, 1, dtype=torch.int64), symbols[:, :-1]), 1)
        visible = torch.ones(symbols.size(1), symbols.size(1), dtype=torch.bool).tril().unsqueeze(0)
        hidden, _ = model.decode(model.embed(previous, memory), visible, memory)
        logits = model.logits(hidden, memory).index_fill(2, torch.tensor([0, 1, 3]), float("-inf"))
        expected = logits.log_softmax(-1).gather(2, symbols.unsqueeze(2)).sum().item()
        assert hypotheses[0].score == pytest.approx(expected, rel=1e-4)


def test_symbols_with_segments_beside_them_are_copied_too(make_model, make_batch):
    model = make_model(Shape(TokenShape(SYMBOLS, segments=3, copied=True), TargetShape(SYMBOLS)))
    plain = make_batch([4, 6], [3, 2], source_symbols=SYMBOLS, target_symbols=SYMBOLS)
    paired = replace(plain, source=torch.stack((plain.source, torch.ones_like(plain.source)), -1))
    assert torch.equal(model.encode(paired).symbols, plain.source)
    chosen = model.prepare(model.encode(paired)).select(torch.tensor([1]))
    assert torch.equal(chosen.states.symbols, plain.source[1:])
