"""Segments, sentences as vectors, and stacks whose layers are applied several times."""

import pytest
import torch
from making import num_parameters

from seq2seq_suite.common.shapes import SentenceShape, Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import PAD
from seq2seq_suite.model.build import token_embedding
from seq2seq_suite.model.frontends import Tokens
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.positions import NoPositions
from seq2seq_suite.model.segments import Segments, Sentences

WIDTH = 16


def sentences_of(roughen) -> Sentences:
    torch.manual_seed(1)
    embedding = token_embedding(12, WIDTH, padding_idx=PAD)
    return roughen(Sentences(embedding, segments=Segments(5, WIDTH), dropout_rate=0.0))


def test_tokens_add_the_vector_of_their_segment(roughen):
    torch.manual_seed(1)
    segments = roughen(Segments(4, WIDTH))
    tokens = Tokens(token_embedding(9, WIDTH), positions=NoPositions(), dropout_rate=0.0, segments=segments)
    source = torch.tensor([[[5, 0], [6, 2], [6, 3], [5, 7]]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    expected = 4.0 * tokens.embedding.weight[source[0, :, 0]] + segments.embedding.weight[torch.tensor([0, 2, 3, 3])]
    torch.testing.assert_close(tokens(source, mask).values[0], expected)


def test_different_segments_begin_with_different_vectors():
    vectors = Segments(64, 32).embedding.weight
    assert torch.cdist(vectors, vectors).add(torch.eye(64) * 9).min() > 0.1


def test_jitter_keeps_order_and_the_question_and_works_in_training_only():
    torch.manual_seed(2)
    segments = Segments(40, 2, jitter=0.3)
    with torch.no_grad():
        segments.embedding.weight.copy_(torch.arange(40.0).unsqueeze(1).expand(-1, 2))
    numbers = torch.tensor([[0, 0, 1, 2, 2, 9]]).expand(500, -1)
    moved = segments(numbers)[..., 0]
    assert (moved[:, :2] == 0).all() and torch.equal(moved[:, 3], moved[:, 4])
    assert (moved[:, 2] < moved[:, 3]).all() and (moved[:, 4] < moved[:, 5]).all()
    shifts = (moved - numbers).mean(0)
    torch.testing.assert_close(shifts[[2, 3, 5]], torch.tensor([0.3, 0.6, 2.7]), rtol=0.0, atol=0.15)
    assert torch.equal(segments.eval()(numbers)[..., 0], numbers.float())


def test_a_sentence_is_the_masked_sum_of_its_words_in_plain_loops(roughen):
    front_end = sentences_of(roughen)
    source = torch.tensor([[[5, 6, 7], [8, 0, 0]]])
    values = front_end(source, torch.ones(1, 2, dtype=torch.bool)).values
    for place, words in enumerate(([5, 6, 7], [8])):
        total = torch.zeros(WIDTH)
        for index, word in enumerate(words):
            total += front_end.mask[index] * front_end.embedding.weight[word]
        torch.testing.assert_close(values[0, place], 4.0 * total + front_end.segments.embedding.weight[place])


def test_the_order_of_words_in_a_sentence_matters_and_padding_does_not(roughen):
    front_end = sentences_of(roughen)
    mask = torch.ones(1, 1, dtype=torch.bool)
    one, other = (front_end(torch.tensor([[words]]), mask).values for words in ([5, 6, 7], [7, 6, 5]))
    padded = front_end(torch.tensor([[[5, 6, 7, 0, 0]]]), mask).values
    torch.testing.assert_close(one, padded)
    assert not torch.allclose(one, other, atol=1e-2)
    one.square().sum().backward()
    assert front_end.mask.grad[:3].any() and not front_end.embedding.weight.grad[0].any()


def test_words_beyond_the_last_place_share_its_mask(roughen):
    front_end = sentences_of(roughen)
    long = torch.full((1, 1, front_end.max_words + 5), 5)
    changed = long.clone()
    changed[0, 0, -1], changed[0, 0, -2] = 6, 5
    swapped = long.clone()
    swapped[0, 0, -1], swapped[0, 0, -2] = 5, 6
    mask = torch.ones(1, 1, dtype=torch.bool)
    torch.testing.assert_close(front_end(changed, mask).values, front_end(swapped, mask).values)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_more_steps_cost_a_vector_each_and_padding_changes_nothing(make_model, make_batch, positions):
    once, often = (make_model(encoder_steps=steps, positions=positions) for steps in (2, 6))
    assert num_parameters(often) - num_parameters(once) == 4 * (WIDTH + 1)
    batch = make_batch([3, 5], [2, 2])
    alone = make_batch([3, 5], [2, 2])
    alone = type(alone)(
        alone.source[:1, :3],
        alone.source_mask[:1, :3],
        alone.target[:1],
        alone.target_mask[:1],
        alone.given[:1],
        "test",
    )
    torch.testing.assert_close(often.encode(batch).values[0, :3], often.encode(alone).values[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sentences", [False, True])
def test_a_task_with_segments_gets_their_front_end(make_model, make_batch, sentences):
    model = make_model(Shape((SentenceShape if sentences else TokenShape)(11, 5, 0.1), TargetShape(9)))
    assert isinstance(model.frontend, Sentences if sentences else Tokens)
    assert model.frontend.segments.jitter == 0.1
    source = torch.randint(4, 5, (2, 6, 2))
    batch = make_batch([6, 4], [2, 2])
    states = model.frontend(source, batch.source_mask)
    assert states.values.shape == (2, 6, WIDTH)


@torch.inference_mode()
@pytest.mark.parametrize("pieces", [(1,) * 6, (2, 1, 3)])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_universal_decoder_with_a_cache_is_one_without(make_model, make_batch, positions, placement, pieces):
    model = make_model(decoder_steps=3, positions=positions, norm_placement=placement)
    batch = make_batch([3, 5], [6, 6])
    states = model.encode(batch)
    memory, cache, outputs = model.prepare(states), model.decoder.new_cache(states.values), []
    for length in pieces:
        first = cache.length
        x = model.embed(batch.target[:, first : first + length], memory, offset=first)
        hidden, cache = model.decode(x, causal(length, past=first), memory, cache)
        outputs.append(hidden)
    expected, _ = model.decode(model.embed(batch.target, memory), causal(6), memory)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, rtol=1e-4, atol=1e-5)
    assert cache.length == 6 and len(cache.layers) == 6
