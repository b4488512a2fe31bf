"""Single plausible bugs, by rule, from the syntax tree of a package.

A mutant is named by file, function, rule and occurrence in the function, counted from 1. Edits elsewhere change neither
the name nor, since the order of a draw is a hash of seed and name, which mutants are drawn.

>>> for mutant in mutants_of("a.py", "def f(x, y):\\n    return g(x, y) if x < y else -y\\n"):
...     print(mutant.name, "|", mutant.before, "|", mutant.after)
a.py::f::comparison::1 | x < y | x <= y
a.py::f::swap::1 | g(x, y) | g(y, x)
a.py::f::arithmetic::1 | -y | y
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

# Word lists are data: what is wrong in them is no bug of the program's logic.
_EXCLUDED = ("**/miniworld/lexicon*.py",)
_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitXor: ast.BitAnd,
}
_AXES = {0: 1, 1: 0, 2: 1, 3: 2, -1: -2, -2: -1, -3: -2}
_AXIS_KEYWORDS = {"dim", "axis", "dim0", "dim1", "start_dim", "end_dim"}
# Of these methods and functions a literal whole number is an axis, wherever it stands.
_WITH_AXES = {
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "cat",
    "cummax",
    "cumprod",
    "cumsum",
    "diff",
    "flatten",
    "flip",
    "gather",
    "index_add",
    "index_copy",
    "index_fill",
    "index_select",
    "log_softmax",
    "logcumsumexp",
    "logsumexp",
    "mean",
    "movedim",
    "norm",
    "prod",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "select",
    "size",
    "softmax",
    "squeeze",
    "stack",
    "std",
    "sum",
    "swapaxes",
    "transpose",
    "unbind",
    "unsqueeze",
    "unsqueeze_",
    "var",
}
_SYMMETRIC = {
    "add",
    "allclose",
    "array_equal",
    "equal",
    "gcd",
    "getattr",
    "hasattr",
    "intersection",
    "isclose",
    "isinstance",
    "issubclass",
    "lcm",
    "logaddexp",
    "max",
    "maximum",
    "min",
    "minimum",
    "mul",
    "multiply",
    "print",
    "setattr",
    "union",
}
# Without these a type changes, which nothing survives, or nothing does.
_NEEDED = {
    "bool",
    "dict",
    "enumerate",
    "float",
    "frozenset",
    "id",
    "int",
    "iter",
    "len",
    "list",
    "next",
    "open",
    "print",
    "range",
    "repr",
    "set",
    "str",
    "super",
    "tuple",
    "type",
    "vars",
}
# Methods whose result is of the object's own type and, for tensors, shape.
_KEEP_THE_TYPE = {
    "abs",
    "casefold",
    "clamp",
    "clip",
    "detach",
    "exp",
    "flip",
    "log",
    "lower",
    "lstrip",
    "masked_fill",
    "removeprefix",
    "removesuffix",
    "replace",
    "roll",
    "rstrip",
    "sigmoid",
    "sqrt",
    "square",
    "strip",
    "tanh",
    "upper",
}
# Arguments that guard, cache, flush or lay out, and so change no result.
_NO_BEHAVIOUR = {
    "zip": {"strict"},
    "print": {"flush"},
    "warn": {"stacklevel"},
    "cache": {"maxsize"},
    "lru_cache": {"maxsize"},
    "dumps": {"allow_nan"},
    "to": {"non_blocking"},
    "dataclass": {"frozen", "slots", "kw_only", "eq", "repr"},
}
_TELLING = {"print", "echo", "warn", "debug", "info", "warning", "error", "log"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change at one place.

    Args:
        file: relative to the project.
        function: with the classes and functions around it; `module` outside of any.
        rule: what kind of change.
        occurrence: the how many-th place for the rule in the function, from 1.
        before, after: the smallest expression or statement changed.
        lines: first and last line of the statement, of what a compound statement asks, or of the function whose
            default it is; they name nothing, but tell which tests run them.
    """

    file: str
    function: str
    rule: str
    occurrence: int
    before: str
    after: str
    lines: tuple[int, int]

    @property
    def name(self) -> str:
        """What it is drawn, repeated and excused by."""
        return f"{self.file}::{self.function}::{self.rule}::{self.occurrence}"

    @property
    def package(self) -> str:
        """The stratum of the draw: a package's part, or the files beside them that share the start of a name."""
        parts = PurePath(self.file).parts
        return parts[1] if len(parts) > 2 else PurePath(self.file).stem.partition("_")[0] + "*"


@dataclass(slots=True)
class _Place:
    """A node, where it hangs in the tree, and what it may become."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    function: str
    statement: ast.stmt
    text: ast.AST | None  # the outermost f-string around it: positions inside are not those of the file before 3.12

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    def lines(self) -> tuple[int, int]:
        statement, node = self.statement, self.text or self.node
        if not hasattr(statement, "body"):
            return statement.lineno, statement.end_lineno
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            # A default or a decorator runs at import, but who calls the function meets it.
            return min([statement.lineno, *(one.lineno for one in statement.decorator_list)]), statement.end_lineno
        return node.lineno, node.end_lineno


def files_of(root: Path, package: str, *patterns: str) -> list[str]:
    """The package's files that can hold mutants, relative to the root; of patterns one has to match."""
    found = (path.relative_to(root) for path in sorted((root / package).rglob("*.py")))
    return [
        str(path)
        for path in found
        if any(path.match(pattern) for pattern in patterns or ("*",))
        and not any(path.match(pattern) for pattern in _EXCLUDED)
    ]


def mutants_of(file: str, text: str) -> list[Mutant]:
    """All mutants of a file."""
    return [
        Mutant(file, *named, ast.unparse(place.node), ast.unparse(new), place.lines())
        for named, place, new in _changes(ast.parse(text))
    ]


def mutated(mutant: Mutant, text: str) -> str:
    """The file's text with this one change, everything else as it stands.

    Raises:
        ValueError: the name does not occur, or the place cannot be written (quotes in a nested f-string).
    """
    tree = ast.parse(text)
    named = (mutant.function, mutant.rule, mutant.occurrence)
    known = next((change for change in _changes(tree) if change[0] == named), None)
    if known is None:
        raise ValueError(f"there is no {mutant.name}")
    _, place, new = known
    shown = place.text or place.node
    place.put(new)
    wanted = ast.dump(tree)
    written = ast.unparse(new if shown is place.node else shown)
    for form in (written, f"({written})"):
        changed = _replace(text, shown, form)
        try:
            read = ast.parse(changed)
        except SyntaxError:
            continue
        if ast.dump(read) == wanted and changed != text:
            return changed
    raise ValueError(f"{mutant.name} cannot be written")


def draw(mutants: Iterable[Mutant], number: int, seed: int) -> Iterator[Mutant]:
    """Mutants in order of drawing: packages in proportion to the root of their size, rules in turn.

    A package of four times as many places gets twice as many mutants; within it every rule is drawn equally often as
    long as it has places.
    """
    queues: dict[str, list[Mutant]] = {}
    by_package: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in sorted(mutants, key=lambda mutant: _rank(seed, mutant.name)):
        by_package[mutant.package][mutant.rule].append(mutant)
    for package, rules in by_package.items():
        order = sorted(rules, key=lambda rule, package=package: _rank(seed, f"{package} {rule}"))
        turns = [(turn, order.index(rule), mutant) for rule in order for turn, mutant in enumerate(rules[rule])]
        queues[package] = [mutant for *_, mutant in sorted(turns, key=lambda item: item[:2])]
    weights = {package: math.sqrt(len(queue)) for package, queue in queues.items()}
    taken: Counter[str] = Counter()
    while number > taken.total():
        left = [package for package in sorted(queues) if taken[package] < len(queues[package])]
        if not left:
            return
        package = max(left, key=lambda package: weights[package] / (taken[package] + 1))
        yield queues[package][taken[package]]
        taken[package] += 1


def _rank(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()


def _replace(text: str, node: ast.AST, new: str) -> str:
    """The text with a node's own written anew; columns count bytes."""
    lines = text.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], head + new.encode() + tail, *lines[last + 1 :]]).decode()


def _changes(tree: ast.Module) -> Iterator[tuple[tuple[str, str, int], _Place, ast.AST]]:
    """Each change's function, rule and occurrence, where it is made, and what is put there."""
    counts: Counter[tuple[str, str]] = Counter()
    axes: set[int] = set()
    imported = {
        (name.asname or name.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    for place in _places(tree):
        for rule, new in _variants(place.node, axes, imported | {"self", "cls"}):
            counts[place.function, rule] += 1
            yield (place.function, rule, counts[place.function, rule]), place, new


def _places(tree: ast.Module) -> Iterator[_Place]:
    """Every node that a rule may change, outer before inner, in the order of the text."""

    def below(parent: ast.AST, function: str, statement: ast.stmt | None, text: ast.AST | None) -> Iterator[_Place]:
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns") or (isinstance(parent, ast.Call) and _is_message(parent, field)):
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST) or _is_skipped(node) or _is_ineffective(parent, node):
                    continue
                own = node if isinstance(node, ast.stmt) else statement
                yield _Place(node, parent, field, index, function, own, text)
                inner = function
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inner = node.name if function == "module" else f"{function}.{node.name}"
                formatted = node if text is None and isinstance(node, ast.JoinedStr) else text
                yield from below(node, inner, own, formatted)

    return below(tree, "module", None, None)


def _is_skipped(node: ast.AST) -> bool:
    """Whether nothing in it can change what the program does: messages, invariants, what only type checkers read."""
    if isinstance(node, ast.Raise | ast.Assert):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in ("__all__", "__slots__") for target in node.targets)
    return isinstance(node, ast.If) and (
        "TYPE_CHECKING" in ast.unparse(node.test) or ast.unparse(node.test).startswith("__name__ ==")
    )


def _is_message(call: ast.Call, field: str) -> bool:
    return field in ("args", "keywords") and _called(call).endswith(("Error", "Warning"))


def _is_ineffective(parent: ast.AST, node: ast.AST) -> bool:
    if not isinstance(parent, ast.Call):
        return False
    if isinstance(node, ast.keyword):
        return node.arg in _NO_BEHAVIOUR.get(_called(parent), ())
    return _called(parent) in _TELLING and isinstance(node, ast.JoinedStr)


def _called(call: ast.Call) -> str:
    """The last part of what is called; empty for what has no name."""
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _variants(node: ast.AST, axes: set[int], owners: set[str]) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become, with the rule.

    `axes` collects the literals that are axes and so no other constants; `owners` are the names whose attributes are
    functions of what they are given: in `modules.f(x)` x may stand alone, in `x.split(y)` y says nothing.
    """
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = [*node.ops[:place], _COMPARISONS[type(operator)](), *node.ops[place + 1 :]]
            yield "comparison", ast.Compare(node.left, changed, node.comparators)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC and not _joins(node):
        other = _ARITHMETIC[type(node.op)]()
        yield (
            "arithmetic",
            (
                ast.BinOp(node.left, other, node.right)
                if isinstance(node, ast.BinOp)
                else ast.AugAssign(node.target, other, node.value)
            ),
        )
    elif isinstance(node, ast.BoolOp):
        yield "and-or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.operand
    elif (value := _number(node)) is not None:
        if id(node) not in axes:
            yield "constant+1", _literal(value + 1)
            yield "constant-1", _literal(value - 1)
        axes.update(id(inner) for inner in ast.walk(node))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield "arithmetic", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth", ast.Constant(not node.value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call", ast.Pass()
    elif isinstance(node, ast.Call):
        yield from _axis_variants(node, axes)
        yield from _call_variants(node, owners)


def _joins(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether it joins or formats texts, sequences, paths or types, of which another operator makes a TypeError."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Dict)
        or (isinstance(side, ast.Constant) and (side.value is None or isinstance(side.value, str)))
        for side in sides
    )


def _number(node: ast.AST) -> int | float | None:
    """The value of a literal number, with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand) if isinstance(node.operand, ast.Constant) else None
        return None if value is None else -value
    kept = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return node.value if kept else None


def _literal(value: int | float) -> ast.expr:
    """A number as it is parsed: with a sign before it."""
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _axis_variants(node: ast.Call, axes: set[int]) -> Iterator[tuple[str, ast.AST]]:
    given: list[tuple[str | int, ast.expr]] = [(keyword.arg or "", keyword.value) for keyword in node.keywords]
    given = [item for item in given if item[0] in _AXIS_KEYWORDS]
    if _called(node) in _WITH_AXES and isinstance(node.func, ast.Attribute):
        given += list(enumerate(node.args))
    for where, value in given:
        axis = _number(value)
        if isinstance(axis, int) and axis in _AXES:
            axes.update(id(inner) for inner in ast.walk(value))
            other = _literal(_AXES[axis])
            yield (
                "axis",
                ast.Call(
                    node.func,
                    [other if place == where else old for place, old in enumerate(node.args)],
                    [ast.keyword(one.arg, other) if one.arg == where else one for one in node.keywords],
                ),
            )


def _call_variants(node: ast.Call, owners: set[str]) -> Iterator[tuple[str, ast.AST]]:
    name = _called(node)
    if _is_message(node, "args"):
        return
    for place, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
        plain = all(isinstance(side, ast.Name | ast.Attribute) for side in (left, right))
        if plain and name not in _SYMMETRIC and ast.dump(left) != ast.dump(right):
            swapped = [*node.args[:place], right, left, *node.args[place + 2 :]]
            yield "swap", ast.Call(node.func, swapped, node.keywords)
    owner = node.func
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    free = isinstance(owner, ast.Name) and (owner is node.func or owner.id in owners)
    if isinstance(node.func, ast.Attribute) and name in _KEEP_THE_TYPE and not (free and node.args):
        yield "call", node.func.value
    elif (
        free
        and len(node.args) == 1
        and not node.keywords
        and name not in _NEEDED
        and not name[:1].isupper()
        and not isinstance(node.args[0], ast.Constant | ast.Starred)
    ):
        yield "call", node.args[0]


def package_sizes(mutants: Sequence[Mutant]) -> dict[str, int]:
    """How many mutants each package has."""
    return dict(sorted(Counter(mutant.package for mutant in mutants).items()))
