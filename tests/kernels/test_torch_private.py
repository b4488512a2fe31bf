"""What takes the place of private names of torch where another version lacks them."""

import subprocess
import sys

import pytest
import torch

from seq2seq_suite.kernels.torch_private import foreach


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("operation", "others", "alpha"),
    [
        ("mul_", (0.5,), 1.0),
        ("add_", ("tensors",), -2.0),
        ("lerp_", ("tensors", 0.25), 1.0),
        ("lerp", ("tensors", 0.25), 1.0),
    ],
)
def test_a_method_of_many_tensors_is_that_of_each(monkeypatch, operation, others, alpha, together):
    if not together:
        monkeypatch.delattr(torch, f"_foreach_{operation}")
    torch.manual_seed(1)
    tensors, given = ([torch.randn(2, 3), torch.randn(4)] for _ in range(2))
    arguments = [given if other == "tensors" else other for other in others]
    options = {"alpha": alpha} if alpha != 1.0 else {}
    expected = [
        getattr(tensor.clone(), operation)(
            *(other if isinstance(other, float) else other[place] for other in arguments), **options
        )
        for place, tensor in enumerate(tensors)
    ]
    before = [tensor.clone() for tensor in tensors]
    found = foreach(operation, tensors, *arguments, alpha=alpha)
    torch.testing.assert_close(list(found), expected)
    torch.testing.assert_close(tensors, expected if operation.endswith("_") else before)


def test_an_optimiser_takes_the_same_steps_without_the_compiler_and_leaves_it_alone():
    program = """
import sys, torch
from seq2seq_suite.kernels.torch_private import without_compiler

def steps(kind):
    torch.manual_seed(1)
    weights = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    optimiser = kind(weights, lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        sum((weight * torch.randn_like(weight)).sum() for weight in weights).backward()
        optimiser.step()
        optimiser.load_state_dict(optimiser.state_dict())
    return torch.cat([weight.detach().flatten() for weight in weights])

found = steps(without_compiler(torch.optim.AdamW))
assert "torch._dynamo" not in sys.modules
assert found.equal(steps(torch.optim.AdamW))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
