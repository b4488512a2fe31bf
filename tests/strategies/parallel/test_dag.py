"""The graph over decoder positions: its sum over paths, its best path and its links against enumeration."""

import itertools

import pytest
import torch

from seq2seq_suite.strategies.parallel.dag import NEVER, Links, likeliest_path, path_log_likelihood


def random_graph(rows: int, vertices: int, symbols: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    backward = ~torch.ones(vertices, vertices).triu(1).bool()
    links = torch.randn(rows, vertices, vertices).masked_fill(backward, NEVER).log_softmax(-1)
    return torch.randn(rows, symbols, vertices).log_softmax(1), links.masked_fill(backward, NEVER)


def paths(length: int, vertices: int) -> list[tuple[int, ...]]:
    """All ways from the first to the last vertex over `length` of them."""
    return [(0, *inner, vertices - 1) for inner in itertools.combinations(range(1, vertices - 1), length - 2)]


def score(emissions: torch.Tensor, links: torch.Tensor, path: tuple[int, ...]) -> torch.Tensor:
    total = sum(emissions[step, vertex] for step, vertex in enumerate(path))
    return total + sum(links[one, other] for one, other in itertools.pairwise(path))


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_over_paths_and_its_gradient_are_those_of_enumeration(seed):
    emissions, links = (part.requires_grad_() for part in random_graph(2, 7, 5, seed=seed))
    lengths, vertices = torch.tensor([5, 3]), torch.tensor([7, 6])
    found = path_log_likelihood(emissions, links, lengths, vertices)
    expected = torch.stack(
        [
            torch.stack([score(emissions[row], links[row], path) for path in paths(length, count)]).logsumexp(0)
            for row, (length, count) in enumerate(((5, 7), (3, 6)))
        ]
    )
    torch.testing.assert_close(found, expected)
    mine = torch.autograd.grad(found.sum(), (emissions, links), retain_graph=True)
    for one, other in zip(mine, torch.autograd.grad(expected.sum(), (emissions, links)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_path_is_that_of_enumeration(seed):
    emissions, links = random_graph(2, 7, 5, seed=seed)
    found = likeliest_path(emissions, links, torch.tensor([5, 3]), torch.tensor([7, 6])).tolist()
    for row, (length, count) in enumerate(((5, 7), (3, 6))):
        best = max(paths(length, count), key=lambda path: float(score(emissions[row], links[row], path)))
        assert found[row] == [*best, *[-1] * (5 - length)]


def test_a_target_with_more_symbols_than_vertices_has_no_path():
    emissions, links = (part.requires_grad_() for part in random_graph(1, 4, 6, seed=1))
    found = path_log_likelihood(emissions, links, torch.tensor([6]), torch.tensor([4]))
    assert found.item() <= NEVER / 2
    assert likeliest_path(emissions, links, torch.tensor([6]), torch.tensor([4])).eq(-1).all()
    found.masked_fill(found <= NEVER / 2, 0.0).sum().backward()
    assert not emissions.grad.isnan().any() and not links.grad.isnan().any()


def test_links_are_a_distribution_over_later_vertices_of_the_row(roughen):
    links = roughen(Links(16, 2))
    hidden, mask = torch.randn(2, 6, 16), torch.arange(6) < torch.tensor([[6], [4]])
    found = links(hidden, mask).exp()
    torch.testing.assert_close(found[0].sum(1), torch.tensor([1.0, 1, 1, 1, 1, 0]))
    torch.testing.assert_close(found[1].sum(1), torch.tensor([1.0, 1, 1, 0, 0, 0]))
    assert (found.tril() == 0).all()
    torch.testing.assert_close(links(hidden[1:, :4], mask[1:, :4]).exp(), found[1:, :4, :4])
