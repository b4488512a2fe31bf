"""Front-ends: letters count, neighbours and padding do not."""

import pytest
import torch

from seq2seq_suite.common.types import BEGIN, END, UNKNOWN
from seq2seq_suite.model.build import token_embedding
from seq2seq_suite.model.frontends import Tokens, Words, _fingerprint
from seq2seq_suite.model.positions import NoPositions

WIDTH = 16


def make_words(roughen, *, num_characters: int = 12, unknown: float = 0.0) -> Words:
    torch.manual_seed(1)
    return roughen(
        Words(
            token_embedding(9, WIDTH),
            num_characters,
            positions=NoPositions(),
            dropout_rate=0.0,
            unknown_probability=torch.full((9,), unknown),
        )
    )


def read(words: Words, *rows: list[list[int]]) -> torch.Tensor:
    """Vectors of sentences given as words, each a type followed by its letters."""
    longest = max(map(len, rows))
    widest = max(1 + words.has_characters, *(len(word) for row in rows for word in row))
    source = torch.zeros(len(rows), longest, widest, dtype=torch.int64)
    for number, row in enumerate(rows):
        for place, word in enumerate(row):
            source[number, place, : len(word)] = torch.tensor(word)
    mask = torch.arange(longest) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    return words(source, mask).values


def test_the_letters_of_unknown_words_matter(roughen):
    words = make_words(roughen)
    out = read(words, [[UNKNOWN, 4, 5, 6], [UNKNOWN, 4, 5, 7], [UNKNOWN, 6, 5, 4], [UNKNOWN, 4, 5, 6]])[0]
    assert torch.equal(out[0], out[3])
    assert not torch.allclose(out[0], out[1], atol=1e-3) and not torch.allclose(out[0], out[2], atol=1e-3)


def test_a_words_vector_does_not_depend_on_its_batch(roughen):
    words = make_words(roughen)
    sentence = [[BEGIN], [5, 4, 6], [UNKNOWN, 7], [6, 4, 5, 6, 7], [END]]
    alone = read(words, sentence)[0]
    with_long_words = read(words, sentence, [[UNKNOWN, *range(4, 12)]] * 8)[0, :5]
    with_twins = read(words, sentence, sentence[::-1])
    torch.testing.assert_close(with_long_words, alone)
    torch.testing.assert_close(with_twins[0], alone)
    torch.testing.assert_close(with_twins[1].flip(0), alone)
    for place, word in enumerate(sentence):
        torch.testing.assert_close(read(words, [word, word])[0, 1], alone[place])


def test_a_word_without_letters_has_those_of_no_other(roughen):
    words = make_words(roughen)
    bare = read(words, [[5]], [[5, 4]])
    assert not torch.allclose(bare[0], bare[1], atol=1e-3)
    assert bare.isfinite().all()


def test_words_read_by_their_types_alone_ignore_letters(roughen):
    words = make_words(roughen, num_characters=0)
    out = read(words, [[5], [6], [5]])[0]
    assert torch.equal(out[0], out[2]) and not torch.allclose(out[0], out[1], atol=1e-3)


def test_a_type_of_unknown_probability_one_is_always_dropped_in_training_and_never_in_evaluation(roughen):
    words, kept = make_words(roughen, unknown=1.0), make_words(roughen)
    known, unknown = [[5, 4, 6], [7, 8]], [[UNKNOWN, 4, 6], [UNKNOWN, 8]]
    torch.testing.assert_close(read(words, known), read(kept, unknown))
    assert torch.equal(read(words.eval(), known), read(kept.eval(), known))
    assert not torch.allclose(read(words, known), read(words, unknown), atol=1e-3)


def test_types_are_dropped_at_their_own_rates(roughen):
    words = make_words(roughen, num_characters=0)
    words.unknown_probability[5], words.unknown_probability[6] = 0.25, 0.75
    unknown = read(words, [[UNKNOWN]])[0, 0]
    out = read(words, [[5], [6], [7]] * 2000)[0]
    rates = (out - unknown).abs().amax(-1).lt(1e-5).view(2000, 3).float().mean(0)
    torch.testing.assert_close(rates, torch.tensor([0.25, 0.75, 0.0]), rtol=0.0, atol=0.05)


def test_letters_and_types_both_learn(roughen):
    words = make_words(roughen)
    read(words, [[5, 4, 6], [6, 4]]).square().mul(torch.randn(WIDTH)).sum().backward()
    for name, parameter in words.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
    assert not words.character_embedding.weight.grad[0].any()


@pytest.mark.parametrize("width", [1, 20])
def test_different_rows_have_different_fingerprints(width):
    torch.manual_seed(2)
    rows = torch.randint(0, 60, (20_000, width)).unique(dim=0)
    assert _fingerprint(rows).unique().numel() == rows.size(0)
    assert torch.equal(_fingerprint(rows), _fingerprint(rows.clone()))


def test_tokens_are_their_embeddings_times_the_root_of_the_width():
    torch.manual_seed(3)
    tokens = Tokens(token_embedding(9, WIDTH), positions=NoPositions(), dropout_rate=0.0)
    source, mask = torch.tensor([[4, 8, 4]]), torch.tensor([[True, True, False]])
    states = tokens(source, mask)
    torch.testing.assert_close(states.values, 4.0 * tokens.embedding.weight[source])
    assert torch.equal(states.mask, mask)
