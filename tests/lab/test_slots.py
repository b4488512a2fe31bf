"""Every slot is where it says, and nowhere else: what a student plugs in is what the suite computes with."""

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from daily import daily

from seq2seq_suite import kernels
from seq2seq_suite.api import Run, train
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.lab.code import Code
from seq2seq_suite.lab.given import sources
from seq2seq_suite.lab.plug import CHANGES, PACKAGE, SLOTS, owner_of, plugged
from seq2seq_suite.lab.running import COMPARED, farthest, first_losses
from tests.lab.experiments import TINY, config_of

# Slot -> settings that ask for it, and an edit that plants a bug in its reference; none where losses cannot show it.
BUGS = {
    "cross_entropy": ({}, (".mean()", ".sum()")),
    "attend": ({}, ("/ math.sqrt(query.size(-1))", "/ query.size(-1)")),
    "causal_mask": ({}, (".tril(past)", "")),
    "multi_head": ({}, ("weights.wv, weights.bv", "weights.wk, weights.bk")),
    "sinusoids": ({}, ("torch.sin", "torch.cos")),
    "shift_matrix": ({}, ("-sine, cosine", "sine, cosine")),
    "rotate": ({"backbone.positions": "rotary"}, None),
    "layer_norm": ({}, ("+ bias", "")),
    "residual": ({}, ("x + sublayer(norm(x))", "sublayer(norm(x))")),
    "dropout": ({}, None),
    "feed_forward": ({}, (".clamp(min=0)", "")),
    "encoder_block": ({}, None),
    "decoder_block": ({}, None),
    "shift_right": ({}, None),
    "smoothed_cross_entropy": ({"strategy.label_smoothing": 0.1}, None),
    "mix_inputs": ({"strategy.scheduled_sampling": 0.3}, None),
    "language_loss": ({"backbone.encoder": "none", "strategy.language_weight": 0.5}, None),
    "fine_tuning_loss": ({"backbone.encoder": "none", "strategy.language_weight": 0.5}, ("weight * ", "")),
    "ctc_loss": ({"task": "qa", "strategy.kind": "ctc", "training.batch_tokens": 32}, None),
    "log_mel": (
        {
            "task": "asr",
            "strategy.kind": "ctc",
            "data.size": 8,
            "audio.bins": 20,
            "training.max_updates": 20,
            "training.batch_tokens": 4096,
            "data.max_length": 1500,
            "search.max_length_factor": 0.4,
            "backbone.max_positions": 2048,
        },
        ("torch.hann_window(window)", "torch.ones(window)"),
    ),
    "set_loss": ({"task": "multilabel", "multilabel.order": "free"}, None),
}


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """Makes a folder with a slot's reference, or with a text in place of another in it."""

    def make(slot: str, *edit: str) -> Path:
        file, folder = sources()[slot], tmp_path_factory.mktemp(slot)
        text = file.read_text(encoding="utf-8")
        if edit:
            assert text.count(edit[0]) >= 1, f"{slot}: the edit does not fit the reference any more"
            text = text.replace(*edit)
        (folder / file.name).write_text(text, encoding="utf-8")
        return folder

    return make


@cache
def own_losses(settings: tuple) -> list[float]:
    return first_losses(config_of({**TINY, **dict(settings)}))


def difference(slot: str, folder: Path, settings: dict) -> tuple[float, Counter]:
    calls = Counter()
    losses = first_losses(config_of({**TINY, **settings}), Code(folder, calls).functions([slot]))
    own = own_losses(tuple(settings.items()))
    assert len(losses) == len(own) == COMPARED
    return farthest(losses, own), calls


@pytest.mark.parametrize(
    "slot",
    daily(
        [name for name in BUGS if name in sources()],
        "cross_entropy",
        "attend",
        "shift_matrix",
        "ctc_loss",
        "language_loss",
    ),
)
def test_the_reference_gives_the_losses_of_the_suite_and_is_called_at_every_update(slot, edited):
    found, calls = difference(slot, edited(slot), BUGS[slot][0])
    assert found < 1e-5
    assert calls[slot] >= (1 if SLOTS[slot].when == "build" else COMPARED)


@pytest.mark.parametrize(
    "slot", daily([name for name, (_, edit) in BUGS.items() if edit and name in sources()], "cross_entropy", "attend")
)
def test_a_planted_bug_shows_in_the_first_losses(slot, edited):
    settings, edit = BUGS[slot]
    assert difference(slot, edited(slot, *edit), settings)[0] > 1e-4


# What is called while outputs are searched for, and settings that ask for it.
SEARCHES = {
    "greedy": {},
    "beam_search": {"search.beam_size": 3},
    "cached_step": {},
    "no_cache": {},
    "likeliest_lengths": {"strategy.kind": "mask_predict"},
    "hide": {"strategy.kind": "mask_predict", "search.iterations": 3},
    "cut_at_end": {"strategy.kind": "cut_at_end"},
    "collapse": {"strategy.kind": "ctc"},
    "allowed_labels": {"task": "multilabel"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directory of a run of a kind, each trained once."""

    @cache
    def directory(kind: tuple) -> Path:
        folder = tmp_path_factory.mktemp("run") / "run"
        train(config_of({**TINY, "training.max_updates": 20, **dict(kind)}), output=folder)
        return folder

    return directory


@pytest.mark.parametrize("slot", daily(SEARCHES, "greedy", "no_cache", "collapse"))
def test_searched_with_the_reference_outputs_are_the_suites_and_it_is_called(slot, trained, edited):
    kind = tuple((key, value) for key, value in SEARCHES[slot].items() if not key.startswith("search."))
    settings = {key: value for key, value in SEARCHES[slot].items() if key.startswith("search.")}
    calls, also = Counter(), [slot] if slot in CHANGES else []
    functions = {} if also else Code(edited(slot), calls).functions([slot])

    def written():
        run = Run(trained(kind), settings=settings)
        return [(found.text, found.score) for found in run.predict(run.task.read("train")[:12])]

    own = written()
    with plugged(functions, also):
        theirs = written()
    assert [text for text, _ in theirs] == [text for text, _ in own] and len({text for text, _ in own}) > 1
    assert [score for _, score in theirs] == pytest.approx([score for _, score in own], rel=1e-4, abs=1e-4)
    assert also or calls[slot] > 0


@pytest.mark.parametrize("seat", sorted({seat for slot in SLOTS.values() for seat in slot.seats}))
def test_every_name_of_what_is_replaced_is_swapped_and_put_back(seat):
    slot = next(name for name, one in SLOTS.items() if seat in one.seats)
    if seat in kernels.SLOTS:
        with plugged({slot: lambda *args: None}):
            assert kernels.chosen()[seat].__module__.startswith("seq2seq_suite.lab.adapters")
        assert kernels.chosen()[seat] is kernels.implementation(seat, "fast")
        return
    owner, name = owner_of(seat)
    before = getattr(owner, name)
    with plugged({slot: lambda *args: None}):
        assert getattr(owner, name) is not before
        assert not list(holders(before))
    assert getattr(owner, name) is before
    assert list(holders(before)) or isinstance(owner, type)


def holders(function):
    """The loaded modules of the package that hold a function under some name."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE and any(one is function for one in vars(module).values()):
            yield name


def test_a_slot_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="atend has no place in the core"), plugged({"atend": len}):
        pass


def test_a_function_that_fails_says_where(tmp_path):
    (tmp_path / "attend.py").write_text("def attend(query, key, value, visible=None):\n    return query.nothing\n")
    with pytest.raises(ConfigError, match=r"attend\.py:2: attend fails: AttributeError"):
        first_losses(config_of(TINY), Code(tmp_path).functions(["attend"]))


def test_what_does_not_fit_the_suite_ends_in_one_line(tmp_path):
    (tmp_path / "attend.py").write_text("def attend(query, key, value, visible=None):\n    return query[:, :1]\n")
    with pytest.raises(Exception, match="with attend plugged in the suite fails"):
        first_losses(config_of(TINY), Code(tmp_path).functions(["attend"]))


def test_a_starter_is_not_plugged_in(tmp_path):
    (tmp_path / "attend.py").write_text('def attend(query):\n    """Doc."""\n    raise NotImplementedError("attend")\n')
    assert Code(tmp_path).functions(["attend", "multi_head"]) == {}


def test_lab_given_is_the_students_own_where_he_has_written_it(tmp_path):
    (tmp_path / "attend.py").write_text("def attend(x):\n    return 'mine'\n")
    (tmp_path / "heads.py").write_text("from lab_given import attend\ndef multi_head(x):\n    return attend(x)\n")
    calls = Counter()
    assert Code(tmp_path, calls).function("multi_head")(1) == "mine" and calls == {"multi_head": 1, "attend": 1}
    (tmp_path / "attend.py").unlink()
    assert Code(tmp_path).function("attend").__name__ == "attend"
