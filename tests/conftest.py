"""Tiny models whose every weight, norm gains and biases too, is random enough to matter, and batches for them."""

import gc
import os
from collections.abc import Callable, Iterator
from unittest import mock

import hypothesis
import pytest
import torch
from torch import nn

from seq2seq_suite import kernels
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.common.types import END, Batch
from seq2seq_suite.config.schema import Config
from seq2seq_suite.inspection import report as inspecting
from seq2seq_suite.model.build import build_model
from seq2seq_suite.model.build import layer_shape as build_layer_shape
from seq2seq_suite.model.layers import LayerShape
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.strategies.base import Strategy
from seq2seq_suite.tasks.parsing.task import ParsingTask

# The same examples in each run, and no test fails because the machine is slow.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# Beside another worker a second thread for such small models is only in the way, in the processes of the tests too.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

# A killed process loses nothing that it has written; only a loss of power would, and no test cuts it. A disk that
# others write to can take longer for these waits than a whole run for everything else.
os.fsync = lambda descriptor: None

# A full collection looks through half a million objects, most of them imported for good: a quarter of a second each.
gc.set_threshold(700, 10, 100)

SENTENCES = (
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
    "(S (NP (NN cat)) (VP (VBZ sees) (NP (DT a) (NN bird))))",
    "(S (NP (NP (DT the) (NN bird)) (PP (IN in) (NP (DT the) (NN tree)))) (VP (VBZ sings)))",
    "(S (VP (VB run)) (. !))",
    "(S (NP (PRP he)) (VP (VBZ knows) (SBAR (IN that) (S (NP (PRP she)) (VP (VBZ sings))))))",
    "(S (NP (DT a) (JJ small) (NN dog)) (VP (VBZ sees) (NP (PRP him)) (PP (IN in) (NP (NN town)))))",
    "(NP (DT the) (NN end))",
    "(S (NP (PRP she)) (VP (VBZ barks) (ADVP (RB loudly))))",
)


def pytest_xdist_auto_num_workers() -> int:
    """One worker for each core, four at most: each imports torch."""
    return min(4, os.cpu_count() or 1)


@pytest.fixture(scope="module", autouse=True)
def little_inspected() -> Iterator[None]:
    """A run records of one example how its output came about; `inspection/test_report.py` has as many as a user's run.

    For all examples of a split that takes longer than the rest of a small run.
    """
    with mock.patch.multiple(inspecting, MOST_EXAMPLES=1, _WRONG=1):
        yield


@pytest.fixture
def layer_shape() -> Callable[..., LayerShape]:
    """A factory of layer shapes, small by default, of what a backbone says."""

    def make(**changes) -> LayerShape:
        given = {"width": 16, "feed_forward_width": 24, "num_heads": 2, "dropout": 0.0, **changes}
        return build_layer_shape(Backbone.model_validate(given), given.get("encoder_kernel", 0))

    return make


@pytest.fixture
def roughen() -> Callable[..., nn.Module]:
    """Adds noise to all parameters, so that no gain is one and no bias zero; embeddings of padding stay zero."""

    def apply(module: nn.Module, *, noise: float = 0.2) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * noise)
            for part in module.modules():
                if isinstance(part, nn.Embedding) and part.padding_idx is not None:
                    part.weight[part.padding_idx] = 0.0
        return module

    return apply


@pytest.fixture
def make_model(roughen) -> Callable[..., Seq2Seq]:
    """A factory: what a task asks, changes to the backbone, in evaluation mode, with fast kernels or plain."""

    def make(
        shape: Shape | None = None, *, seed: int = 1, noise: float = 0.2, kernel: str = "fast", **backbone
    ) -> Seq2Seq:
        given = {
            "width": 16,
            "feed_forward_width": 24,
            "num_heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "dropout": 0.0,
            "max_positions": 160,
            **backbone,
        }
        torch.manual_seed(seed)
        model = build_model(Backbone.model_validate(given), shape or Shape(TokenShape(11), TargetShape(9)))
        kernels.accelerate(model, kernel)
        return roughen(model, noise=noise).eval()

    return make


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """A factory of batches of random tokens, padded with noise; targets end in END."""

    def make(
        source_lengths: list[int],
        target_lengths: list[int],
        *,
        source_symbols: int = 11,
        target_symbols: int = 9,
        seed: int = 2,
    ) -> Batch:
        torch.manual_seed(seed)
        source_mask = torch.arange(max(source_lengths)) < torch.tensor(source_lengths).unsqueeze(1)
        target_mask = torch.arange(max(target_lengths)) < torch.tensor(target_lengths).unsqueeze(1)
        source = torch.randint(4, source_symbols, source_mask.shape)
        target = torch.randint(4, target_symbols, target_mask.shape)
        target.scatter_(1, torch.tensor(target_lengths).unsqueeze(1) - 1, END)
        return Batch(source, source_mask, target, target_mask, torch.zeros_like(target_mask), "test")

    return make


@pytest.fixture
def make_parsing() -> Callable[..., tuple[ParsingTask, list[Example]]]:
    """A factory of a parsing task fitted to eight sentences, and those sentences."""

    def make(linearisation: str, **options) -> tuple[ParsingTask, list[Example]]:
        config = Config.model_validate(
            {"task": "parsing", "parsing": {"linearisation": linearisation, "min_count": 1, **options}}
        )
        task = ParsingTask(config.parsing, config.data)
        trees = [next(read_trees(f"(TOP {sentence})"))[1] for sentence in SENTENCES]
        examples = [Example(tuple(tree.words()), tree) for tree in trees]
        task.fit(examples)
        return task, examples

    return make


@pytest.fixture
def overfit() -> Callable[..., None]:
    """Trains a model on one batch until it should know it by heart; leaves it in evaluation mode."""

    def train(model: Seq2Seq, strategy: Strategy, batch: Batch, *, updates: int) -> None:
        model.train()
        optimizer = torch.optim.Adam([*model.parameters(), *strategy.parameters()], lr=5e-3, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=updates)
        for _ in range(updates):
            loss = strategy.loss(model, batch)
            sum(loss.weights[name] * loss.sums[name] / loss.counts[name] for name in loss.weights).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        model.eval()

    return train
