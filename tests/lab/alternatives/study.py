"""Right in another way: comparing figures."""

import statistics

import torch


def mean_interval_of_statistics(values):
    quantile = {2: 12.7062, 3: 4.30265, 4: 3.18245, 5: 2.77645}[len(values)]
    half = quantile * statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values) - half, statistics.mean(values) + half


def mean_interval_of_tensors(values):
    x = torch.tensor(values, dtype=torch.float64)
    half = (12.706, 4.303, 3.182, 2.776)[len(x) - 2] * x.std() / len(x) ** 0.5
    return [float(x.mean() - half), float(x.mean() + half)]


def bootstrap_in_a_loop(counts, formula, draws):
    figures = []
    for draw in draws.tolist():
        total = torch.zeros(counts.size(1))
        for sentence in draw:
            total = total + counts[sentence]
        figures.append(float(formula(total)))
    low, high = torch.tensor(figures).quantile(torch.tensor([0.025, 0.975])).tolist()
    return low, high


def bootstrap_by_weights(counts, formula, draws):
    weights = torch.stack([torch.bincount(draw, minlength=len(counts)) for draw in draws]).to(counts.dtype)
    figures = torch.stack([torch.as_tensor(formula(total)) for total in weights @ counts])
    return torch.quantile(figures, 0.025), torch.quantile(figures, 0.975)


def paired_p_in_a_loop(first, second, flips):
    gaps = (first - second).double().tolist()
    true = abs(sum(gaps)) / len(gaps)
    often = sum(
        abs(sum(sign * gap for sign, gap in zip(row, gaps, strict=True))) / len(gaps) >= true - 1e-6
        for row in flips.tolist()
    )
    return (often + 1) / (len(flips) + 1)


def paired_p_by_product(first, second, flips):
    gaps = first - second
    others = (flips @ gaps).abs() / len(gaps)
    return (1 + torch.count_nonzero(others >= gaps.mean().abs() - 1e-6)) / (1 + flips.size(0))
