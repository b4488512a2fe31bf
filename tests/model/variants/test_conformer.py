"""The convolution in a layer is its equation."""

import torch
from torch.nn import functional

from seq2seq_suite.model.variants.conformer import Convolution
from seq2seq_suite.model.variants.real_positions import on_real_positions


def test_the_convolution_is_its_equation_position_by_position(layer_shape, roughen):
    block = roughen(Convolution(layer_shape(), kernel=3))
    x, mask = torch.randn(2, 5, 16), torch.arange(5) < torch.tensor([[3], [5]])
    with on_real_positions(mask):
        got = block(x)
    kernel = block.depthwise.weight.view(16, 3)
    for row, length in enumerate((3, 5)):
        value, gate = block.inner(x[row, :length]).chunk(2, -1)
        gated = value * gate.sigmoid()
        for place in range(length):
            near = block.depthwise.bias.clone()
            for offset in (-1, 0, 1):
                if 0 <= place + offset < length:
                    near = near + kernel[:, offset + 1] * gated[place + offset]
            normed = functional.layer_norm(near, (16,), block.norm.gain, block.norm.bias)
            expected = block.outer(normed * normed.sigmoid())
            torch.testing.assert_close(got[row, place], expected, rtol=1e-4, atol=1e-5)
