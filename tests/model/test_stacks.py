"""Encoder and decoder stacks: padding, causality, and decoding with a cache."""

import itertools
from dataclasses import replace

import pytest
import torch
from daily import daily
from making import num_parameters

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import Batch, States
from seq2seq_suite.model.build import build_model
from seq2seq_suite.model.decoder import TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.options.backbone import SIZES, Backbone

WIDTH = 16
RECURRENT = {"encoder_steps": 2, "decoder_steps": 2}
VARIANTS = [
    {"attention_score": "additive"},
    {"attention_score": "additive", "positions": "learned", **RECURRENT},
    {"embedding_width": 5},
    {"embedding_norm": True, "scale_embeddings": False, "positions": "learned", **RECURRENT},
    {"embedding_width": 5, "tie_embeddings": False, **RECURRENT},
    {"experts": 4},
    {"experts": 3, "experts_per_token": 1, "expert_capacity": 0.5, **RECURRENT},
]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def batch_of(source: torch.Tensor, lengths: list[int], target: torch.Tensor) -> Batch:
    mask = torch.arange(source.size(1)) < torch.tensor(lengths).unsqueeze(1)
    everything = torch.ones_like(target, dtype=torch.bool)
    return Batch(source, mask, target, everything, ~everything, "test")


PLAIN = [
    {"norm": norm, "norm_placement": placement, "positions": positions}
    for norm, placement, positions in itertools.product(
        ["layer", "rms", "power"], ["pre", "post"], ["sinusoidal", "learned", "rotary", "alibi"]
    )
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backbone", daily([*PLAIN, *VARIANTS], *PLAIN[::5], *VARIANTS), ids=str)
def test_padding_changes_nothing_at_real_positions(make_model, backbone, training):
    torch.manual_seed(2)
    bare, padded = (make_model(**backbone) for _ in range(2))
    source, target = torch.randint(4, 11, (2, 5)), torch.randint(4, 9, (2, 4))
    wide_source = torch.cat((source, torch.randint(0, 11, (2, 3))), 1)
    wide_target = torch.cat((target, torch.randint(0, 9, (2, 2))), 1)
    mask = (torch.arange(6) < 4).expand(2, 6)

    def hidden(model, batch, visible_target):
        states = model.encode(batch)
        memory, length = model.prepare(states), batch.target.size(1)
        visible = causal(length) & visible_target.unsqueeze(1)
        out, _ = model.decode(model.embed(batch.target, memory), visible, memory)
        return states.values[:, :5], out[:, :4]

    for mode in (True, training):  # PowerNorm's first pass gathers the statistics that its second may use
        expected = hidden(bare.train(mode), batch_of(source, [5, 5], target), mask[:, :4])
        got = hidden(padded.train(mode), batch_of(wide_source, [5, 5], wide_target), mask)
        for have, want in zip(got, expected, strict=True):
            torch.testing.assert_close(have, want, **CLOSE)


@pytest.mark.parametrize("backbone", [*(plain for plain in PLAIN if plain["norm"] == "layer"), *VARIANTS], ids=str)
def test_a_later_symbol_never_changes_an_earlier_output(make_model, backbone):
    model = make_model(**backbone)
    torch.manual_seed(3)
    target = torch.randint(4, 9, (2, 6))
    batch = batch_of(torch.randint(4, 11, (2, 5)), [3, 5], target)
    memory = model.prepare(model.encode(batch))
    expected, _ = model.decode(model.embed(target, memory), causal(6), memory)
    for place in range(6):
        changed = target.clone()
        changed[:, place] = (changed[:, place] - 4 + 1) % 5 + 4
        got, _ = model.decode(model.embed(changed, memory), causal(6), memory)
        torch.testing.assert_close(got[:, :place], expected[:, :place], **CLOSE)
        assert not torch.allclose(got[:, place], expected[:, place], atol=1e-3)


@torch.inference_mode()
@pytest.mark.parametrize("pieces", [(1,) * 7, (3, 1, 3), (2, 5)])
@pytest.mark.parametrize(
    "backbone",
    [*({"positions": kind} for kind in ("sinusoidal", "learned", "rotary", "alibi", "t5")), *VARIANTS],
    ids=str,
)
def test_cached_decoding_is_uncached_decoding(make_model, backbone, pieces):
    model = make_model(**backbone)
    torch.manual_seed(4)
    target = torch.randint(4, 9, (2, 7))
    states = model.encode(batch_of(torch.randint(4, 11, (2, 5)), [3, 5], target))
    memory, cache, outputs = model.prepare(states), model.decoder.new_cache(states.values), []
    for length in pieces:
        first = cache.length
        x = model.embed(target[:, first : first + length], memory, offset=first)
        visible = None if length == 1 else causal(length, past=first)
        hidden, cache = model.decode(x, visible, memory, cache)
        outputs.append(hidden)
    expected, no_cache = model.decode(model.embed(target, memory), causal(7), memory)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, **CLOSE)
    assert cache.length == 7 and no_cache is None


@torch.inference_mode()
@pytest.mark.parametrize("backbone", [{}, {"positions": "rotary"}, *VARIANTS], ids=str)
def test_a_selected_cache_goes_on_from_the_selected_rows(make_model, backbone):
    model, rows = make_model(**backbone), torch.tensor([2, 0, 0, 3])
    torch.manual_seed(5)
    past, following = torch.randint(4, 9, (4, 3)), torch.randint(4, 9, (4, 2))
    # One sentence with four beams, so that rows may be reordered freely.
    states = model.encode(batch_of(torch.randint(4, 11, (1, 5)), [4], past[:1]))
    memory = model.prepare(states)
    _, cache = model.decode(
        model.embed(past, memory), causal(3), memory, model.decoder.new_cache(states.values.expand(4, -1, -1))
    )
    got, _ = model.decode(model.embed(following, memory, offset=3), causal(2, past=3), memory, cache.select(rows))
    whole = torch.cat((past[rows], following), 1)
    expected, _ = model.decode(model.embed(whole, memory), causal(5), memory)
    torch.testing.assert_close(got, expected[:, 3:], **CLOSE)


@torch.inference_mode()
@pytest.mark.parametrize("backbone", [{}, *VARIANTS], ids=str)
def test_beams_side_by_side_share_their_sentences_memory(make_model, backbone):
    model, beams = make_model(**backbone), 3
    torch.manual_seed(6)
    source, target = torch.randint(4, 11, (2, 5)), torch.randint(4, 9, (2 * beams, 4))
    shared = model.prepare(model.encode(batch_of(source, [3, 5], target[:2])))
    got, _ = model.decode(model.embed(target, shared), causal(4), shared)
    batch = batch_of(source.repeat_interleave(beams, 0), [3] * beams + [5] * beams, target)
    copied = model.prepare(model.encode(batch))
    expected, _ = model.decode(model.embed(target, copied), causal(4), copied)
    torch.testing.assert_close(got, expected, **CLOSE)
    second = shared.select(torch.tensor([1]))
    torch.testing.assert_close(
        model.decode(model.embed(target[beams:], second), causal(4), second)[0], got[beams:], **CLOSE
    )


def test_without_memory_the_stack_is_a_language_model(layer_shape, roughen):
    stack = roughen(TransformerDecoder(layer_shape(), 2, RotaryPositions(8, 10), has_memory=False))
    torch.manual_seed(7)
    x = torch.randn(2, 5, WIDTH)
    encoder = TransformerEncoder(layer_shape(), 2, RotaryPositions(8, 10))
    encoder.load_state_dict(stack.state_dict())
    got, _ = stack(x, causal(5), None)
    expected = x
    for layer in encoder.layers:
        expected, _ = layer(expected, causal(5))
    torch.testing.assert_close(got, encoder.norm(expected), **CLOSE)
    everything = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(stack(x, None, None)[0], encoder(States(x, everything)).values, **CLOSE)


@pytest.mark.parametrize(("size", "published", "feed_forward"), [("base", 65e6, 2048), ("big", 213e6, 4096)])
def test_named_sizes_have_the_parameters_of_vaswani(size, published, feed_forward):
    width, symbols = SIZES[size]["width"], 37_000
    attention = 4 * (width**2 + width)
    network = 2 * width * feed_forward + feed_forward + width
    layers = 6 * (attention + network + 2 * 2 * width) + 6 * (2 * attention + network + 3 * 2 * width)
    with torch.device("meta"):
        model = build_model(
            Backbone.model_validate({"size": size, "norm_placement": "post"}),
            Shape(TokenShape(symbols), TargetShape(symbols)),
        )
    source_embedding, output_bias = symbols * width, symbols
    assert num_parameters(model) == layers + 2 * source_embedding + output_bias
    # Vaswani et al. 2017, Table 3: source and target share one embedding there.
    assert abs(layers + source_embedding - published) < 0.04 * published


def test_untied_embeddings_cost_one_more_matrix(make_model):
    tied, untied = make_model(), make_model(tie_embeddings=False)
    assert num_parameters(untied) - num_parameters(tied) == 9 * WIDTH
    assert tied.output.weight is tied.embedding.weight


def test_without_positions_the_encoder_sees_a_bag_of_words(make_model, make_batch):
    batch = make_batch([6], [2])
    turned = replace(batch, source=batch.source.flip(1))
    for positions in ("none", "sinusoidal"):
        model = make_model(positions=positions)
        same = torch.allclose(model.encode(batch).values.flip(1), model.encode(turned).values, atol=1e-5)
        assert same == (positions == "none")
