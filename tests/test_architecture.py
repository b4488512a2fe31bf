"""The shape of the house: which room may import which, as README's table says, and how large a file may be."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import yaml

IMPORTS, DOCUMENTED = ast.Import | ast.ImportFrom, ast.Module | ast.ClassDef | ast.FunctionDef
PACKAGE = Path(__file__).parents[1] / "seq2seq_suite"

# In the order in which to read them; with docstrings, and what they need of `types`.
STUDENTS_PATH = (
    "model/attention.py",
    "model/layers.py",
    "model/encoder.py",
    "model/decoder.py",
    "model/seq2seq.py",
    "strategies/autoregressive.py",
    "search/step.py",
    "search/beam.py",
    "strategies/parallel/base.py",
    "strategies/parallel/length_head.py",
)
STUDENTS_LINES = 1_456  # with all that they import, 20 of them for `consistency`; 3,628 lines of text once
OPEN_TO_ALL = {"common"}
IN_A_CIRCLE: set[str] = set()  # must stay empty
MOST_LINES = 290
# Statements may fall; to rise they need a reason. The lab's include solutions, laws and faults.
# Since 15,467: 768 for imports, 330 for freezing, LoRA and loading a tensor at a time, 130 for studies whose runs begin
# from one another, 89 for consistency and risk, 57 for figures of decoding (10 on pages), 140 for
# the ways out of BART and Whisper and for suppressed symbols, 18 for copies that hidden symbols of blocks read.
MOST_CODE = {"house": 17_020, "pages": 1_205, "lab": 4_950}
ROOM_OF = {"report": "pages", "serve": "pages", "lab": "lab"}


@cache
def rooms() -> dict[str, tuple[set[str], set[str]]]:
    """README's table: room -> what it may import, and what for annotations alone."""
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|([^|]*)\|", (PACKAGE / "README.md").read_text(), re.MULTILINE)
    every = {name for name, *_ in rows} | {"api"}
    return {
        name: tuple(every if "all" in cell else set(re.findall(r"\w+", cell)) for cell in cells)
        for name, *cells in rows
    }


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imports(text: str) -> tuple[set[str], set[str]]:
    """The rooms that a file imports when it runs, and those that it imports under TYPE_CHECKING."""
    nodes = list(ast.walk(ast.parse(text)))
    lazy = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: tuple[set[str], set[str]] = set(), set()
    for node in nodes:
        own = found[id(node) in lazy]
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("seq2seq_suite."):
            own.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "seq2seq_suite":
            own |= {alias.name for alias in node.names if not alias.name.startswith("__")}
        elif isinstance(node, ast.Import):
            own |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("seq2seq_suite.")}
    return found


def test_an_import_for_types_alone_is_one_under_type_checking():
    text = "from seq2seq_suite.data import a\nif TYPE_CHECKING:\n    from seq2seq_suite import tasks\nelse:\n    pass\n"
    assert imports(text) == ({"data"}, {"tasks"})


def test_rooms_import_only_what_the_readme_says():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = part_of(path)
        if path.parent == PACKAGE:
            continue
        allowed, for_types = rooms()[room]
        at_run_time, in_annotations = imports(path.read_text())
        for extra in (
            at_run_time - allowed - OPEN_TO_ALL - {room},
            in_annotations - allowed - for_types - OPEN_TO_ALL - {room},
        ):
            wrong += [f"{path.relative_to(PACKAGE)} imports {', '.join(sorted(extra))}"] if extra else []
    assert not wrong, wrong


def test_rooms_are_used_as_the_readme_says():
    """No row promises more than a room needs."""
    used: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        used.setdefault(part_of(path), set()).update(set.union(*imports(path.read_text())))
    unused = {
        room: spare
        for room, cells in rooms().items()
        if (spare := set.union(*cells) - used[room] - {room}) and room != "lab"
    }
    assert not unused, unused


def test_no_room_leads_back_to_itself():
    needs = {room: cells[0] - {room} for room, cells in rooms().items()}

    def reached(room: str) -> set[str]:
        found, new = set(), set(needs[room])
        while new:
            found |= new
            new = set().union(*(needs.get(one, set()) for one in new)) - found
        return found

    assert {room for room in needs if room in reached(room)} <= IN_A_CIRCLE


def test_the_entrance_has_folders_alone():
    names = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py"}
    assert names == {"__init__.py", "__main__.py", "api.py"}
    folders = {path.name for path in PACKAGE.iterdir() if list(path.glob("*.py"))}
    assert folders == set(rooms()), folders ^ set(rooms())


def test_tasks_load_no_torch():
    code = "import sys, seq2seq_suite.tasks.base; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_embedded_data_are_entered_by_their_door_alone():
    others = [path for path in PACKAGE.rglob("*.py") if part_of(path) not in ("miniworld", "__init__")]
    entered = {
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in others
        for line in path.read_text().splitlines()
        if "seq2seq_suite.miniworld" in line
    }
    assert entered == {
        "data/sources.py: from seq2seq_suite.miniworld import TEXTS, rich_world, rows, splits_of, version",
        "data/sources.py: from seq2seq_suite.miniworld import GAPS, VIEWS",
        "lab/replaying.py: from seq2seq_suite.miniworld import start_voices",
    }
    assert not [path for path in (PACKAGE / "tasks").rglob("*.py") if "seq2seq_suite.miniworld" in path.read_text()]


@cache
def counted(text: str) -> tuple[int, int]:
    """Statements, as the tokenizer ends them, without docstrings and imports; then with both.

    No formatter changes either.
    """
    nodes = list(ast.walk(ast.parse(text)))
    imports = sum(isinstance(node, IMPORTS) for node in nodes)
    docstrings = [
        said
        for node in nodes
        if isinstance(node, DOCUMENTED) and node.body and isinstance(said := node.body[0], ast.Expr)
        if isinstance(said.value, ast.Constant) and isinstance(said.value.value, str)
    ]
    statements = sum(token.type == tokenize.NEWLINE for token in tokenize.generate_tokens(io.StringIO(text).readline))
    code = statements - len(docstrings) - imports
    return code, code + imports + sum(said.end_lineno - said.lineno + 1 for said in docstrings)


def lines_of_code(text: str) -> int:
    """Statements without docstrings and imports."""
    return counted(text)[0]


def lines_to_read(text: str) -> int:
    """Statements, imports, and the lines of docstrings."""
    return counted(text)[1]


def test_lines_are_counted_as_said():
    text = '"""Doc."""\nimport a\n\n# why\ndef f(x):\n    """Doc.\n    More."""\n    return (x +\n            1)\n'
    assert (lines_of_code(text), lines_to_read(text)) == (2, 6)


def test_the_package_does_not_grow_without_a_word():
    lines = dict.fromkeys(MOST_CODE, 0)
    for path in PACKAGE.rglob("*.py"):
        if part_of(path) != "miniworld":
            lines[ROOM_OF.get(part_of(path), "house")] += lines_of_code(path.read_text())
    assert all(lines[room] <= most for room, most in MOST_CODE.items()), lines


def test_files_stay_small_enough_to_read():
    large = {
        str(path.relative_to(PACKAGE)): count
        for path in PACKAGE.rglob("*.py")
        if (count := lines_to_read(path.read_text())) > MOST_LINES
    }
    assert not large, large


def students_files() -> set[Path]:
    """The files in the README's reading order, with all that they import when they run, and what that imports."""
    found, new = set(), {PACKAGE / name for name in STUDENTS_PATH}
    while new:
        found |= new
        new = set().union(*(_imported(path) for path in new)) - found
    return found


def _imported(path: Path) -> set[Path]:
    named = set()
    tree = ast.parse(path.read_text())
    lazy = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("seq2seq_suite")
            and id(node) not in lazy
        ):
            place = PACKAGE.parent / node.module.replace(".", "/")
            named |= {place.with_suffix(".py"), *(place / f"{alias.name}.py" for alias in node.names)}
    return {one for one in named if one.is_file()}


def test_what_a_student_reads_stays_short():
    lines = {path.relative_to(PACKAGE).as_posix(): lines_to_read(path.read_text()) for path in students_files()}
    assert sum(lines.values()) <= STUDENTS_LINES, (sum(lines.values()), lines)


def test_the_readme_names_what_a_student_reads_in_order():
    text = " ".join((PACKAGE.parent / "README.md").read_text().split())
    text = text[text.index("To read it, begin with") :]
    places = [max(text.find(f"`{name}`"), text.find(f"`{name.rpartition('/')[2]}`")) for name in STUDENTS_PATH]
    assert -1 not in places
    assert places == sorted(places)


def test_private_names_of_torch_are_in_one_file():
    private = {
        str(path.relative_to(PACKAGE)): found
        for path in PACKAGE.rglob("*.py")
        if (found := re.findall(r"torch(?:\.\w+)*\.(?:_(?!_)|ops\b)\w*", path.read_text()))
    }
    assert set(private) <= {"kernels/torch_private.py", "lab/folder.py"}, private  # the lab refuses them to students


def test_no_layer_keeps_its_cache():
    """The key-value cache is passed in and returned: nothing in `model` assigns to self outside a constructor."""
    for path in (PACKAGE / "model").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                for inner in ast.walk(node):
                    targets = inner.targets if isinstance(inner, ast.Assign) else []
                    assert not any(
                        isinstance(target, ast.Attribute)
                        and isinstance(target.value, ast.Name)
                        and target.value.id == "self"
                        for target in targets
                    ), f"{path.name}: {node.name}"


def test_each_module_has_a_test_of_its_name_or_a_row_that_says_which_test_covers_it():
    tests = Path(__file__).parent
    covered = yaml.safe_load((tests / "covered_by.yaml").read_text(encoding="utf-8"))
    # What tests/lab/test_laws.py and test_lab_faults.py go through, file by file.
    elsewhere = [PACKAGE / "lab" / name for name in ("solutions", "laws", "faults")]
    modules = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in PACKAGE.rglob("*.py")
        if not path.stem.startswith("__") and not any(folder in path.parents for folder in elsewhere)
    }
    own = {name for name in modules if (tests / name).with_name(f"test_{Path(name).name}.py").exists()}
    assert modules - own - set(covered) == set(), "without a test"
    assert set(covered) - (modules - own) == set(), "rows of modules that are gone or have a test of their own"
    assert {row for row in covered.values() if not (tests / row).exists()} == set(), "test files that are gone"
