"""A tree as a sequence of symbols, and back."""

Tree = str | tuple[str, list]


def linearise(tree: Tree) -> list[str]:
    """A tree from left to right: "(LABEL" opens a node, "XX" stands for a word, ")" closes a node.

    Args:
        tree: a word, or a label and a list of children.

    Returns:
        The symbols. The words themselves are in the source already.

    Example: from note 003.
        >>> " ".join(linearise(("S", [("NP", ["Deep", "learning"]), ("VP", ["is"])])))
        '(S (NP XX XX ) (VP XX ) )'

    Source: Vinyals et al. 2015, "Grammar as a Foreign Language", section 2.2; "Syntactic Parsing" in note 003.
    """
    # BEGIN SOLUTION
    if isinstance(tree, str):
        return ["XX"]
    label, children = tree
    return [f"({label}", *(symbol for child in children for symbol in linearise(child)), ")"]
    # END SOLUTION


def parse(symbols: list[str], words: list[str]) -> Tree | None:
    """The tree that the symbols write over the words; None where they write none.

    A tree is one node with at least one child, as are all its nodes, and has each word in its place once. A model may
    write anything: nothing that it writes may raise an error.

    Args:
        symbols: "(LABEL", "XX" and ")".
        words: of the sentence.

    Returns:
        (label, children), each child a word or such a pair; or None.

    Example:
        >>> parse(["(S", "XX", "(VP", "XX", ")", ")"], ["she", "sings"])
        ('S', ['she', ('VP', ['sings'])])
        >>> parse(["(S", "XX"], ["she"]) is None
        True

    Source: the inverse of `linearise`.
    """
    # BEGIN SOLUTION
    stack, rest = [("", [])], list(words)  # at the bottom a node without a name, whose one child is the tree
    for symbol in symbols:
        if symbol == "XX":
            if not rest:
                return None
            stack[-1][1].append(rest.pop(0))
        elif symbol == ")":
            if len(stack) == 1 or not stack[-1][1]:
                return None
            node = stack.pop()
            stack[-1][1].append(node)
        else:
            stack.append((symbol[1:], []))
    trees = stack[0][1]
    if len(stack) > 1 or len(trees) != 1 or isinstance(trees[0], str) or rest:
        return None
    return trees[0]
    # END SOLUTION
