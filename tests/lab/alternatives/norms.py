"""Right in another way: norms."""

import torch
from torch.nn import functional


def layer_norm_by_var_mean(x, gain, bias, epsilon=1e-5):
    variance, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    return gain * ((x - mean) * torch.rsqrt(variance + epsilon)) + bias


def layer_norm_by_power(x, gain, bias, epsilon=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + epsilon) ** 0.5 * gain + bias


def layer_norm_in_loops(x, gain, bias, epsilon=1e-5):
    rows = []
    for row in x.reshape(-1, x.size(-1)):
        mean = sum(row) / len(row)
        variance = sum((one - mean) ** 2 for one in row) / len(row)
        rows.append(torch.stack([(one - mean) / (variance + epsilon).sqrt() for one in row]) * gain + bias)
    return torch.stack(rows).view(x.shape)


def layer_norm_of_torch(x, gain, bias, epsilon=1e-5):
    return functional.layer_norm(x, gain.shape, gain, bias, epsilon)


def residual_at_both_ends(x, sublayer, norm, placement):
    y = sublayer(norm(x) if placement == "pre" else x)
    y = y + x
    return y if placement == "pre" else norm(y)


def residual_by_post(x, sublayer, norm, placement):
    if placement == "post":
        x = norm(torch.add(sublayer(x), x))
    else:
        x = torch.add(x, sublayer(norm(x)))
    return x


def dropout_by_bernoulli(x, rate, training):
    return x * torch.bernoulli(torch.full_like(x, 1 - rate)) / (1 - rate) if training else x


def dropout_by_where(x, rate, training):
    if not training or rate == 0:
        return x.clone()
    return torch.where(torch.rand(x.shape) < rate, torch.zeros(()), x / (1 - rate))


def dropout_by_choice(x, rate, training):
    if training:
        gone = torch.empty(x.shape).uniform_() < rate
        return x.masked_fill(gone, 0.0).div(1.0 - rate)
    return x


def power_norm_by_lerp(x, gain, bias, running, momentum, training, epsilon=1e-5):
    square = (x * x).reshape(-1, x.size(-1)).mean(0)
    by = square if running is None else running
    if training:
        running = square if running is None else torch.lerp(square, running, momentum)
    return gain * x * torch.rsqrt(by + epsilon) + bias, running


def power_norm_by_einsum(x, gain, bias, running, momentum, training, epsilon=1e-5):
    square = torch.einsum("...d,...d->d", x, x) / (x.numel() / x.size(-1))
    if running is None:
        return x / (square + epsilon) ** 0.5 * gain + bias, square
    after = running * momentum + square * (1 - momentum) if training else running.clone()
    return x / (running + epsilon) ** 0.5 * gain + bias, after
