"""Right in another way: attention."""

import math

import torch
from torch.nn import functional

from seq2seq_suite.lab.given import GIVEN


def attend_by_einsum(query, key, value, visible=None):
    scores = torch.einsum("bhte,bhse->bhts", query, key) * query.shape[-1] ** -0.5
    if visible is not None:
        scores = torch.where(visible, scores, torch.tensor(-math.inf, dtype=scores.dtype))
    return torch.einsum("bhts,bhsv->bhtv", torch.nan_to_num(torch.softmax(scores, dim=-1)), value)


def attend_in_loops(query, key, value, visible=None):
    rows, heads, queries, width = query.shape
    keys = key.size(2)
    mask = None if visible is None else visible.expand(rows, heads, queries, keys)
    found = []
    for b in range(rows):
        for h in range(heads):
            for t in range(queries):
                seen = [s for s in range(keys) if mask is None or mask[b, h, t, s]]
                if not seen:
                    found.append(value.new_zeros(value.size(-1)))
                    continue
                scores = torch.stack([query[b, h, t] @ key[b, h, s] for s in seen]) / width**0.5
                weights = torch.softmax(scores, 0)
                found.append(sum(weight * value[b, h, s] for weight, s in zip(weights, seen, strict=True)))
    return torch.stack(found).view(rows, heads, queries, -1)


def attend_zeroing_blind_queries(query, key, value, visible=None):
    scores = (query / math.sqrt(query.size(-1))) @ key.mT
    if visible is None:
        return scores.softmax(-1) @ value
    weights = scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1)
    return (weights * visible.any(-1, keepdim=True)) @ value


def attend_scaling_both(query, key, value, visible=None):
    share = query.size(-1) ** -0.25
    scores = (query * share) @ (key * share).transpose(-1, -2)
    if visible is not None:
        scores = scores.masked_fill(visible.logical_not(), -math.inf)
    return scores.softmax(-1).nan_to_num() @ value


def attend_with_own_softmax(query, key, value, visible=None):
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    top = scores.max(-1, keepdim=True).values.clamp(min=torch.finfo(scores.dtype).min)
    shares = (scores - top).exp()
    return (shares @ value) / shares.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


def attend_in_float64(query, key, value, visible=None):
    scores = query.double() @ key.double().mT / math.sqrt(query.size(-1))
    if visible is not None:
        scores = scores + torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -math.inf)
    weights = scores.softmax(-1)
    return (torch.where(weights.isnan(), 0.0, weights) @ value.double()).to(query.dtype)


def attend_of_torch(query, key, value, visible=None):
    return functional.scaled_dot_product_attention(query, key, value, visible)


def causal_mask_by_comparison(length, past=0):
    return torch.arange(past + length)[None, :] <= torch.arange(past, past + length)[:, None]


def causal_mask_in_loops(length, past=0):
    return torch.tensor([[s <= past + t for s in range(past + length)] for t in range(length)])


def causal_mask_from_triu(length, past=0):
    return ~torch.triu(torch.ones(length, past + length), diagonal=past + 1).bool()


def padding_mask_in_a_loop(lengths, width):
    mask = torch.zeros(len(lengths), 1, width, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, 0, :length] = True
    return mask


def padding_mask_by_cumsum(lengths, width):
    ones = torch.ones(lengths.size(0), width, dtype=torch.int64)
    return (ones.cumsum(1) <= lengths[:, None])[:, None, :]


def split_heads_by_chunks(x, num_heads):
    return torch.stack(x.chunk(num_heads, -1), 1)


def split_heads_by_permute(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1).permute(0, 2, 1, 3).contiguous()


def merge_heads_by_cat(x):
    return torch.cat(x.unbind(1), -1)


def merge_heads_by_flatten(x):
    return x.permute(0, 2, 1, 3).flatten(2)


def multi_head_in_a_loop(x, memory, weights, num_heads, visible=None):
    width = x.size(-1) // num_heads
    mask = None if visible is None else visible.unsqueeze(1)
    heads = []
    for head in range(num_heads):
        own = slice(head * width, (head + 1) * width)
        query = x @ weights.wq[own].T + weights.bq[own]
        key = memory @ weights.wk[own].T + weights.bk[own]
        value = memory @ weights.wv[own].T + weights.bv[own]
        heads.append(GIVEN.attend(query[:, None], key[:, None], value[:, None], mask)[:, 0])
    return torch.cat(heads, -1) @ weights.wo.T + weights.bo


def multi_head_with_one_product(x, memory, weights, num_heads, visible=None):
    query = GIVEN.split_heads(functional.linear(x, weights.wq, weights.bq), num_heads)
    both = functional.linear(memory, torch.cat((weights.wk, weights.wv)), torch.cat((weights.bk, weights.bv)))
    key, value = (GIVEN.split_heads(part, num_heads) for part in both.chunk(2, -1))
    found = GIVEN.attend(query, key, value, None if visible is None else visible[:, None])
    return functional.linear(GIVEN.merge_heads(found), weights.wo, weights.bo)


def multi_head_by_einsum(x, memory, weights, num_heads, visible=None):
    def heads(of, matrix, bias):
        return torch.einsum("btd,hed->bhte", of, matrix.view(num_heads, -1, of.size(-1))) + bias.view(num_heads, 1, -1)

    query, key, value = (
        heads(x, weights.wq, weights.bq),
        heads(memory, weights.wk, weights.bk),
        heads(memory, weights.wv, weights.bv),
    )
    scores = torch.einsum("bhte,bhse->bhts", query, key) / math.sqrt(query.size(-1))
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], -math.inf)
    found = torch.einsum("bhts,bhse->bthe", scores.softmax(-1).nan_to_num(), value).flatten(2)
    return found @ weights.wo.T + weights.bo
