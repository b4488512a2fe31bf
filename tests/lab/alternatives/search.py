"""Right in another way: searches."""

import heapq
import math

import torch

from seq2seq_suite.lab.given import GIVEN


def greedy_with_while(step, state, begin, end, limit):
    written, total = [begin], 0.0
    while len(written) <= limit and (len(written) == 1 or written[-1] != end):
        log_p, state = step(state, torch.tensor(written[-1:]))
        best, symbol = log_p.max(-1)
        written.append(symbol.item())
        total += best.item()
    return [symbol for symbol in written[1:] if symbol != end], total


def greedy_by_recursion(step, state, begin, end, limit):
    if limit == 0:
        return [], 0.0
    log_p, state = step(state, torch.tensor([begin]))
    row = log_p[0].tolist()
    symbol = row.index(max(row))
    if symbol == end:
        return [], row[symbol]
    rest, total = greedy_by_recursion(step, state, symbol, end, limit - 1)
    return [symbol, *rest], row[symbol] + total


def greedy_as_tensor(step, state, begin, end, limit):
    last, symbols, total = torch.tensor([begin]), [], torch.zeros(())
    for _ in range(limit):
        log_p, state = step(state, last)
        last = log_p.topk(1).indices[:, 0]
        total = total + log_p[0, last[0]]
        if last == end:
            return torch.tensor(symbols, dtype=torch.int64), total
        symbols.append(last.item())
    return torch.tensor(symbols), total


def beam_search_of_sorted_candidates(step, select, state, begin, end, beam, limit, alpha):
    live, done, last = [([], 0.0)], [], torch.tensor([begin])
    for length in range(1, limit + 1):
        log_p, state = step(state, last)
        candidates = [
            (total + float(log_p[row, symbol]), row, symbol)
            for row, (_, total) in enumerate(live)
            for symbol in range(log_p.size(1))
            if log_p[row, symbol] > -math.inf
        ]
        candidates.sort(key=lambda one: -one[0])
        going = []
        for total, row, symbol in candidates[: 2 * beam]:
            if symbol == end:
                done.append((live[row][0], total / ((5 + length) / 6) ** alpha))
            elif len(going) < beam:
                going.append((total, row, symbol))
        if not going:
            break
        live = [(live[row][0] + [symbol], total) for total, row, symbol in going]
        state = select(state, torch.tensor([row for _, row, _ in going]))
        last = torch.tensor([symbol for *_, symbol in going])
    if not done:
        done = [(symbols, total / ((5 + limit) / 6) ** alpha) for symbols, total in live]
    return sorted(done, key=lambda one: one[1], reverse=True)


def beam_search_with_a_heap(step, select, state, begin, end, beam, limit, alpha):
    rows, done = [(0.0, ())], []
    last = torch.tensor([begin])
    for length in range(1, limit + 1):
        log_p, state = step(state, last)
        table = log_p.double() + torch.tensor([total for total, _ in rows], dtype=torch.float64)[:, None]
        for row, (_, symbols) in enumerate(rows):
            if table[row, end] > -math.inf:
                done.append((symbols, float(table[row, end]) / ((5 + length) / 6) ** alpha))
        table[:, end] = -math.inf
        best = heapq.nlargest(
            beam,
            (
                (float(table[row, symbol]), row, symbol)
                for row in range(len(rows))
                for symbol in range(table.size(1))
                if table[row, symbol] > -math.inf
            ),
        )
        if not best:
            break
        rows = [(total, (*rows[row][1], symbol)) for total, row, symbol in best]
        state = select(state, torch.tensor([row for _, row, _ in best]))
        last = torch.tensor([symbol for _, _, symbol in best])
    if not done:
        done = [(symbols, total / ((5 + limit) / 6) ** alpha) for total, symbols in rows]
    return sorted(done, key=lambda one: -one[1])


def beam_search_that_stops_when_nothing_can_win(step, select, state, begin, end, beam, limit, alpha):
    def scored(total, length):
        return total / ((5 + length) / 6) ** alpha

    symbols, totals, done = [[]], torch.zeros(1), []
    last = torch.tensor([begin])
    for length in range(1, limit + 1):
        log_p, state = step(state, last)
        flat = (totals[:, None] + log_p).flatten()
        order = flat.argsort(descending=True)[: 2 * beam]
        order = order[flat[order] > -math.inf]
        closing = [place for place in order.tolist() if place % log_p.size(1) == end]
        done += [(symbols[place // log_p.size(1)], scored(float(flat[place]), length)) for place in closing]
        going = torch.tensor([place for place in order.tolist() if place not in closing][:beam], dtype=torch.int64)
        if not len(going):
            break
        rows, last, totals = going // log_p.size(1), going % log_p.size(1), flat[going]
        symbols = [symbols[row] + [symbol] for row, symbol in zip(rows.tolist(), last.tolist(), strict=True)]
        state = select(state, rows)
        if len(done) >= beam and max(score for _, score in done) >= scored(float(totals.max()), limit):
            break
    if not done:
        done = [(one, scored(float(total), limit)) for one, total in zip(symbols, totals, strict=True)]
    return sorted(done, key=lambda one: one[1])[::-1]


def cached_step_joining_before_the_split(x, past, weights, num_heads):
    keys, values = x @ weights.wk.T + weights.bk, x @ weights.wv.T + weights.bv
    keys, values = GIVEN.split_heads(keys, num_heads), GIVEN.split_heads(values, num_heads)
    if past is not None:
        keys, values = (torch.cat(pair, dim=2) for pair in zip(past, (keys, values), strict=True))
    query = GIVEN.split_heads(x @ weights.wq.T + weights.bq, num_heads)
    cached = keys.size(2) - query.size(2)
    visible = torch.arange(keys.size(2)) <= torch.arange(cached, keys.size(2))[:, None]
    return GIVEN.merge_heads(GIVEN.attend(query, keys, values, visible)) @ weights.wo.T + weights.bo, [keys, values]


def cached_step_position_by_position(x, past, weights, num_heads):
    outputs = []
    for column in x.split(1, 1):
        query, key, value = (
            GIVEN.split_heads(column @ w.T + b, num_heads)
            for w, b in ((weights.wq, weights.bq), (weights.wk, weights.bk), (weights.wv, weights.bv))
        )
        past = (key, value) if past is None else (torch.cat((past[0], key), 2), torch.cat((past[1], value), 2))
        outputs.append(GIVEN.merge_heads(GIVEN.attend(query, *past)) @ weights.wo.T + weights.bo)
    return torch.cat(outputs, 1), past


def decode_step_written_out(symbols, past, parts):
    cached = past[0].shape[-2] if past else 0
    return GIVEN.cached_step(parts.embed(symbols, cached), past, parts.weights, parts.num_heads)
