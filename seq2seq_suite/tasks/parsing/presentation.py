"""How trees are presented: kinds of errors, drawings on pages and terminals, charts of brackets."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.trees import Tree
from seq2seq_suite.tasks.parsing import errors
from seq2seq_suite.tasks.presentation import Judgement, Presentation


class ParsingPresentation(Presentation):
    """Trees."""

    verb, pipeline_tag, drawing = "Parse", "token-classification", "tree"
    baselines = ("right-branching trees",)

    def judge(self, prediction: Tree | None, reference: Tree, example: Example) -> Judgement:
        """Equal where EVALB sees the same brackets over the same words."""
        kinds = ("malformed",) if prediction is None else errors.kinds_of(reference, prediction)
        return Judgement(kinds == (), ("other words",) if kinds is None else kinds)

    def output_data(self, example: Example, prediction: Tree | None) -> dict[str, Any]:
        """The tree, its text where there is none."""
        return {"text": self.task.to_text(prediction), "tree": errors.drawn(prediction)}

    def charts(self, examples: Sequence[Example], predictions: Sequence[Tree | None]) -> list[dict[str, Any]]:
        """Brackets by length and by label."""
        return errors.charts([example.reference for example in examples], predictions)

    def for_terminal(self, prediction: Tree | None) -> str:
        """The tree as a picture of text; in indented brackets where the terminal is narrower than that."""
        if prediction is None:
            return "(no tree)"
        from nltk import Tree as DrawnTree
        from nltk.tree.prettyprinter import TreePrettyPrinter
        from rich.cells import cell_len

        def drawn(node: Tree | str) -> Any:  # its own reader splits words at any space that Unicode has
            return node if isinstance(node, str) else DrawnTree(node.label, list(map(drawn, node.children)))

        tree, room = drawn(prediction), get_terminal_size().columns
        picture = TreePrettyPrinter(tree).text(unicodelines=True)
        fits = max(map(cell_len, map(str.rstrip, picture.splitlines()))) <= room
        return picture if fits else tree.pformat(margin=room)
