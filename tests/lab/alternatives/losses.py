"""Right in another way: losses."""

import torch
from torch.nn import functional


def perceptron_as_one_vector(x, y, epochs):
    points = torch.cat((x, torch.ones(len(x), 1)), 1)
    line = torch.zeros(points.size(1))
    for _ in range(epochs):
        for number in range(len(points)):
            if float(y[number] * points[number].dot(line)) <= 0.0:
                line = line + y[number] * points[number]
    return line[:-1], line[-1]


def perceptron_until_still(x, y, epochs):
    w, b = [0.0] * x.size(1), 0.0
    rows, sides = x.tolist(), y.tolist()
    for _ in range(epochs):
        moved = False
        for row, side in zip(rows, sides, strict=True):
            if side * (sum(a * c for a, c in zip(w, row, strict=True)) + b) <= 0:
                w, b, moved = [a + side * c for a, c in zip(w, row, strict=True)], b + side, True
        if not moved:
            break
    return torch.tensor(w), torch.tensor(b)


def cross_entropy_in_a_loop(logits, targets):
    total = logits.new_zeros(())
    for row, target in zip(logits, targets, strict=True):
        shifted = row - row.max().detach()
        total = total + shifted.exp().sum().log() - shifted[target]
    return total / len(targets)


def cross_entropy_by_differences(logits, targets):
    gaps = logits - logits[torch.arange(len(targets)), targets].unsqueeze(1)
    top = gaps.amax(1, keepdim=True)
    return torch.mean(torch.log(torch.sum(torch.exp(gaps - top), 1)) + top[:, 0])


def cross_entropy_of_torch(logits, targets):
    return functional.cross_entropy(logits, targets)


def cross_entropy_gradient_in_place(logits, targets):
    found = torch.softmax(logits, 1)
    found[torch.arange(len(targets)), targets] -= 1
    return found / len(targets)


def cross_entropy_gradient_in_a_loop(logits, targets):
    rows = []
    for row, target in zip(logits, targets, strict=True):
        p = (row - row.max()).exp()
        p = p / p.sum()
        rows.append(torch.stack([(p[v] - (1.0 if v == target else 0.0)) / len(targets) for v in range(len(p))]))
    return torch.stack(rows)


def squared_error_by_einsum(logits, targets):
    gap = torch.softmax(logits, 1) - torch.eye(logits.size(1))[targets]
    return torch.einsum("nv,nv->", gap, gap) / len(targets)


def squared_error_expanded(logits, targets):
    p = logits.softmax(-1)
    right = p.gather(1, targets[:, None])[:, 0]
    return ((p * p).sum(1) - 2 * right + 1).mean()
