"""The guide: its gathered sum is the plain sum, and -1 adds nothing."""

import torch

from seq2seq_suite.model.guide import Guide

SENTENCES, BEAMS, STEPS, LENGTH, WIDTH = 2, 2, 3, 4, 8
FOCUS, CONTEXT, SYMBOLS = 3, 2, 5


def make_guide(roughen) -> Guide:
    torch.manual_seed(1)
    return roughen(Guide(WIDTH, FOCUS, CONTEXT, SYMBOLS))


def make_inputs():
    torch.manual_seed(2)
    rows = SENTENCES * BEAMS
    return (
        torch.randn(rows, STEPS, WIDTH),
        torch.randn(SENTENCES, LENGTH, WIDTH),
        torch.randint(-1, LENGTH, (rows, STEPS, FOCUS)),
        torch.randint(0, SYMBOLS, (rows, STEPS, CONTEXT)),
    )


def test_the_guide_is_the_plain_sum(roughen):
    guide, (x, memory, focus, context) = make_guide(roughen), make_inputs()
    projections = guide.project.weight.view(FOCUS, WIDTH, WIDTH)
    symbols = guide.symbols.weight.view(CONTEXT, SYMBOLS, WIDTH)
    expected = x.clone()
    for row in range(x.size(0)):
        for step in range(STEPS):
            for k in range(FOCUS):
                if focus[row, step, k] >= 0:
                    expected[row, step] += projections[k] @ memory[row // BEAMS, focus[row, step, k]]
            for m in range(CONTEXT):
                expected[row, step] += symbols[m, context[row, step, m]]
    assert (focus == -1).any()
    torch.testing.assert_close(
        guide(x, guide.prepare(memory), focus, context), guide.norm(expected), rtol=1e-4, atol=1e-5
    )


def test_a_focus_of_minus_one_contributes_nothing(roughen):
    guide, (x, memory, focus, context) = make_guide(roughen), make_inputs()
    memory.requires_grad_()
    nothing = torch.full_like(focus, -1)
    out = guide(x, guide.prepare(memory), nothing, context)
    out.square().sum().backward()
    assert not memory.grad.any()
    torch.testing.assert_close(out, guide(x, guide.prepare(torch.randn_like(memory)), nothing, context))
