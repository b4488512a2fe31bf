"""Many steps of a prepared decoder are those of the decoder itself, whatever it is made of."""

from dataclasses import replace

import pytest
import torch

from seq2seq_suite import kernels
from seq2seq_suite.kernels import decoder, places, plain
from seq2seq_suite.kernels.decoder import FastDecoder, FastEncoder
from seq2seq_suite.model.layers import causal

KINDS = {
    "pre": {},
    "post": {"norm_placement": "post"},
    "rms": {"norm": "rms", "activation": "gelu"},
    "rotary": {"positions": "rotary", "activation": "swiglu"},
    "alibi": {"positions": "alibi", "decoder_layers": 1},
    "t5": {"positions": "t5"},
    "experts": {"experts": 2, "experts_per_token": 1},
    "decoder alone": {"encoder": "none"},
}


def for_search(model):
    return places.for_search(model, decoder.prepared, plain.linear)


def walk(model, memory, symbols, *, beams=1):
    """Hidden states of the first two symbols together, then of one after the other, rows swapped in between."""
    rows = torch.arange(memory.states.mask.size(0)).repeat_interleave(beams)
    cache, hidden = model.new_cache(memory).select(rows), []
    for first, last in ((0, 2), (2, 3), (3, 4), (4, 5)):
        x = model.embed(symbols[:, first:last], memory, offset=model.target_length(cache, memory))
        visible = causal(last - first, first) if last - first > 1 else None
        found, cache = model.decode(x, visible, memory, cache)
        hidden.append(found)
        if last == 3 and beams > 1:
            swapped = torch.arange(symbols.size(0)).view(-1, beams).flip(1).flatten()
            cache, symbols = cache.select(swapped), symbols[swapped]
    return torch.cat(hidden, 1)


@pytest.mark.parametrize("few", [0, decoder._FEW_QUERIES])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_prepared_steps_are_those_of_the_decoder(monkeypatch, make_model, make_batch, kind, beams, few):
    monkeypatch.setattr(decoder, "_FEW_QUERIES", few)
    model, batch = make_model(noise=0.4, **KINDS[kind]), make_batch([5, 3, 4], [4, 6, 2])
    memory = model.prepare(model.encode(batch))
    ready = for_search(model)
    assert isinstance(ready.decoder, FastDecoder)
    symbols = torch.randint(4, 9, (3 * beams, 5))
    torch.testing.assert_close(walk(ready, memory, symbols, beams=beams), walk(model, memory, symbols, beams=beams))
    if model.encoder is None:  # the sources are in the cache alone
        return
    chosen = torch.tensor([2, 0])
    symbols = symbols[: 2 * beams]
    torch.testing.assert_close(
        walk(ready, memory.select(chosen), symbols, beams=beams),
        walk(model, memory.select(chosen), symbols, beams=beams),
    )


@pytest.mark.parametrize("lengths", [[5], [4, 4], [5, 3]])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "decoder alone"])
@torch.inference_mode()
def test_a_prepared_encoder_reads_as_it_does_itself(make_model, make_batch, kind, lengths):
    model, batch = make_model(noise=0.4, **KINDS[kind]), make_batch(lengths, [4] * len(lengths))
    ready = kernels.implementation("encoder", "fast")(model.encoder)
    assert isinstance(ready, FastEncoder)
    states = model.frontend(batch.source, batch.source_mask)
    found, expected = ready(states), model.encoder(states)
    torch.testing.assert_close(found.values, expected.values)
    assert found.mask is batch.source_mask
    handle = model.encoder.layers[0].feed_forward.register_forward_hook(lambda *_: None)
    assert kernels.implementation("encoder", "fast")(model.encoder) is model.encoder
    handle.remove()


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "decoder alone"])
@torch.inference_mode()
def test_prepared_steps_for_a_sentence_alone_are_those_of_the_decoder(monkeypatch, make_model, make_batch, kind, beams):
    model, batch = make_model(noise=0.4, **KINDS[kind]), make_batch([5], [4])
    memory, symbols = model.prepare(model.encode(batch)), torch.randint(4, 9, (beams, 5))
    expected = walk(model, memory, symbols, beams=beams)
    for most in (0, 4):
        monkeypatch.setattr(decoder, "_MOST_KEYS", most)
        ready = for_search(model)
        torch.testing.assert_close(walk(ready, memory, symbols, beams=beams), expected)
        assert (ready.decoder.absorbed[0] is None) == (most == 0)


@torch.inference_mode()
def test_prepared_steps_of_a_row_without_a_source_are_those_of_the_decoder(make_model, make_batch):
    model, batch = make_model(noise=0.4), make_batch([5, 3], [4, 6])
    mask = batch.source_mask.clone()
    mask[1] = False
    memory, symbols = model.prepare(model.encode(replace(batch, source_mask=mask))), torch.randint(4, 9, (2, 5))
    expected = walk(model, memory, symbols)
    assert expected.isfinite().all()
    torch.testing.assert_close(walk(for_search(model), memory, symbols), expected)


@pytest.mark.parametrize("change", ["training", "hook", "watched", "component", "convolution", "repeated", "gradients"])
def test_a_decoder_that_is_not_as_usual_is_left_as_it_is(make_model, make_batch, change):
    backbone = {"convolution": {"decoder_kernel": 3}, "repeated": {"decoder_steps": 2}}.get(change, {})
    model = make_model(**backbone)
    if change == "component":
        kernels.accelerate(model, components={"attention": kernels.implementation("attention", "plain")})
    layer = model.decoder.layers[0]
    match change:
        case "training":
            model.train()
        case "hook":
            layer.cross_attention.register_forward_hook(lambda *_: None)
        case "watched":
            layer.attention._attend = layer.attention._attend
    with torch.inference_mode(change != "gradients"):
        assert kernels.implementation("decoder", "fast")(model.decoder) is model.decoder
