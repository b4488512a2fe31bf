"""The parsing task: reading treebanks, vocabularies, guides and the way back to trees."""

from functools import partial

import numpy as np
import pytest
import task_tools
import torch
from task_tools import write_rows

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.trees import DEEPEST, Tree, clean, read_trees
from seq2seq_suite.common.types import BEGIN, END, SPECIALS, UNKNOWN, Hypothesis
from seq2seq_suite.data.batching import collate
from seq2seq_suite.metrics.evalb import evalb
from seq2seq_suite.miniworld import rows
from seq2seq_suite.miniworld.english import english
from seq2seq_suite.miniworld.sentences import scenes
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.parsing.linearisation import Brackets, InOrder
from seq2seq_suite.tasks.parsing.task import ParsingTask
from seq2seq_suite.tasks.parsing.tetra_tags import TetraTags

GOLD = "(TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (RB very) (JJ powerful))) (. .)))"
TREEBANK = """( (S (NP-SBJ-1 (DT The) (NN dog))
     (VP (VBZ seems)
         (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB sleep))))) (. .)))
((S (NP (NNP Anna)) (VP (VBZ sings))))
"""

make_task = partial(task_tools.make_task, "parsing")


def fitted(**keys) -> tuple[ParsingTask, list]:
    task = make_task(**keys)
    examples = task.read("validation")[:60]
    task.fit(examples)
    return task, examples


def test_a_treebank_file_with_trees_over_many_lines_is_read_and_cleaned(tmp_path):
    (tmp_path / "train.mrg").write_text(TREEBANK)
    first, second = make_task(data__path=str(tmp_path)).read("train")
    assert str(first.reference) == (
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ seems) (S (VP (TO to) (VP (VB sleep))))) (. .)))"
    )
    assert first.source == ("The", "dog", "seems", "to", "sleep", ".")
    assert second.origin.endswith("train.mrg:4")


def test_jsonl_and_a_treebank_file_give_the_same_examples(tmp_path):
    write_rows(tmp_path, [{"tree": GOLD}])
    (tmp_path / "train.ptb").write_text(GOLD)
    one = make_task(data__path=str(tmp_path / "train.jsonl")).read("train")[0]
    other = make_task(data__path=str(tmp_path / "train.ptb")).read("train")[0]
    assert (one.source, one.reference) == (other.source, other.reference)


@pytest.mark.parametrize(
    "row, got",
    [
        ({"tree": "(S (NP (NN x)"}, "cut short"),
        ({"tree": "(S ())"}, "no children"),
        ({"sentence": "x"}, "no column"),
        ({"tree": "(S (NP (-NONE- *)))"}, "no bracket over a word"),
        ({"tree": GOLD + GOLD}, "2 trees"),
        ({"tree": "(S " + "(NN x) " * 9 + ")"}, "9 words"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(tmp_path, row, got):
    write_rows(tmp_path, [{"tree": GOLD}, row])
    with pytest.raises(DataError) as caught:
        make_task(data__path=str(tmp_path), data__max_length=8).read("train")
    assert "train.jsonl:2" in str(caught.value)
    assert got in str(caught.value)
    assert "max_bad_rows" in str(caught.value)


DEEP = "(S " * 5_000 + "(NN x)" + ")" * 5_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.mrg", f"{GOLD}\n{DEEP}\n"),
        ("train.mrg", f"{GOLD}\n{'(' * 100_000}\n"),
        ("train.jsonl", f'{{"tree": "{GOLD}"}}\n{{"tree": "{DEEP}"}}\n'),
    ],
)
def test_trees_nested_beyond_the_bound_are_bad_rows(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{name}:2: brackets nested deeper than {DEEPEST}"):
        make_task(data__path=str(tmp_path)).read("train")
    assert len(make_task(data__path=str(tmp_path), data__max_bad_rows=1).read("train")) == 1


def nested(depth: int) -> Tree:
    """A tree with so many brackets around its deepest word, and a word beside each."""
    tree = Tree("NN", ("x",))
    for _ in range(depth - 1):
        tree = Tree("NP", (tree, Tree("NN", ("y",))))
    return tree


@pytest.mark.parametrize("linearisation", [InOrder(), Brackets(), TetraTags()])
def test_trees_up_to_the_bound_go_all_ways_and_deeper_outputs_are_malformed(linearisation):
    tree = Tree("TOP", (nested(DEEPEST - 1),))
    assert clean(next(read_trees(str(tree)))[1]) == tree
    symbols = linearisation.write(tree)
    assert linearisation.read(symbols, tree.words(), tree.tags()) == tree
    assert evalb([tree], [tree]).figures["f1"] == 100.0
    deeper = nested(DEEPEST)
    assert linearisation.read(linearisation.write(deeper), deeper.words(), deeper.tags()) is None


@pytest.mark.parametrize("linearisation", [InOrder(), Brackets(), TetraTags()])
def test_flat_trees_of_any_width_survive_and_words_without_tags_get_one(linearisation):
    tree = Tree("TOP", (Tree("S", (Tree("NN", ("x",)),) * 1500),))
    assert linearisation.read(linearisation.write(tree), tree.words(), tree.tags()) == tree
    bare = next(read_trees("(TOP (S (NP a b) c))"))[1]
    found = linearisation.read(linearisation.write(bare), bare.words(), bare.tags())
    assert str(found) == "(TOP (S (NP (XX a) (XX b)) (XX c)))"


def test_broken_rows_within_the_limit_are_listed_and_the_others_read(tmp_path, capsys):
    write_rows(tmp_path, [{"tree": GOLD}, {"tree": "(S"}, {"tree": GOLD}])
    assert len(make_task(data__path=str(tmp_path), data__max_bad_rows=1).read("train")) == 2
    assert "train.jsonl:2" in capsys.readouterr().out


def test_an_unknown_miniworld_split_lists_the_choices():
    with pytest.raises(DataError, match="compositional"):
        make_task().read("holdout")


def test_an_unknown_task_offers_the_nearest():
    with pytest.raises(ConfigError, match="did you mean parsing"):
        open_task("parsign")


@pytest.mark.parametrize("linearisation", ["in_order", "brackets"])
def test_every_miniworld_tree_survives_the_way_to_symbols_and_back(linearisation):
    task, examples = fitted(parsing__linearisation=linearisation)
    for example, item in zip(examples, task.encode(examples), strict=True):
        symbols = tuple(item.target[:-1].tolist())
        assert task.read_hypothesis(Hypothesis(symbols, 0.0), example) == example.reference
        assert item.target[-1] == END
        assert item.auxiliary["focus"].shape == (len(item.target), 5)
        assert item.auxiliary["context"].shape == (len(item.target), 3)


@pytest.mark.parametrize("linearisation", ["in_order", "brackets", "tetra_tags"])
def test_the_automaton_follows_every_gold_tree_of_the_miniworld(linearisation):
    task, examples = fitted(parsing__linearisation=linearisation)
    batch = collate(task.encode(examples), "parsing")
    automaton = task.constraint()
    limit = (batch.source_mask.sum(1) * 6.0).long() + 20
    state = automaton.start(batch, limit)
    for column in range(batch.target.size(1)):
        real = batch.target_mask[:, column]
        chosen = automaton.allowed(state).gather(1, batch.target[:, column, None]).squeeze(1)
        assert chosen[real].all()
        assert automaton.focus(state)[real].equal(batch.auxiliary["focus"][:, column][real])
        state = automaton.advance(state, batch.target[:, column])


def test_focus_and_context_of_a_worked_example():
    task = make_task()
    tree = next(read_trees("(TOP (S (NP (JJ Deep) (NN learning)) (VP (VBZ is) (ADJP (JJ powerful)))))"))[1]
    examples = [task.from_text("Deep learning is powerful")]
    example = type(examples[0])(examples[0].source, tree)
    task.fit([example])
    item = task.encode([example])[0]
    names = task.target.vocabulary.decode(item.target.tolist())
    assert names[:6] == ["SHIFT", "PJ-NP", "SHIFT", "REDUCE", "PJ-S", "SHIFT"]
    # Before PJ-S: next word 3, last word 2, left edge of the finished NP 1, no open bracket.
    assert item.auxiliary["focus"][4].tolist() == [3, 2, 1, 0, 0]
    assert task.target.vocabulary.decode(item.auxiliary["context"][4].tolist()) == ["<pad>", "<pad>", "PJ-NP"]
    # Before the next SHIFT the bracket S is open and begins at word 1.
    assert item.auxiliary["focus"][5].tolist() == [3, 2, 1, 1, 0]
    assert task.target.vocabulary.decode(item.auxiliary["context"][5].tolist()) == ["PJ-S", "<pad>", "PJ-NP"]


def hand_fitted(**keys):
    """A task that has seen five short sentences and a rarer one, and both of them."""
    task = make_task(**keys)
    trees = [
        next(read_trees(text))[1] for text in ("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))", "(S (VB run) (. !))")
    ]
    examples = [Example(tuple(tree.words()), tree) for tree in trees]
    task.fit([examples[0]] * 5 + [examples[1]])
    return task, examples


@pytest.mark.parametrize(
    ("linearisation", "moves"),
    [
        ("in_order", ["START", "SHIFT PJ-NP", "SHIFT REDUCE PJ-S", "SHIFT PJ-VP REDUCE REDUCE"]),
        ("brackets", ["START (S (NP", "XX", "XX ) (VP", "XX ) )"]),
        ("tetra_tags", ["START", "l L NP", "r L S", "r VP"]),
    ],
)
def test_each_word_is_labelled_with_its_tag_and_what_the_parser_does_behind_it(linearisation, moves):
    task, examples = hand_fitted(parsing__linearisation=linearisation, parsing__guide=False)
    common, rare = (item.auxiliary for item in task.encode(examples))
    assert common["tags"].tolist() == [-1, *task.target.tags.encode(["DT", "NN", "VBZ"]), -1]
    assert common["moves"].tolist() == [*task.target.moves.encode(moves), -1] and UNKNOWN not in common["tags"]
    assert rare["tags"].tolist() == [-1, *task.target.tags.encode(["VB", "."]), -1]
    assert rare["moves"][2:].tolist() == [-1, -1]  # a move seen once teaches nothing
    assert task.shape().target.source_labels == (
        ("tags", len(task.target.tags), task.options.tag_loss),
        ("moves", len(task.target.moves), task.options.move_loss),
    )
    without = hand_fitted(parsing__tag_loss=0.0)[0]
    found = without.encode(examples)[0].auxiliary
    assert "tags" not in found and found["moves"].tolist() == [
        *without.target.moves.encode(without.target._moves(examples[0].reference)),
        -1,
    ]


def test_rare_words_are_unknown_and_words_seen_often_seldom_hidden():
    task, examples = hand_fitted(parsing__unknown_rate=0.5, parsing__min_count=2)
    assert task.encode(examples)[1].source[1:-1, 0].tolist() == [UNKNOWN] * 2
    hidden = hand_fitted(parsing__unknown_rate=0.5, parsing__min_count=1)[0]
    names = hidden.source.words.decode(range(len(hidden.source.words)))
    chances = dict(zip(names, hidden.shape().source.dropped, strict=True))
    assert chances["the"] == chances["dog"] == pytest.approx(0.5 * 2 / 5) and chances["run"] == chances["!"] == 0.5
    assert all(chances[special] == 0.0 for special in SPECIALS)


def test_references_are_cleaned_as_the_training_split_is(tmp_path):
    (tmp_path / "gold.mrg").write_text(TREEBANK)
    (tmp_path / "lines.txt").write_text("((S (NP-SBJ (NNP Anna)) (VP (VBZ sings))))\n(())\n")
    found = make_task().read_references(tmp_path / "gold.mrg")
    assert [str(tree) for tree in found] == [
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ seems) (S (VP (TO to) (VP (VB sleep))))) (. .)))",
        "(TOP (S (NP (NNP Anna)) (VP (VBZ sings))))",
    ]
    assert make_task().read_references(tmp_path / "lines.txt") == [found[1], None]


def test_blank_lines_are_nothing_in_a_treebanks_layout(tmp_path):
    written = (
        "\n"
        + "\n\n".join(
            f"( {tree})".replace(" (VP", "\n  (VP")
            for tree in ("(S (NP (NNP Anna)) (VP (VBZ sings)))", "(S (NP (NNS cats)) (VP (VBP sleep)))")
        )
        + "\n(())\n"
    )
    (tmp_path / "gold.mrg").write_text(written)
    found = make_task().read_references(tmp_path / "gold.mrg")
    assert [str(tree) for tree in found] == [
        "(TOP (S (NP (NNP Anna)) (VP (VBZ sings))))",
        "(TOP (S (NP (NNS cats)) (VP (VBP sleep))))",
        "None",
    ]


def test_a_typed_text_without_a_line_is_named_by_its_file():
    with pytest.raises(DataError, match=r"^typed: an empty sentence"):
        make_task().from_text("", origin="typed")


def test_a_typed_text_is_tokenised_as_the_trees_are():
    task, _ = fitted()
    assert "." in task.source.words and "telescope." not in task.source.words
    found = task.from_text("the teacher sees the (telescope).").source
    assert found == ("the", "teacher", "sees", "the", "-LRB-", "telescope", "-RRB-", ".")
    for typed in ("the old teacher sees the bird .", "Mr. X-ray U.S. sees"):
        assert task.from_text(typed).source == tuple(typed.split())
    assert task.source.tokenised_from(task.from_text("a dog sleeps.").source, "a dog sleeps.")
    assert not task.source.tokenised_from(task.from_text("a ( dog .").source, "a ( dog .")


def test_words_are_read_as_types_and_letters_between_sentinels():
    task, _ = fitted()
    source = task.encode([task.from_text("the totters")])[0].source
    assert source[0, 0] == BEGIN and source[-1, 0] == END
    assert source[2, 0] == UNKNOWN
    assert task.source.characters.decode(source[2, 1:].tolist()) == list("totters")
    assert (source[0, 1:] == 0).all()


def test_long_words_keep_their_first_and_last_letters():
    task, _ = fitted(parsing__max_characters=6)
    row = task.encode([task.from_text("extraordinarily")])[0].source[1, 1:]
    assert task.source.characters.decode(row.tolist()) == list("extily")


def test_vocabularies_survive_saving(tmp_path):
    task, examples = fitted()
    task.save(tmp_path / "vocabulary")
    other = make_task()
    other.load(tmp_path / "vocabulary")
    assert other.shape() == task.shape()
    assert all(
        np.array_equal(one.source, two.source)
        for one, two in zip(task.encode(examples), other.encode(examples), strict=True)
    )


def test_predictions_survive_writing_and_reading(tmp_path):
    task = make_task()
    trees = [english(scene) for scene in scenes("test", sizes={"test": 5})]
    path = tmp_path / "predicted.trees"
    path.write_text("".join(task.to_text(tree) + "\n" for tree in [trees[0], None, *trees[1:]]))
    assert task.read_references(path) == [trees[0], None, *trees[1:]]


def test_a_perfect_prediction_scores_a_hundred_and_a_missing_one_counts_against_recall():
    task = make_task()
    trees = [english(scene) for scene in scenes("test", sizes={"test": 4})]
    assert task.score(trees, trees).figures["f1"] == 100.0
    assert task.score([None, *trees[1:]], trees).figures["recall"] < 100.0
    assert task.score([None, *trees[1:]], trees).figures["invalid_rate"] == 25.0


def test_a_prediction_without_gold_tags_carries_the_predicted_ones():
    task, _ = fitted()
    example = task.from_text("it sleeps")
    tag = task.target.tags.encode(["PRP", "VBZ"])
    symbols = task.target.vocabulary.encode(["SHIFT", "PJ-S", "SHIFT", "REDUCE"])
    tree = task.read_hypothesis(Hypothesis(tuple(symbols), 0.0, details={"tags": (0, *tag, 0)}), example)
    assert str(tree) == "(TOP (S (PRP it) (VBZ sleeps)))"
    assert "sleeps" in task.presentation.for_terminal(tree)


def test_a_new_model_that_names_a_special_symbol_leaves_the_commonest_tag():
    task, _ = fitted()
    symbols = task.target.vocabulary.encode(["SHIFT", "PJ-S", "SHIFT", "REDUCE"])
    hypothesis = Hypothesis(tuple(symbols), 0.0, details={"tags": (0, BEGIN, *task.target.tags.encode(["VBZ"]), 0)})
    tree = task.read_hypothesis(hypothesis, task.from_text("it sleeps"))
    assert tree.tags() == [task.target.tags.symbols[0], "VBZ"]


def test_an_empty_sentence_names_its_line():
    with pytest.raises(DataError, match=r"input\.txt:3"):
        make_task().from_text("  ", origin="input.txt:3")


def test_cleaning_removes_traces_and_function_tags_but_keeps_bracket_words():
    tree = clean(next(read_trees("((S (NP-SBJ=1 (-NONE- *)) (PRN (-LRB- -LRB-) (NP|X (NN x)) (-RRB- -RRB-))))"))[1])
    assert tree == Tree(
        "TOP",
        (
            Tree(
                "S",
                (
                    Tree(
                        "PRN", (Tree("-LRB-", ("-LRB-",)), Tree("NP", (Tree("NN", ("x",)),)), Tree("-RRB-", ("-RRB-",)))
                    ),
                ),
            ),
        ),
    )


def test_tracing_equals_stepping_the_automaton_over_a_single_sentence():
    task, examples = fitted()
    together = task.encode(examples)
    for index in (0, 7, 33):
        alone = task.encode([examples[index]])[0]
        assert np.array_equal(alone.auxiliary["focus"], together[index].auxiliary["focus"])
        assert np.array_equal(alone.auxiliary["context"], together[index].auxiliary["context"])
    assert torch.from_numpy(together[0].auxiliary["focus"]).min() >= 0


def test_a_tree_is_drawn_with_lines_between_its_phrases():
    task, _ = fitted()
    drawn = task.presentation.for_terminal(next(read_trees("(TOP (S (NP (NN a)) (VP (VB b))))"))[1])
    words = [line.split() for line in drawn.splitlines() if any(map(str.isalpha, line))]
    assert words == [["TOP"], ["S"], ["NP", "VP"], ["NN", "VB"], ["a", "b"]] and "┌" in drawn and "│" in drawn
    assert task.presentation.for_terminal(None) == "(no tree)"


def test_tags_are_scored_where_they_are_predicted_and_never_where_they_are_the_treebanks_own(make_parsing):
    task, _ = make_parsing("in_order")
    gold, other = (next(read_trees(text))[1] for text in (GOLD, GOLD.replace("JJ Deep", "NN Deep")))
    assert "tagging_accuracy" not in task.score([gold], [gold]).figures
    assert task.score([other], [gold]).figures["tagging_accuracy"] == pytest.approx(80.0)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 300])
def test_a_tree_fits_the_terminal_or_stands_in_indented_brackets(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    trees = [tree for row in rows("trees", "test", size=20) for _, tree in read_trees(row["tree"])]
    presentation = make_task().presentation
    for tree in trees:
        shown = presentation.for_terminal(tree)
        drawn = not shown.startswith("(")
        assert drawn or next(read_trees(shown))[1] == tree
        widest = max(len(line.rstrip()) for line in shown.splitlines())
        assert widest <= columns or (not drawn and columns < 60)  # deep words have no room
        assert drawn or columns < 300
