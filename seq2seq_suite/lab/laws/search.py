"""Laws of searches. The model is a table: for each prefix a row of log-probabilities of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near, number
from seq2seq_suite.lab.laws.attention import HEADS, WIDTH, torch_multi_head
from seq2seq_suite.lab.laws.common import Weights, only, unchanged
from seq2seq_suite.lab.probes import Probe

BEGIN, END = 1, 2
Prefix = tuple[int, ...]


def _model(vocabulary: int) -> tuple[Probe, Callable[[Prefix], list[float]]]:
    """A step for the student, and the log-probabilities behind a prefix that begins with BEGIN."""
    step = Probe("table", vocabulary, int(torch.randint(10_000, ())), name="step")
    return step, lambda prefix: step([prefix[:-1]], torch.tensor([prefix[-1]]))[0][0].tolist()


def _log_p(behind: Callable[[Prefix], list[float]], symbols: list[int], limit: int) -> float:
    """Of symbols with END, or of as many as the limit lets through."""
    total, prefix = 0.0, (BEGIN,)
    for symbol in [*symbols, END][:limit]:
        total, prefix = total + behind(prefix)[symbol], (*prefix, symbol)
    return total


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def _likeliest(behind: Callable[[Prefix], list[float]], limit: int) -> list[int]:
    """What a greedy search writes, END included."""
    prefix = (BEGIN,)
    while len(prefix) <= limit and END not in prefix:
        row = behind(prefix)
        prefix = (*prefix, row.index(max(row)))
    return list(prefix[1:])


@law(
    "greedy.argmax",
    part="greedy",
    note="003",
    says="the likeliest symbol is written at each step, until END",
    says_zh="每一步写最可能的符号，直到 END",
)
def greedy_argmax(student: Student) -> None:
    for _ in range(4):
        step, behind = _model(6)
        symbols, _total = student.call("greedy", step, [()], BEGIN, END, 6)
        expected = [symbol for symbol in _likeliest(behind, 6) if symbol != END]
        only(symbols, expected, "what is likeliest at each step (END = 2)", "每一步最可能的符号（END = 2）")


@law(
    "greedy.score",
    part="greedy",
    note="004",
    says="the score sums the log p of all symbols, END's too",
    says_zh="得分是所有符号（包括 END）的 log p 之和",
)
def greedy_score(student: Student) -> None:
    for _ in range(4):
        step, behind = _model(6)
        _symbols, total = student.call("greedy", step, [()], BEGIN, END, 6)
        expected = _log_p(behind, [symbol for symbol in _likeliest(behind, 6) if symbol != END], 6)
        near(float(total), expected, "log p of the output with END", "含 END 的 log p")


@law("greedy.end", part="greedy", kind=EDGE, note="003", says="an output may be END alone", says_zh="输出可以只有 END")
def greedy_end(student: Student) -> None:
    certain = torch.tensor([0.05, 0.05, 0.85, 0.05]).log()
    symbols, total = student.call("greedy", Probe("fixed", certain), None, BEGIN, END, 5)
    only(symbols, [], "a model that says END at once", "模型一开始就说 END")
    near(float(total), float(certain[END]), "its log p", "它的 log p")


@law(
    "greedy.limit",
    part="greedy",
    kind=EDGE,
    note="003",
    says="a model that never ends is stopped",
    says_zh="永不结束的模型会被叫停",
)
def greedy_limit(student: Student) -> None:
    step = Probe("fixed", torch.tensor([0.05, 0.05, 0.05, 0.85]).log(), name="step")
    symbols, _total = student.call("greedy", step, None, BEGIN, END, 5)
    only(symbols, [3] * 5, "a model that never says END, limit 5", "模型从不说 END，上限为 5")
    if len(student.calls) > 5:
        raise Broken(
            f"{len(student.calls)} steps were made, the limit is 5", f"走了 {len(student.calls)} 步，而上限是 5"
        )


def _search(student: Student, step: Probe, beam: int, limit: int, alpha: float) -> list[tuple[list[int], float]]:
    found = student.call("beam_search", step, Probe("select"), [()], BEGIN, END, beam, limit, alpha)
    if not found:
        raise Broken("no output was found", "没有找到任何输出")
    return [(list(symbols), float(score)) for symbols, score in found]


@law(
    "beam.exhaustive",
    part="beam",
    note="003",
    says="a beam wide enough finds the best of all outputs",
    says_zh="足够宽的 beam 找到所有输出中最好的",
)
def beam_exhaustive(student: Student) -> None:
    for alpha in (0.6, 0.0, 1.5):
        step, behind = _model(4)
        best, score = max(_all_outputs(behind, 4, 4, alpha), key=lambda output: output[1])
        found, own = _search(student, step, 64, 4, alpha)[0]
        if found != best and abs(own - score) > 1e-4:
            raise Broken(
                f"with alpha {alpha} the best of all outputs is {best}, score {number(score)}; "
                f"a beam of 64 found {found}, score {number(own)}",
                f"alpha 为 {alpha} 时所有输出中最好的是 {best}，得分 {number(score)}；"
                f"宽 64 的 beam 找到 {found}，得分 {number(own)}",
                got=own,
                expected=score,
            )
        near(own, score, f"the score of {found}", f"{found} 的得分", tolerance=1e-4)


def _all_outputs(
    behind: Callable[[Prefix], list[float]], vocabulary: int, limit: int, alpha: float
) -> list[tuple[list[int], float]]:
    """Every output that END closes, with its score."""

    def longer(prefix: Prefix, total: float) -> None:
        for symbol, gain in enumerate(behind(prefix)):
            if symbol == END:
                outputs.append((list(prefix[1:]), (total + gain) / _penalty(len(prefix), alpha)))
            elif len(prefix) < limit:
                longer((*prefix, symbol), total + gain)

    outputs: list[tuple[list[int], float]] = []
    longer((BEGIN,), 0.0)
    return outputs


@law(
    "beam.scores",
    part="beam",
    note="004",
    says="a score is log p / ((5 + T) / 6)^alpha, T with END",
    says_zh="得分为 log p / ((5 + T) / 6)^alpha，T 含 END",
)
def beam_scores(student: Student) -> None:
    for alpha in (0.0, 0.6):
        step, behind = _model(6)
        for symbols, score in _search(student, step, 4, 6, alpha)[:4]:
            if END in symbols:
                raise Broken(f"END stands among the symbols of {symbols}", f"{symbols} 里有 END")
            length = min(6, len(symbols) + 1)
            near(
                score,
                _log_p(behind, symbols, 6) / _penalty(length, alpha),
                f"the score of {symbols}, alpha {alpha}",
                f"{symbols} 的得分，alpha 为 {alpha}",
                tolerance=1e-4,
            )


@law(
    "beam.past",
    part="beam",
    note="003",
    says="each partial output goes on from its own past",
    says_zh="每条部分输出接着自己的过去往下写",
)
def beam_past(student: Student) -> None:
    for _ in range(3):
        step, behind = _model(6)
        for symbols, score in _search(student, step, 3, 6, 0.0):
            near(score, _log_p(behind, symbols, 6), f"log p of {symbols}", f"{symbols} 的 log p", tolerance=1e-4)
        for name, (state, last) in student.calls:
            if name == "step" and len(state) != len(last):
                raise Broken(
                    f"a state of {len(state)} rows was given {len(last)} symbols",
                    f"{len(state)} 行的状态却配了 {len(last)} 个符号",
                )


@law("beam.order", part="beam", kind=EDGE, note="004", says="the best output comes first", says_zh="最好的输出排在最前")
def beam_order(student: Student) -> None:
    for _ in range(3):
        step, _behind = _model(6)
        scores = [score for _, score in _search(student, step, 4, 6, 0.6)]
        if any(first < second for first, second in pairwise(scores)):
            raise Broken(
                f"scores are {[number(score) for score in scores]}: the best must come first",
                f"得分为 {[number(score) for score in scores]}：最好的应排在最前",
            )
    log_p = torch.tensor([0.0, 0.1, 0.35, 0.55]).log()
    symbols, _score = _search(student, Probe("fixed", log_p), 2, 6, 3.0)[0]
    only(
        symbols,
        [3] * 5,
        "beam 2, where the longest output is best though many end before it",
        "beam 为 2，最长的输出最好，而许多输出更早结束",
    )


@law(
    "beam.one",
    part="beam",
    kind=EDGE,
    note="004",
    says="a beam of 1 is at least as good as greedy search",
    says_zh="宽为 1 的 beam 不比贪心搜索差",
)
def beam_one(student: Student) -> None:
    for _ in range(5):
        step, behind = _model(6)
        greedy = [symbol for symbol in _likeliest(behind, 6) if symbol != END]
        symbols, score = _search(student, step, 1, 6, 0.0)[0]
        if symbols != greedy and len(greedy) < 6 and score < _log_p(behind, greedy, 6) - 1e-4:
            raise Broken(
                f"a beam of 1 wrote {symbols}, log p {number(score)}; greedy search writes {greedy}, "
                f"log p {number(_log_p(behind, greedy, 6))}",
                f"宽为 1 的 beam 写出 {symbols}，log p 为 {number(score)}；贪心搜索写出 {greedy}，"
                f"log p 为 {number(_log_p(behind, greedy, 6))}",
            )


@law(
    "beam.width",
    part="beam",
    kind=EDGE,
    note="004",
    says="`beam` rows go on, no more",
    says_zh="每步有 `beam` 行往下走，不多于此",
)
def beam_width(student: Student) -> None:
    step, _behind = _model(6)
    _search(student, step, 3, 5, 0.6)
    widest = max(len(last) for name, (_, last) in student.calls if name == "step")
    steps = sum(name == "step" for name, _ in student.calls)
    if not 1 < widest <= 3 or steps > 5:
        raise Broken(
            f"{steps} steps with up to {widest} rows; the limit is 5 steps, the beam 3",
            f"共 {steps} 步，最多 {widest} 行；上限是 5 步，beam 宽 3",
            got=widest,
            expected=3,
        )
    likely_end = torch.tensor([0.02, 0.04, 0.7, 0.06, 0.08, 0.1]).log()
    _search(student, Probe("fixed", likely_end, name="step"), 3, 3, 0.6)
    for rows in [len(last) for name, (_, last) in student.calls if name == "step"][1:]:
        if rows < 3:
            raise Broken(
                f"where END is likely {rows} of 3 rows go on: an output that ends takes no place of the beam",
                f"END 的概率很大时只有 {rows} 行往下走，应为 3 行：结束的输出不占 beam 的位置",
                got=rows,
                expected=3,
            )


@law(
    "beam.never",
    part="beam",
    kind=EDGE,
    note="004",
    says="what is impossible is never written",
    says_zh="不可能的符号绝不写出",
)
def beam_never(student: Student) -> None:
    log_p = torch.tensor([0.0, 0.0, 0.3, 0.7]).log()  # two symbols alone are possible
    for symbols, score in _search(student, Probe("fixed", log_p), 4, 4, 0.6):
        if set(symbols) - {3} or score == -float("inf"):
            raise Broken(
                f"{symbols} has probability 0: only 3 and END are possible",
                f"{symbols} 的概率为 0：只有 3 和 END 可能出现",
            )


@law(
    "beam.limit",
    part="beam",
    kind=EDGE,
    note="003",
    says="unfinished outputs are returned where none has ended",
    says_zh="只有都没结束时才返回未完成的输出",
)
def beam_limit(student: Student) -> None:
    log_p = torch.tensor([0.1, 0.2, 0.0, 0.7]).log()  # END is impossible
    symbols, score = _search(student, Probe("fixed", log_p), 2, 3, 0.6)[0]
    only(symbols, [3, 3, 3], "a model that never says END, limit 3", "模型从不说 END，上限为 3")
    near(score, 3 * float(log_p[3]) / _penalty(3, 0.6), "its score, T = 3", "它的得分，T = 3", tolerance=1e-4)
    for symbols, _ in _search(student, _model(6)[0], 4, 3, 0.6):
        if len(symbols) > 2:
            raise Broken(
                f"{symbols} is returned, which END does not close, though other outputs have finished",
                f"返回了 {symbols}，它没有 END，而别的输出已经完成",
            )


class Parts(NamedTuple):
    """A decoder of one attention."""

    embed: Probe
    weights: Weights
    num_heads: int


def _whole(x: Tensor, weights: Weights) -> Tensor:
    """Causal self-attention of a whole sequence."""
    return torch_multi_head(x, x, weights, attn_mask=torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1))


def _in_steps(student: Student, function: str, columns: list[Tensor], *others: Any) -> list[tuple[Tensor, Any]]:
    past, found = None, []
    for column in columns:
        output, past = student.call(function, column, past, *others)
        found.append((output, past))
    return found


@law(
    "cache.equals",
    part="cache",
    note="003",
    says="step by step gives what the whole sequence gives",
    says_zh="逐步计算与整个序列一次计算相同",
)
def cache_equals(student: Student) -> None:
    weights, x = Weights.drawn(WIDTH), torch.randn(2, 5, WIDTH)
    expected = _whole(x, weights)
    for place, (output, _) in enumerate(_in_steps(student, "cached_step", list(x.split(1, 1)), weights, HEADS)):
        near(
            output,
            expected[:, place : place + 1],
            f"step {place} against the whole sequence",
            f"第 {place} 步与整个序列比较",
        )


@law(
    "cache.positions",
    part="cache",
    note="004",
    says="each symbol is embedded at the position where it stands",
    says_zh="每个符号按它所在的位置做 embedding",
)
def cache_positions(student: Student) -> None:
    weights, vectors, positions = Weights.drawn(WIDTH), torch.randn(7, WIDTH), torch.randn(9, WIDTH)
    symbols = torch.randint(7, (3, 5))
    expected = _whole(vectors[symbols] + positions[:5], weights)
    parts = Parts(Probe("embed", vectors, positions), weights, HEADS)
    for place, (output, _) in enumerate(_in_steps(student, "decode_step", list(symbols.split(1, 1)), parts)):
        near(
            output,
            expected[:, place : place + 1],
            f"step {place}, which stands at position {place}",
            f"第 {place} 步，它位于位置 {place}",
        )


@law(
    "cache.grows",
    part="cache",
    note="003",
    says="keys and values of all positions are kept, oldest first",
    says_zh="保留所有位置的 key 和 value，旧的在前",
)
def cache_grows(student: Student) -> None:
    weights, x = Weights.drawn(WIDTH), torch.randn(2, 3, WIDTH)
    _, (keys, values) = _in_steps(student, "cached_step", list(x.split(1, 1)), weights, HEADS)[-1]
    for name, found, matrix, bias in (
        ("keys", keys, weights.wk, weights.bk),
        ("values", values, weights.wv, weights.bv),
    ):
        expected = torch.stack((x @ matrix.T + bias).split(WIDTH // HEADS, -1), 1)
        near(found, expected, f"{name} after three steps", f"三步之后的 {name}")


@law(
    "cache.chunk",
    part="cache",
    kind=EDGE,
    note="004",
    says="several new positions at once do not see one another's future",
    says_zh="一次给多个新位置时，也看不到后面的位置",
)
def cache_chunk(student: Student) -> None:
    weights, x = Weights.drawn(WIDTH), torch.randn(2, 5, WIDTH)
    expected = _whole(x, weights)
    steps = _in_steps(student, "cached_step", list(x.split((2, 3), 1)), weights, HEADS)
    near(steps[0][0], expected[:, :2], "two positions at once", "一次两个位置")
    near(steps[1][0], expected[:, 2:], "three more at once", "再一次三个位置")


@law(
    "cache.pure",
    part="cache",
    kind=EDGE,
    note="003",
    says="the past handed in stays as it is",
    says_zh="传入的 past 保持原样",
)
def cache_pure(student: Student) -> None:
    weights, x = Weights.drawn(WIDTH), torch.randn(2, 1, WIDTH)
    past = (torch.randn(2, HEADS, 3, WIDTH // HEADS), torch.randn(2, HEADS, 3, WIDTH // HEADS))
    unchanged(student, "cached_step", "x", x, past, weights, HEADS)
    keys, values = student.after[1]
    if not (torch.equal(keys, past[0]) and torch.equal(values, past[1])):
        raise Broken(
            "`past` was changed in place; another beam may still go on from it",
            "`past` 被就地修改了，而别的 beam 可能还要从它继续",
        )
