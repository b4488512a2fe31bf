"""Laws of trees and of sets of labels."""

from __future__ import annotations

import random
import re
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near, number
from seq2seq_suite.lab.laws.common import only, plain, repr_short, unchanged

Tree = str | tuple[str, list]
NOTE = ("S", [("NP", ["Deep", "learning"]), ("VP", ["is"]), ("ADJV", ["very", "powerful"])])


def drawn_tree(depth: int = 0) -> Tree:
    """A tree of at most four levels; the outermost is no word."""
    if depth and (depth > 3 or random.random() < 0.35):
        return random.choice("abcdef")
    return random.choice(["S", "NP", "VP"]), [drawn_tree(depth + 1) for _ in range(random.randint(1, 3))]


def words_of(tree: Tree) -> list[str]:
    """From left to right."""
    return [tree] if isinstance(tree, str) else [word for child in tree[1] for word in words_of(child)]


def symbols_of(tree: Tree) -> list[str]:
    """As `linearise`."""
    if isinstance(tree, str):
        return ["XX"]
    return [f"({tree[0]}", *(symbol for child in tree[1] for symbol in symbols_of(child)), ")"]


def words_spanned(symbols: list[str]) -> int | None:
    """How many words a tree spans; None where the symbols are none."""
    open_nodes, words, roots = [], 0, 0
    for symbol in symbols:
        if symbol == ")":
            if not open_nodes or not open_nodes.pop():
                return None
        elif not open_nodes and (roots or symbol == "XX"):
            return None
        if symbol == "XX":
            words += 1
        if symbol != ")" and open_nodes:
            open_nodes[-1] += 1
        if symbol.startswith("("):
            roots += not open_nodes
            open_nodes.append(0)
    return words if roots and not open_nodes else None


@law(
    "tree.example",
    part="tree",
    note="003",
    says="the note's sentence becomes its symbols",
    says_zh="笔记中的句子变成符号序列",
)
def tree_example(student: Student) -> None:
    got = " ".join(student.call("linearise", NOTE))
    only(
        got,
        "(S (NP XX XX ) (VP XX ) (ADJV XX XX ) )",
        "Deep learning is very powerful",
        "Deep learning is very powerful",
    )


@law("tree.inverse", part="tree", note="003", says="parse(linearise(t)) = t", says_zh="parse(linearise(t)) = t")
def tree_inverse(student: Student) -> None:
    for _ in range(20):
        tree = drawn_tree()
        only(student.call("linearise", tree), symbols_of(tree), f"linearise({tree})", f"linearise({tree})")
        only(
            student.call("parse", symbols_of(tree), words_of(tree)),
            tree,
            f"parse({' '.join(symbols_of(tree))!r}.split(), {words_of(tree)})",
            f"parse({' '.join(symbols_of(tree))!r}.split(), {words_of(tree)})",
        )


@law(
    "tree.malformed",
    part="tree",
    kind=EDGE,
    note="003",
    says="what is no tree gives None and raises nothing",
    says_zh="不是树的输出给 None，不抛异常",
)
def tree_malformed(student: Student) -> None:
    for symbols, words, what, what_zh in (
        ("(S XX", "a", "a bracket is left open", "括号没有闭合"),
        ("(S XX ) )", "a", "a bracket is closed twice", "括号闭合了两次"),
        (") (S XX )", "a", "it begins with a closing bracket", "以右括号开头"),
        ("(S )", "", "a node has no child", "结点没有孩子"),
        ("(S (NP ) XX )", "a", "an inner node has no child", "内部结点没有孩子"),
        ("(S XX XX )", "a", "there are more places than words", "位置比单词多"),
        ("(S XX )", "a b", "there are fewer places than words", "位置比单词少"),
        ("(S XX ) (S XX )", "a b", "there are two trees", "有两棵树"),
        ("(S XX ) (NP", "a", "a bracket is opened behind the tree", "树的后面又开了括号"),
        ("(S XX ) XX", "a b", "a word stands behind the tree", "树的后面还有单词"),
        ("XX", "a", "a word alone is no tree", "单独一个单词不是树"),
        ("", "", "there is nothing", "什么都没有"),
    ):
        only(
            student.call("parse", symbols.split(), words.split()),
            None,
            f"{what}: parse({symbols!r})",
            f"{what_zh}：parse({symbols!r})",
        )


@law(
    "tree.pure",
    part="tree",
    kind=EDGE,
    note="003",
    says="words and symbols stay as they are",
    says_zh="单词与符号保持原样",
)
def tree_pure(student: Student) -> None:
    unchanged(student, "parse", "symbols words", symbols_of(NOTE), words_of(NOTE))


def _allowed(student: Student, state: Any, most: int) -> dict[str, bool]:
    return {kind: bool(may) for kind, may in student.call("allowed", state, most).items()}


@law(
    "automaton.gold",
    part="automaton",
    kind=EDGE,
    note="003",
    says="every tree can be written",
    says_zh="每棵树都写得出来",
)
def automaton_gold(student: Student) -> None:
    for _ in range(8):
        tree = drawn_tree()
        symbols, state, output = symbols_of(tree), student.call("start", len(words_of(tree))), []
        for symbol in [*symbols, "END"]:
            kind = {"XX": "shift", ")": "close", "END": "end"}.get(symbol, "open")
            may = _allowed(student, state, _most_in_a_row(symbols))
            if not may[kind]:
                raise Broken(
                    f"after {' '.join(output) or 'nothing'} the tree goes on with {symbol}, but only "
                    f"{', '.join(one for one in may if may[one]) or 'nothing'} is allowed",
                    f"在 {' '.join(output) or '开头'} 之后树应接 {symbol}，"
                    f"但只允许 {', '.join(one for one in may if may[one]) or '（无）'}",
                )
            state = student.call("advance", state, kind)
            output.append(symbol)


def _most_in_a_row(symbols: list[str]) -> int:
    return max(len(run) for run in "".join("(" if one.startswith("(") else " " for one in symbols).split())


@law(
    "automaton.random",
    part="automaton",
    note="003",
    says="whatever is allowed ends in a tree",
    says_zh="只要按允许的写，结果总是一棵树",
)
def automaton_random(student: Student) -> None:
    for _ in range(12):
        words = random.randint(1, 4)
        output = _walk(student, words, 3)
        if words_spanned(output) != words:
            raise Broken(
                f"this is no tree over {words} words: {' '.join(output)}",
                f"这不是 {words} 个单词上的树：{' '.join(output)}",
            )


def _walk(student: Student, words: int, most: int) -> list[str]:
    """Allowed symbols, drawn until the end."""
    state, output = student.call("start", words), []
    for _ in range(80):
        may = [kind for kind, may in _allowed(student, state, most).items() if may]
        if not may:
            raise Broken(
                f"after {' '.join(output) or 'nothing'} nothing is allowed: a dead end",
                f"在 {' '.join(output) or '开头'} 之后什么都不允许：走进了死路",
            )
        kind = random.choice(may)
        if kind == "end":
            return output
        output.append({"open": "(X", "shift": "XX", "close": ")"}[kind])
        state = student.call("advance", state, kind)
    raise Broken(
        f"80 symbols and no end: {' '.join(output[:20])} ...", f"写了 80 个符号仍没结束：{' '.join(output[:20])} ……"
    )


@law(
    "automaton.bound",
    part="automaton",
    kind=EDGE,
    note="003",
    says="no more nodes open in a row than the bound",
    says_zh="连续打开的结点不超过上限",
)
def automaton_bound(student: Student) -> None:
    state = student.call("start", 3)
    for opened in range(3):
        may = _allowed(student, state, 2)
        if may["open"] != (opened < 2):
            raise Broken(
                f'{opened} nodes were opened in a row, the bound is 2: "open" is '
                f"{'allowed' if may['open'] else 'forbidden'}",
                f'已连续打开 {opened} 个结点，上限为 2："open" {"被允许" if may["open"] else "被禁止"}',
            )
        state = student.call("advance", state, "open" if opened < 2 else "shift")
    if not _allowed(student, state, 2)["open"]:
        raise Broken(
            "behind a word nodes may be opened again: the count in a row begins anew",
            "写了单词之后可以再打开结点：连续计数应重新开始",
        )


@law(
    "automaton.end",
    part="automaton",
    kind=EDGE,
    note="003",
    says="behind the tree only the end is allowed",
    says_zh="树写完后只允许结束",
)
def automaton_end(student: Student) -> None:
    state = student.call("start", 1)
    for kind in ("open", "shift", "close"):
        state = student.call("advance", state, kind)
    only(
        _allowed(student, state, 3),
        {"open": False, "shift": False, "close": False, "end": True},
        "behind (X XX )",
        "在 (X XX ) 之后",
    )


def _used() -> Tensor:
    used = torch.zeros(3, 7, dtype=torch.bool)
    used[1, 4] = used[2, 3] = used[2, 6] = True
    return used


@law(
    "labels.allowed",
    part="labels",
    note="003",
    says="no label twice, END behind at least one",
    says_zh="标签不重复，至少一个之后才能 END",
)
def labels_allowed(student: Student) -> None:
    used, end = _used(), 2
    allowed = student.call("allowed_labels", used, end)
    columns = [place for place in range(7) if place != end]
    near(allowed[:, columns].int(), (~used[:, columns]).int(), "labels that may follow", "可以接着写的标签")
    near(allowed[:, end].int(), torch.tensor([0, 1, 1], dtype=torch.int32), "whether END may follow", "是否可以写 END")


@law(
    "labels.set_loss",
    part="labels",
    note="003",
    says="-log of the summed probability of what remains",
    says_zh="余下标签概率之和的 -log",
)
def labels_set_loss(student: Student) -> None:
    log_p, remaining = torch.randn(4, 8).log_softmax(-1), torch.rand(4, 8) > 0.6
    remaining[:, 3] = True
    near(student.call("set_loss", log_p, remaining), -(log_p.exp() * remaining).sum(-1).log().sum(), tolerance=3e-5)


@law(
    "labels.f1",
    part="labels",
    note="003",
    says="micro counts all labels together, macro averages each one's own",
    says_zh="micro 合计所有标签，macro 对各标签的 F1 取平均",
)
def labels_f1(student: Student) -> None:
    labels = [3, 4, 5, 6]
    gold, predicted = (
        [{label for label in labels[:3] if random.random() < 0.5} | {3} for _ in range(6)] for _ in range(2)
    )
    hits, both = [], []
    for label in labels:
        hits.append(sum(label in right and label in found for right, found in zip(gold, predicted, strict=True)))
        both.append(sum((label in right) + (label in found) for right, found in zip(gold, predicted, strict=True)))
    micro, macro = student.call("micro_macro_f1", gold, predicted, labels)
    near(float(micro), 2 * sum(hits) / sum(both), "micro-F1")
    near(
        float(macro),
        sum(2 * hit / all_ for hit, all_ in zip(hits, both, strict=True) if all_) / 4,
        "macro-F1 over four labels, of which 6 stands nowhere",
        "四个标签的 macro-F1，其中 6 从未出现",
    )


@law(
    "labels.order",
    part="labels",
    kind=EDGE,
    note="003",
    says="the set loss knows no order of labels",
    says_zh="集合损失不知道标签的顺序",
)
def labels_order(student: Student) -> None:
    log_p, remaining, order = torch.randn(4, 8).log_softmax(-1), torch.rand(4, 8) > 0.6, torch.randperm(8)
    remaining[:, 3] = True
    near(
        student.call("set_loss", log_p[:, order], remaining[:, order]),
        student.call("set_loss", log_p, remaining),
        "labels permuted",
        "标签打乱之后",
        tolerance=3e-5,
    )


@law(
    "labels.gradient",
    part="labels",
    kind=EDGE,
    note="003",
    says="what remains shares the gradient by its probability",
    says_zh="余下的标签按概率分得梯度",
)
def labels_gradient(student: Student) -> None:
    log_p, remaining = torch.randn(4, 8).log_softmax(-1), torch.rand(4, 8) > 0.6
    remaining[:, 3] = True
    _, (found,) = student.call("set_loss", log_p, remaining, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches log_p", "梯度没有传到 log_p")
    p = log_p.exp()
    right = p - p * remaining / (p * remaining).sum(-1, keepdim=True)
    # as the logits feel it, for which log_p and its own log-softmax are the same
    near(found - p * found.sum(-1, keepdim=True), right, "gradient of the logits", "logits 的梯度", tolerance=3e-5)


@law(
    "labels.empty",
    part="labels",
    kind=EDGE,
    note="003",
    says="where nothing is found, F1 is 0",
    says_zh="什么都没找到时 F1 为 0",
)
def labels_empty(student: Student) -> None:
    for gold, predicted in (([{1}], [set()]), ([set()], [set()])):
        micro, macro = student.call("micro_macro_f1", gold, predicted, [1, 2])
        near([float(micro), float(macro)], [0.0, 0.0], f"micro_macro_f1({gold}, {predicted}, [1, 2])")


@law("labels.pure", part="labels", kind=EDGE, note="003", says="`used` stays as it is", says_zh="`used` 保持原样")
def labels_pure(student: Student) -> None:
    unchanged(student, "allowed_labels", "used", _used(), 2)


def _examples(student: Student) -> tuple[list[str], list[Any]]:
    """Sources and answers of the student's own task."""
    pairs = [(source, answer) for source, answer in student.call("own_examples", random.randrange(1, 10**6))]
    if len(pairs) < 20:
        raise Broken(
            f"there are {len(pairs)} examples; expected at least 20", f"只有 {len(pairs)} 个例子；至少要 20 个"
        )
    return [source for source, _ in pairs], [answer for _, answer in pairs]


@law(
    "task.examples",
    part="task",
    note="003",
    says="20 sources or more, 5 answers or more",
    says_zh="至少 20 个源，至少 5 种答案",
)
def task_examples(student: Student) -> None:
    sources, answers = _examples(student)
    if len(set(sources)) < len(sources) or not all(isinstance(one, str) and one.strip() for one in sources):
        raise Broken("a source stands there twice, or is no text", "有的源重复出现，或者不是文本")
    if (kinds := len({str(plain(answer)) for answer in answers})) < 5:
        raise Broken(f"there are {kinds} different answers; expected at least 5", f"只有 {kinds} 种答案；至少要 5 种")


@law(
    "task.seed",
    part="task",
    kind=EDGE,
    note="003",
    says="a seed draws the same examples again, another one others",
    says_zh="同一个种子抽出同样的例子，换种子就不同",
)
def task_seed(student: Student) -> None:
    seed = random.randrange(1, 10**6)
    first, again, others = (student.call("own_examples", number) for number in (seed, seed, seed + 1))
    only(again, first, f"own_examples({seed}) called again", f"再次调用 own_examples({seed})")
    new = len({source for source, _ in others} - {source for source, _ in first})
    if new < 10:
        raise Broken(
            f"own_examples({seed + 1}) has {new} sources that own_examples({seed}) has not; expected at least 10",
            f"own_examples({seed + 1}) 只有 {new} 个源不在 own_examples({seed}) 里；至少要 10 个",
        )


@law(
    "task.inverse",
    part="task",
    note="003",
    says="what is written reads back as the answer",
    says_zh="写出的符号能读回原来的答案",
)
def task_inverse(student: Student) -> None:
    for answer in random.sample(_examples(student)[1], 12):
        only(
            student.call("read_answer", list(student.call("write_answer", answer))),
            answer,
            f"read_answer(write_answer({repr_short(answer)}))",
            f"read_answer(write_answer({repr_short(answer)}))",
        )


@law(
    "task.symbols",
    part="task",
    note="003",
    says="symbols are words, and other answers have others",
    says_zh="符号是单词，不同的答案有不同的符号",
)
def task_symbols(student: Student) -> None:
    seen: dict[str, str] = {}
    for answer in _examples(student)[1]:
        symbols = list(student.call("write_answer", answer))
        if not symbols or not all(isinstance(one, str) and one and not re.search(r"\s", one) for one in symbols):
            raise Broken(
                f"write_answer({repr_short(answer)}) gives {repr_short(symbols)}, expected no blanks",
                f"write_answer({repr_short(answer)}) 给出 {repr_short(symbols)}：应为不含空白的字符串",
            )
        if {"BEGIN", "END", "PAD"} & set(symbols):
            raise Broken("BEGIN, END and PAD are added by the suite", "BEGIN、END、PAD 由本套件添加")
        if seen.setdefault(" ".join(symbols), repr_short(answer)) != repr_short(answer):
            raise Broken(
                f"{repr_short(answer)} and {seen[' '.join(symbols)]} have the same symbols",
                f"{repr_short(answer)} 与 {seen[' '.join(symbols)]} 的符号相同",
            )


@law("task.gold", part="task", note="003", says="right answers score 100", says_zh="全对得 100 分")
def task_gold(student: Student) -> None:
    answers = _examples(student)[1]
    near(
        float(student.call("score_answers", answers, answers)), 100.0, "the score of the right answers", "全对时的得分"
    )


@law(
    "task.malformed",
    part="task",
    kind=EDGE,
    note="003",
    says="whatever is written, reading raises nothing",
    says_zh="无论写了什么，读取都不抛异常",
)
def task_malformed(student: Student) -> None:
    student.call("read_answer", [])
    for answer in random.sample(_examples(student)[1], 6):
        symbols = list(student.call("write_answer", answer))
        for other in (
            symbols[:-1],
            symbols[1:],
            symbols + symbols,
            symbols[::-1],
            [*symbols, "?"],
            ["?"] * 3,
            random.sample(symbols, len(symbols)),
        ):
            student.call("read_answer", other)


@law(
    "task.wrong",
    part="task",
    kind=EDGE,
    note="003",
    says="wrong answers score less, none at all 0",
    says_zh="答错得分更低，什么都没答得 0 分",
)
def task_wrong(student: Student) -> None:
    answers = _examples(student)[1]
    half = len(answers) // 2
    near(
        float(student.call("score_answers", answers, [None] * len(answers))),
        0.0,
        "the score of None alone",
        "全是 None 时的得分",
    )
    for what, what_zh, predicted in (
        ("half of them None", "一半是 None", answers[:half] + [None] * (len(answers) - half)),
        ("answers of other sources", "张冠李戴", answers[1:] + answers[:1]),
    ):
        score = float(student.call("score_answers", answers, predicted))
        if not 0 <= score < 100 or (what.startswith("half") and score == 0):
            raise Broken(
                f"{what}: the score is {number(score)}; expected more than 0 and less than 100",
                f"{what_zh}：得分为 {number(score)}；应大于 0 且小于 100",
            )


@law(
    "task.pure",
    part="task",
    kind=EDGE,
    note="003",
    says="answers and symbols stay as they are",
    says_zh="答案与符号保持原样",
)
def task_pure(student: Student) -> None:
    symbols = unchanged(student, "write_answer", "answer", random.choice(_examples(student)[1]))
    unchanged(student, "read_answer", "symbols", list(symbols))
