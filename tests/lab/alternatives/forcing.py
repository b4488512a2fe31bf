"""Right in another way: teacher forcing."""

import torch
from torch.nn import functional


def shift_right_by_padding(target, begin):
    return functional.pad(target, (1, -1), value=begin)


def shift_right_by_writing(target, begin):
    found = target.new_empty(target.shape)
    found[:, 0] = begin
    found[:, 1:] = target[:, :-1]
    return found


def shift_right_in_a_loop(target, begin):
    return torch.tensor([[begin, *row[:-1]] for row in target.tolist()])


def shift_right_by_roll(target, begin):
    found = torch.roll(target, 1, dims=1)
    found[:, 0] = begin
    return found


def smoothed_cross_entropy_of_a_distribution(logits, target, mask, smoothing):
    size = logits.size(-1)
    wanted = torch.full_like(logits, smoothing / size)
    wanted.scatter_add_(-1, target.unsqueeze(-1), torch.full_like(logits[..., :1], 1 - smoothing))
    losses = -(wanted * logits.log_softmax(-1)).sum(-1)
    return losses[mask].sum(), mask.sum()


def smoothed_cross_entropy_of_torch(logits, target, mask, smoothing):
    wanted = target.masked_fill(~mask, -100)
    total = functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="sum", label_smoothing=smoothing
    )
    return total, int(mask.sum())


def smoothed_cross_entropy_in_loops(logits, target, mask, smoothing):
    total, count = logits.new_zeros(()), 0
    for b in range(logits.size(0)):
        for t in range(logits.size(1)):
            if mask[b, t]:
                log_p = logits[b, t] - torch.logsumexp(logits[b, t], 0)
                total = total - (1 - smoothing) * log_p[target[b, t]] - smoothing * log_p.sum() / len(log_p)
                count += 1
    return total, count


def smoothed_cross_entropy_of_real_rows(logits, target, mask, smoothing):
    logits, target = logits[mask], target[mask]
    log_p = torch.log_softmax(logits, 1)
    right = log_p[torch.arange(len(target)), target]
    return -((1 - smoothing) * right.sum() + smoothing * log_p.mean(1).sum()), len(target)


def mix_inputs_by_indexing(previous, predicted, uniform, rate, begin):
    mixed, chosen = previous.clone(), uniform < rate
    own = torch.roll(predicted, 1, 1)
    own[:, 0] = begin
    mixed[chosen] = own[chosen]
    return mixed


def mix_inputs_in_loops(previous, predicted, uniform, rate, begin):
    found = previous.tolist()
    for b, row in enumerate(found):
        for t in range(len(row)):
            if uniform[b, t] < rate:
                row[t] = begin if t == 0 else int(predicted[b, t - 1])
    return torch.tensor(found)


def mix_inputs_by_arithmetic(previous, predicted, uniform, rate, begin):
    own = functional.pad(predicted, (1, -1), value=begin)
    chosen = (uniform < rate).long()
    return chosen * own + (1 - chosen) * previous
