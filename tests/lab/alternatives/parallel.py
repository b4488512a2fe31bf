"""Right in another way: writing all symbols at once."""

from itertools import groupby, takewhile

import torch


def likeliest_lengths_by_sorting(log_p, count):
    order = log_p[:, 1:].argsort(dim=1, descending=True)[:, :count] + 1
    return order, log_p.gather(1, order)


def likeliest_lengths_hiding_zero(log_p, count):
    values, lengths = log_p.index_fill(1, torch.tensor([0]), -torch.inf).topk(count)
    return lengths, values


def likeliest_lengths_in_a_loop(log_p, count):
    rows = [sorted(range(1, log_p.size(1)), key=lambda length: -row[length])[:count] for row in log_p.tolist()]
    lengths = torch.tensor(rows)
    return lengths, torch.stack([row[own] for row, own in zip(log_p, lengths, strict=True)])


def cut_at_end_by_takewhile(symbols, end):
    return list(takewhile(lambda symbol: symbol != end, symbols))


def cut_at_end_in_a_loop(symbols, end):
    kept = []
    for symbol in symbols:
        if symbol == end:
            break
        kept.append(symbol)
    return kept


def cut_at_end_by_index(symbols, end):
    try:
        return tuple(symbols[: symbols.index(end)])
    except ValueError:
        return tuple(symbols)


def collapse_by_groups(path, blank):
    return [symbol for symbol, _ in groupby(path) if symbol != blank]


def collapse_in_a_loop(path, blank):
    found, before = [], None
    for symbol in path:
        if symbol not in (before, blank):
            found.append(symbol)
        before = symbol
    return found


def collapse_by_tensors(path, blank):
    merged = torch.unique_consecutive(torch.tensor(path, dtype=torch.int64))
    return merged[merged != blank].tolist()


def hide_by_topk(confidence, mask, iteration, iterations):
    hidden = torch.zeros_like(mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        count = length * (iterations - iteration) // iterations
        own = confidence[row].masked_fill(~mask[row], torch.inf)
        hidden[row, own.topk(count, largest=False).indices] = True
    return hidden


def hide_by_comparison(confidence, mask, iteration, iterations):
    lower = (confidence[:, None, :] < confidence[:, :, None]) & mask[:, None, :]
    count = torch.div(mask.sum(1) * (iterations - iteration), iterations, rounding_mode="floor")
    return (lower.sum(2) < count[:, None]) & mask


def hide_in_loops(confidence, mask, iteration, iterations):
    found = [[False] * mask.size(1) for _ in mask]
    for row, (own, real) in enumerate(zip(confidence.tolist(), mask.tolist(), strict=True)):
        places = sorted((place for place, is_real in enumerate(real) if is_real), key=lambda place: own[place])
        for place in places[: len(places) * (iterations - iteration) // iterations]:
            found[row][place] = True
    return torch.tensor(found)
