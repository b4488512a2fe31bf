"""The student's loop with what the suite has around its core: batches of like length, oneDNN, freed memory kept."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.corpus import Corpus
from benchmarks.systems import Shape, TrainingSystem, student, suite
from seq2seq_suite.kernels import memory
from seq2seq_suite.kernels.product import pays, product

_plain = functional.linear


def training(shape: Shape, precision: str, corpus: Corpus, seed: int) -> TrainingSystem:
    """`student.training` in a process whose products of float32 matrices are the suite's."""
    memory.keep_freed()
    memory.bound_shapes()
    functional.linear = _linear
    system = student.training(shape, precision, corpus, seed)
    return replace(system, batches=suite.buckets(corpus, seed, round_lengths=precision == "bfloat16"))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return product(x, weight, bias) if pays(x, weight, learns=torch.is_grad_enabled()) else _plain(x, weight, bias)
