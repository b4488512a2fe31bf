"""Right in another way: language modelling."""

import torch
from torch.nn import functional


def language_loss_of_torch(logits, tokens, mask):
    wanted = tokens.masked_fill(~mask, -100)[:, 1:]
    total = functional.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), ignore_index=-100, reduction="sum")
    return total, int((wanted != -100).sum())


def language_loss_in_loops(logits, tokens, mask):
    total, count = logits.new_zeros(()), 0
    for row in range(tokens.size(0)):
        for place in range(1, tokens.size(1)):
            if mask[row, place]:
                before = logits[row, place - 1]
                total, count = total + torch.logsumexp(before, 0) - before[tokens[row, place]], count + 1
    return total, count


def language_loss_of_chosen_rows(logits, tokens, mask):
    asked = mask[:, 1:]
    log_p = torch.log_softmax(logits[:, :-1][asked], 1)
    return -log_p[torch.arange(len(log_p)), tokens[:, 1:][asked]].sum(), asked.sum()


def layout_by_lengths(source, target, begin, end):
    tokens = [*source, begin]
    tokens.extend(target)
    tokens.append(end)
    predicted = [False] + [True] * (len(source) - 1) + [False] * (len(target) + 2)
    answered = [False] * (len(source) + 1) + [True] * (len(target) + 1)
    return tokens, predicted, answered


def layout_as_tensors(source, target, begin, end):
    tokens = torch.tensor([*source, begin, *target, end])
    place = torch.arange(len(tokens))
    return tokens, (place > 0) & (place < len(source)), place >= len(source) + 1


def fine_tuning_loss_by_names(target, language, weight):
    (answers, asked), (sources, predicted) = target, language
    return answers / asked + weight * (sources / predicted)
