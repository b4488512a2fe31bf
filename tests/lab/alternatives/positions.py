"""Right in another way: positions."""

import math

import torch


def sinusoids_by_exp(length, width):
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = torch.outer(torch.arange(length).float(), frequency)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


def sinusoids_in_loops(length, width):
    return torch.tensor(
        [
            [(math.cos if i % 2 else math.sin)(place / 10000 ** ((i - i % 2) / width)) for i in range(width)]
            for place in range(length)
        ]
    )


def sinusoids_by_phase(length, width):
    exponent = torch.arange(width) // 2 * 2 / width
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** exponent.double()
    return torch.sin(angle + torch.arange(width) % 2 * (math.pi / 2)).float()


def shift_matrix_of_blocks(width, distance):
    blocks = []
    for i in range(0, width, 2):
        angle = torch.tensor(distance / 10000 ** (i / width))
        blocks.append(torch.stack((torch.stack((angle.cos(), angle.sin())), torch.stack((-angle.sin(), angle.cos())))))
    return torch.block_diag(*blocks)


def shift_matrix_by_diagonals(width, distance):
    angle = distance / 10000.0 ** (torch.arange(0, width, 2).double() / width)
    sine = torch.stack((angle.sin(), torch.zeros_like(angle)), 1).flatten()[:-1]
    found = torch.diag(angle.cos().repeat_interleave(2)) + torch.diag(sine, 1) - torch.diag(sine, -1)
    return found.float()


def rotate_by_complex_numbers(x, offset=0):
    width = x.size(-1)
    angle = torch.outer(
        torch.arange(offset, offset + x.size(2)).float(), 10000.0 ** (-torch.arange(0, width, 2) / width)
    )
    turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


def rotate_by_half(x, offset=0):
    width = x.size(-1)
    frequency = 1.0 / 10000.0 ** (torch.arange(0, width, 2) / width)
    angle = (torch.arange(x.size(2)) + offset)[:, None] * torch.cat((frequency, frequency))
    half = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), -1)
    return x * angle.cos() + half * angle.sin()
