"""Right in another way: trees and sets of labels."""

import torch


def linearise_with_a_stack(tree):
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        if node is None:
            found.append(")")
        elif isinstance(node, str):
            found.append("XX")
        else:
            found.append("(" + node[0])
            todo += [None, *reversed(node[1])]
    return found


def linearise_by_generator(tree):
    def symbols(node):
        if isinstance(node, str):
            yield "XX"
            return
        yield "(" + node[0]
        for child in node[1]:
            yield from symbols(child)
        yield ")"

    return tuple(symbols(tree))


def parse_by_descent(symbols, words):
    place, taken = 0, 0

    class No(Exception):
        pass

    def node():
        nonlocal place, taken
        if place >= len(symbols):
            raise No
        symbol = symbols[place]
        place += 1
        if symbol == "XX":
            if taken >= len(words):
                raise No
            taken += 1
            return words[taken - 1]
        if symbol == ")":
            raise No
        children = []
        while place < len(symbols) and symbols[place] != ")":
            children.append(node())
        if place >= len(symbols) or not children:
            raise No
        place += 1
        return symbol[1:], children

    try:
        tree = node()
    except No:
        return None
    return tree if place == len(symbols) and taken == len(words) and not isinstance(tree, str) else None


def parse_by_reducing(symbols, words):
    if symbols.count("XX") != len(words):
        return None
    rest, stack = iter(words), []
    for number, symbol in enumerate(symbols):
        if symbol == "XX":
            stack.append(next(rest))
        elif symbol.startswith("("):
            stack.append(symbol)
        else:
            children = []
            while stack and not (isinstance(stack[-1], str) and stack[-1].startswith("(")):
                children.insert(0, stack.pop())
            if not stack or not children:
                return None
            stack.append((stack.pop()[1:], children))
        if len(stack) == 1 and isinstance(stack[0], tuple) and number < len(symbols) - 1:
            return None
    return stack[0] if len(stack) == 1 and isinstance(stack[0], tuple) else None


def allowed_labels_by_where(used, end):
    ends = (torch.arange(used.size(1)) == end)[None]
    return torch.where(ends, used.any(1, keepdim=True), used.logical_not())


def allowed_labels_in_loops(used, end):
    rows = []
    for row in used.tolist():
        rows.append([any(row) if place == end else not one for place, one in enumerate(row)])
    return torch.tensor(rows)


def set_loss_of_probabilities(log_p, remaining):
    return -(log_p.softmax(-1) * remaining).sum(-1).log().sum()


def set_loss_in_a_loop(log_p, remaining):
    return sum((-torch.logsumexp(row[own], 0) for row, own in zip(log_p, remaining, strict=True)), torch.zeros(()))


def micro_macro_f1_by_counting(gold, predicted, labels):
    counts = {label: [0, 0] for label in labels}
    for right, found in zip(gold, predicted, strict=True):
        for label in right & found:
            counts[label][0] += 2
        for label in [*right, *found]:
            counts[label][1] += 1
    hits, total = sum(one for one, _ in counts.values()), sum(both for _, both in counts.values())
    return hits / total if total else 0.0, sum(one / both for one, both in counts.values() if both) / len(labels)


def micro_macro_f1_by_precision(gold, predicted, labels):
    def f1(hit, wrong, missed):
        return hit / (hit + 0.5 * (wrong + missed)) if hit else 0.0

    table = torch.tensor(
        [[[label in right, label in found] for label in labels] for right, found in zip(gold, predicted, strict=True)]
    )
    hit = (table[..., 0] & table[..., 1]).sum(0).tolist()
    missed = (table[..., 0] & ~table[..., 1]).sum(0).tolist()
    wrong = (table[..., 1] & ~table[..., 0]).sum(0).tolist()
    own = [f1(*three) for three in zip(hit, wrong, missed, strict=True)]
    return f1(sum(hit), sum(wrong), sum(missed)), sum(own) / len(own)
