"""Searches by compiled steps find what searches by PyTorch find."""

import os
import shutil
from dataclasses import replace

import pytest
import torch
from making import auxiliaries_of, strategy_of

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.types import END
from seq2seq_suite.kernels import compiled, native
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.tasks.multilabel.label_automaton import LabelAutomaton

SHAPE = Shape(TokenShape(11), TargetShape(9))
KINDS = {
    "pre": {},
    "post": {"norm_placement": "post", "positions": "learned"},
    "rms": {"norm": "rms", "activation": "gelu"},
    "swish": {"activation": "swish"},
    "swiglu": {"activation": "swiglu", "tie_embeddings": False},
    "factorised": {"embedding_width": 8},
    "no positions": {"positions": "none"},
    "rotary": {"positions": "rotary"},
    "normed": {"positions": "learned", "embedding_norm": True, "scale_embeddings": False},
}
SEARCHES = {
    "greedy": {},
    "beam": {"beam_size": 3, "num_hypotheses": 2},
    "longer": {"min_length": 4},
    "ctc": {"ctc_weight": 0.3, "beam_size": 2},
    "sampling": {"sampling": True},
}


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory):
    """The compiled code, in a folder of its own."""
    if shutil.which(os.environ.get("CXX") or "c++") is None:
        pytest.skip("there is no C++ compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        native.library.cache_clear()
        native.library()
        yield
        native.library.cache_clear()


@pytest.fixture
def compare(monkeypatch):
    """Search with and without compiled steps; returns the outputs and how often a compiled step was made."""
    searching = strategy_of(Assisted, auxiliaries=auxiliaries_of(SHAPE, ctc=0.5, transcript=9), noise=0.4)
    steps, step = [], compiled._Compiled.step
    monkeypatch.setattr(compiled._Compiled, "step", lambda *given: steps.append(given[3].length) or step(*given))

    def search(model, batch, limit, constraint=None, **options):
        found = []
        for compile in (False, True):
            torch.manual_seed(3)
            found.append(
                searching.generate(
                    model,
                    batch,
                    options=SearchOptions(compile=compile, **options),
                    limit=torch.tensor(limit),
                    constraint=constraint,
                )
            )
        for plain, fast in zip(*found, strict=True):
            assert [(one.symbols, one.complete) for one in fast] == [(one.symbols, one.complete) for one in plain]
            assert [one.score for one in fast] == pytest.approx([one.score for one in plain], rel=1e-4, abs=1e-4)
        return found[1], steps

    return search


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_the_search_by_pytorch(compare, make_model, make_batch, kind, search):
    model = make_model(SHAPE, noise=0.4, **KINDS[kind])
    with torch.no_grad():
        model.output.bias[END] -= 8.0  # outputs of several symbols
    found, steps = compare(model, make_batch([5, 3, 4], [2, 2, 2]), [9, 5, 7], **SEARCHES[search])
    assert steps and any(row[0].symbols for row in found)


@pytest.mark.parametrize("rows", [1, 3, 7, 11, 20, 39])  # line by line, and in panels of both sizes
@pytest.mark.parametrize("beam_size", [1, 4])
def test_any_number_of_rows_may_be_searched(compare, make_model, make_batch, rows, beam_size):
    shape = Shape(TokenShape(11), TargetShape(150))
    lengths = [2 + row % 5 for row in range(rows)]
    batch = make_batch(lengths, [2] * rows, target_symbols=150)
    model = make_model(shape, noise=0.4, width=80, feed_forward_width=70)
    compare(model, batch, [12 - length for length in lengths], beam_size=beam_size)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_what_is_given_and_what_an_automaton_allows_is_kept_to(compare, make_model, make_batch, beam_size):
    batch = make_batch([5, 3], [4, 4])
    given = torch.tensor([[True, True, False, False]]).expand(2, -1)
    _, steps = compare(make_model(SHAPE), replace(batch, given=given), [5, 4], beam_size=beam_size)
    assert min(steps) == 2
    compare(make_model(SHAPE), batch, [7, 3], LabelAutomaton(9), beam_size=beam_size)


def test_a_row_without_a_source_sees_nothing(compare, make_model, make_batch):
    batch = make_batch([5, 3], [2, 2])
    mask = batch.source_mask.clone()
    mask[1] = False
    compare(make_model(SHAPE, noise=0.4), replace(batch, source_mask=mask), [6, 6])


def test_decoders_that_are_watched_or_not_known_are_left_to_pytorch(compare, make_model, make_batch):
    watched = make_model(SHAPE)
    watched.decoder.layers[0].register_forward_hook(lambda *_: None)
    for model in (watched, make_model(SHAPE, positions="alibi"), make_model(SHAPE, norm="power")):
        assert not compare(model, make_batch([5, 3], [2, 2]), [6, 6])[1]


def test_code_is_compiled_once_for_all_processes():
    (file,) = (native.cache_root() / native.COMPILED).glob("*.so")
    before = file.stat().st_mtime_ns
    native.library.__wrapped__()
    assert [file] == list(file.parent.glob("*.so")) and file.stat().st_mtime_ns == before


@pytest.mark.slow
def test_what_was_not_compiled_by_this_user_or_is_damaged_is_compiled_again():
    (file,) = (native.cache_root() / native.COMPILED).glob("*.so")
    whole = file.read_bytes()

    def replace(content: bytes) -> None:  # what is loaded already must stay as it is
        file.unlink()
        file.write_bytes(content)

    assert native._is_whole(file)
    for wrong in (b"", whole[:3000], whole[:-1] + b"x"):
        replace(wrong)
        assert not native._is_whole(file)
    replace(whole)
    for folder_or_file in (file, file.parent):
        folder_or_file.chmod(0o777)
        assert not native._is_whole(file)
        folder_or_file.chmod(0o700)
    file.with_suffix(".sha256").unlink()
    native.library.__wrapped__()
    assert native._is_whole(file) and native.cache_root().stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_the_compiler_may_have_arguments(monkeypatch):
    monkeypatch.setenv("CXX", "env c++ -DNOTHING")
    assert native.library.__wrapped__().step


def test_a_cache_that_cannot_be_written_is_reported_with_a_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be made") as error:
        native.library.__wrapped__()
    assert "XDG_CACHE_HOME" in error.value.remedy


@pytest.mark.parametrize(
    "compiler, reported",
    [
        ("no-such-compiler", r"no C\+\+ compiler no-such-compiler"),
        ("false", "fails"),
        ("true", "fails: it prints nothing"),
        (" ", "no C\\+\\+ compiler"),
    ],
)
def test_the_message_on_a_machine_without_a_compiler_has_a_remedy(monkeypatch, compiler, reported):
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(ConfigError, match=reported) as error:
        native.library.__wrapped__()
    assert "search.compile=false" in error.value.remedy
