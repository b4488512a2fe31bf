"""The shape of the house: who may import whom, and how large a room may be."""

import ast
import io
import re
import tokenize
from pathlib import Path

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
PACKAGE = Path(__file__).parents[1] / "seq2seq_suite"

# What a part may import of ours, beside what is open to all.
MAY_IMPORT = {
    "types": set(),
    "shapes": set(),
    "text": set(),
    "trees": set(),
    "files": set(),
    "run_format": set(),
    "user_code": set(),
    "lazy": set(),
    "config_section": set(),
    "config_search": {"config_section"},
    "config_backbone": {"config_section"},
    "config_uses": {"strategies", "config_section"},
    "config": {"config_section", "config_search", "config_backbone", "config_uses", "kernels", "strategies", "data",
               "tasks"},
    "kernels": {"model", "strategies"},  # its modules; what chooses among them knows names alone
    "model": {"kernels"},
    "strategies": {"kernels", "model", "config_section", "config_search"},
    "miniworld": set(),
    "data": {"miniworld", "config_section"},  # one source of rows among others, behind one door
    "metrics": set(),
    "tasks": {"data", "metrics", "config_section"},
    "report": {"metrics"},  # their names
    "serve": {"report", "experiments", "library", "config", "config_uses", "tasks", "data",
              "metrics"},  # the live page
    "training": {"model", "strategies", "data", "metrics", "config", "config_section", "report", "kernels"},
    "experiments": {"training", "model", "strategies", "data", "metrics", "tasks", "report", "config", "config_section",
                    "config_file", "kernels"},
}
MAY_IMPORT["lab"] = set(MAY_IMPORT) | {"config_file", "cli_inputs", "library"}  # on top; nothing there knows of it
# A type in an annotation is no dependency at run time: the builder reads the configuration's fields.
FOR_TYPES_ONLY = {"model": {"config_backbone"}, "config_uses": {"config"}, "tasks": {"config"}, "training": {"tasks"},
                  "metrics": {"data"}}
# In the order in which to read them; with docstrings, and what they need of `types`.
STUDENTS_PATH = ("model/attention.py", "model/layers.py", "model/encoder.py", "model/decoder.py", "model/seq2seq.py",
                 "strategies/autoregressive.py", "strategies/search.py", "strategies/beam.py",
                 "strategies/parallel.py", "strategies/length_head.py")
STUDENTS_LINES = 1_303
OPEN_TO_ALL = {"types", "shapes", "text", "trees", "files", "run_format", "user_code", "lazy"}
MOST_LINES = 350
# Lines of code may fall; to rise they need a reason. The lab's include solutions, laws and faults.
MOST_CODE = {"house": 16_028, "pages": 1_688, "lab": 6_903}
ROOM_OF = {"report": "pages", "serve": "pages", "lab": "lab"}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seq2seq_suite."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "seq2seq_suite":
            found |= {alias.name for alias in node.names if not alias.name.startswith("__")}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("seq2seq_suite.")}
    return found


def test_parts_import_only_what_they_may():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        part = part_of(path)
        if part not in MAY_IMPORT:
            continue
        allowed = MAY_IMPORT[part] | FOR_TYPES_ONLY.get(part, set()) | OPEN_TO_ALL | {part}
        extra = imports(ast.parse(path.read_text())) - allowed
        if extra:
            wrong.append(f"{path.relative_to(PACKAGE)} imports {', '.join(sorted(extra))}")
    assert not wrong, wrong


def test_the_embedded_data_are_entered_by_their_door_alone():
    others = [path for path in PACKAGE.rglob("*.py") if part_of(path) not in ("miniworld", "__init__")]
    entered = {f"{path.relative_to(PACKAGE)}: {line.strip()}" for path in others
               for line in path.read_text().splitlines() if "seq2seq_suite.miniworld" in line}
    assert entered == {"data/sources.py: from seq2seq_suite.miniworld import TEXTS, VIEWS, rows, version",
                       "data/sources.py: from seq2seq_suite.miniworld import VIEWS",
                       "lab/replaying.py: from seq2seq_suite.miniworld import start_voices"}
    assert not [path.name for path in (PACKAGE / "tasks").rglob("*.py") if "miniworld" in path.read_text()]


def test_every_package_is_known_to_the_rule():
    parts = {part_of(path) for path in PACKAGE.rglob("*.py")}
    assert parts - set(MAY_IMPORT) == {
        "__init__", "__main__", "cli", "cli_cache", "cli_completion", "cli_exit", "cli_export", "cli_inputs",
        "cli_predict", "cli_presets", "cli_score", "cli_serve", "config_file", "config_yaml", "config_errors",
        "library"}


def lines_of_code(text: str) -> int:
    """Lines without blank ones, comments, docstrings and imports."""
    code = {line for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_CODE
            for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        said = node.body[0] if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body else node
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(said, ast.Expr) and isinstance(
                said.value, ast.Constant) and isinstance(said.value.value, str)):
            code -= set(range(said.lineno, said.end_lineno + 1))
    return len(code)


def test_lines_of_code_are_counted_as_said():
    text = '"""Doc."""\nimport a\n\n# why\ndef f(x):\n    """Doc."""\n    return (x +\n            1)\n'
    assert lines_of_code(text) == 3


def test_the_package_does_not_grow_without_a_word():
    lines = dict.fromkeys(MOST_CODE, 0)
    for path in PACKAGE.rglob("*.py"):
        if part_of(path) != "miniworld":
            lines[ROOM_OF.get(part_of(path), "house")] += lines_of_code(path.read_text())
    assert all(lines[room] <= most for room, most in MOST_CODE.items()), lines


def test_files_stay_small_enough_to_read():
    large = {str(path.relative_to(PACKAGE)): count for path in PACKAGE.rglob("*.py")
             if (count := len(path.read_text().splitlines())) > MOST_LINES}
    assert not large, large


def test_what_a_student_reads_stays_short():
    """The files in the README's reading order, and the shared types that they import."""
    lines, names = 0, set()
    for name in STUDENTS_PATH:
        text = (PACKAGE / name).read_text()
        lines += len(text.splitlines())
        names |= {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)
                  and node.module == "seq2seq_suite.types" for alias in node.names}
    lines += sum(node.end_lineno - node.lineno + 1 for node in ast.parse((PACKAGE / "types.py").read_text()).body
                 if isinstance(node, ast.ClassDef) and node.name in names)
    assert lines <= STUDENTS_LINES, lines


def test_the_readme_names_what_a_student_reads_in_order():
    text = " ".join((PACKAGE.parent / "README.md").read_text().split())
    text = text[text.index("To read it, begin with"):]
    places = [text.index(f"`{name.rpartition('/')[2]}`" if number else f"`{name}`")
              for number, name in enumerate(STUDENTS_PATH)]
    assert places == sorted(places)


def test_private_names_of_torch_are_in_one_file():
    private = {str(path.relative_to(PACKAGE)): found for path in PACKAGE.rglob("*.py")
               if (found := re.findall(r"torch(?:\.\w+)*\.(?:_(?!_)|ops\b)\w*", path.read_text()))}
    assert set(private) <= {"kernels/torch_private.py", "lab/folder.py"}, private  # the lab refuses them to students


def test_no_layer_keeps_its_cache():
    """The key-value cache is passed in and returned: nothing in `model` assigns to self outside a constructor."""
    for path in (PACKAGE / "model").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                for inner in ast.walk(node):
                    targets = inner.targets if isinstance(inner, ast.Assign) else []
                    assert not any(isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
                                   and target.value.id == "self" for target in targets), f"{path.name}: {node.name}"
