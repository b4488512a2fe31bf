"""Keys that nothing reads are refused, with what would read them."""

from pathlib import Path

import pytest

from seq2seq_suite.api import check_n_best
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config.config_file import load
from seq2seq_suite.config.schema import Config


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(task: str, *overrides: str, text: str = "") -> Config:
    Path("p.yaml").write_text(f"task: {task}\n{text}")
    return load(Path("p.yaml"), overrides)


def refused(task: str, *overrides: str, text: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        read(task, *overrides, text=text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("task", "overrides", "by", "needed"),
    [
        ("translation", "search.ctc_weight=0.3", "task translation", "a task that transcribes speech"),
        ("qa", "search.ctc_weight=0.3", "task qa", "a task that transcribes speech"),
        (
            "speech_translation",
            "search.ctc_weight=0.3 strategy.ctc_weight=0.3",
            "task speech_translation",
            "a task that transcribes speech",
        ),
        ("language_model", "search.ctc_weight=0.3", "task language_model", "a task that transcribes speech"),
        ("asr", "search.ctc_weight=0.3", "strategy.ctc_weight 0.0", "strategy.ctc_weight above 0"),
        (
            "asr",
            "search.ctc_weight=0.3 strategy.kind=ctc strategy.ctc_weight=0.3",
            "strategy.kind ctc",
            "strategy.kind autoregressive",
        ),
        ("asr", "asr.word_weight=0.3 asr.subwords=bpe", "asr.subwords bpe", "asr.subwords characters"),
        ("asr", "asr.word_weight=0.3 strategy.kind=ctc", "strategy.kind ctc", "strategy.kind autoregressive"),
        ("asr", "asr.new_word=-4.0", "asr.word_weight 0.0", "asr.word_weight above 0"),
        (
            "speech_translation",
            "search.drafter=ctc strategy.ctc_weight=0.3",
            "task speech_translation",
            "a task that transcribes speech",
        ),
        ("translation", "search.drafter=ctc", "task translation", "a task that transcribes speech"),
        ("translation", "search.compile=true strategy.kind=ctc", "strategy.kind ctc", "strategy.kind autoregressive"),
        ("translation", "search.compile=true kernels=plain", "kernels plain", "kernels fast"),
        (
            "translation",
            "search.compile=true backbone.decoder=rnn",
            "backbone.decoder rnn",
            "backbone.decoder transformer",
        ),
        ("translation", "search.compile=true backbone.encoder=none", "backbone.encoder none", "other than none"),
        ("translation", "search.compile=true backbone.positions=alibi", "backbone.positions alibi", "sinusoidal"),
        ("translation", "search.compile=true backbone.experts=4", "backbone.experts 4", "backbone.experts 0"),
        (
            "translation",
            "search.order=any strategy.kind=blocks search.block=1",
            "search.block 1",
            "search.block above 1",
        ),
        (
            "translation",
            "search.order=verified strategy.kind=blocks strategy.block=1",
            "strategy.block 1",
            "strategy.block above 1",
        ),
        (
            "translation",
            "search.threshold=0.5 strategy.kind=blocks strategy.block=1 strategy.blocks=[1,4]",
            "strategy.block 1",
            "strategy.block above 1",
        ),
        (
            "translation",
            "strategy.tail=none strategy.kind=blocks strategy.block=1",
            "strategy.block 1",
            "strategy.block above 1",
        ),
        (
            "asr",
            "search.compile=true search.drafter=ctc strategy.ctc_weight=0.3",
            "search.drafter ctc",
            "search.drafter '' or a run",
        ),
        (
            "asr",
            "search.compile=true search.ctc_weight=1.0 strategy.ctc_weight=0.3",
            "search.ctc_weight 1.0",
            "below 1",
        ),
        ("qa", "strategy.ctc_weight=0.3", "task qa", "a task that reads speech"),
        ("translation", "search.sampling=true strategy.kind=ctc", "strategy.kind ctc", "strategy.kind autoregressive"),
        (
            "asr",
            "search.sampling=true search.ctc_weight=1.0 strategy.ctc_weight=0.3",
            "search.ctc_weight 1.0",
            "below 1",
        ),
        ("translation", "search.top_k=5", "search.sampling false", "search.sampling true"),
        ("translation", "search.top_p=0.9", "search.sampling false", "search.sampling true"),
        ("translation", "search.temperature=0.5", "search.sampling false", "search.sampling true"),
        ("translation", "search.beam_size=4 search.sampling=true", "search.sampling true", "search.sampling false"),
        (
            "translation",
            "search.beam_size=4 strategy.kind=cut_at_end",
            "strategy.kind cut_at_end",
            "autoregressive, length_head, mask_predict, ctc or dag",
        ),
        (
            "translation",
            "search.rescorer=runs/a strategy.kind=cut_at_end",
            "strategy.kind cut_at_end",
            "autoregressive",
        ),
        ("translation", "search.length_penalty=1.0 strategy.kind=length_head", "strategy.kind length_head", "dag"),
        ("translation", "search.iterations=4 strategy.kind=ctc", "strategy.kind ctc", "strategy.kind mask_predict"),
        ("translation", "search.constraint=false", "task translation", "a task with structured output, such as"),
        (
            "detection",
            "search.beam_size=4",
            "task detection",
            "expected: a task that writes text, structures, continuations or labels",
        ),
        ("detection", "strategy.label_smoothing=0.2", "task detection", "expected: a task other than"),
        ("language_model", "search.rescorer=runs/a", "task language_model", "expected: a task with a source"),
        (
            "multilabel",
            "strategy.scheduled_sampling=0.2 multilabel.order=free",
            "multilabel.order free",
            "other than free",
        ),
        (
            "multilabel",
            "search.length_penalty=1.0 multilabel.decision=marginals",
            "multilabel.decision marginals",
            "best",
        ),
        (
            "multilabel",
            "search.length_penalty=1.0 multilabel.head=pooled multilabel.head_mixture=0.5",
            "multilabel.head_mixture 0.5",
            "multilabel.head_mixture 0.0",
        ),
        (
            "parsing",
            "search.beam_size=4 strategy.kind=length_head parsing.guide=false parsing.linearisation=tetra_tags",
            "parsing.linearisation tetra_tags",
            "other than tetra_tags",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_refused_with_what_would_read_it(task, overrides, by, needed):
    given = overrides.split()
    got, expected, remedy = refused(task, *given).splitlines()
    key, value = given[0].split("=")
    assert got == f"command line: {given[0]}: {key} {value} has no effect with {by}"
    assert expected.startswith("  expected: ") and needed in expected
    assert remedy.startswith(f"  remedy:   leave {key} at ")


def test_a_key_without_effect_is_found_in_the_file_too_and_all_of_them_at_once():
    found = refused("translation", text="search:\n  top_k: 5\n  constraint: false\nstrategy: {ctc_weight: 0.1}\n")
    assert [line.split(" has")[0] for line in found.splitlines() if not line.startswith(" ")] == [
        "p.yaml:3: search.top_k 5",
        "p.yaml:4: search.constraint false",
        "p.yaml:5: strategy.ctc_weight 0.1",
    ]


def test_a_value_that_asks_for_nothing_is_let_be():
    read("translation", "search.ctc_weight=0.0", "search.constraint=true", "strategy.ctc_weight=0.0")
    assert read("detection", "strategy.label_smoothing=0.0").strategy.label_smoothing == 0.0


def test_what_an_override_makes_useless_in_the_file_is_left_out():
    text = "strategy: {ctc_weight: 0.3}\nsearch: {beam_size: 4, length_penalty: 1.0, ctc_weight: 0.5}\n"
    assert read("asr", "strategy.kind=ctc", text=text).search.ctc_weight == 0.0
    assert read("asr", "strategy.ctc_weight=0.0", text=text).search.ctc_weight == 0.0
    cut = read("asr", "strategy.kind=cut_at_end", text=text).search
    assert (cut.beam_size, cut.length_penalty, cut.ctc_weight) == (1, 0.6, 0.0)
    drawn = "search: {sampling: true, top_p: 0.9}\n"
    assert not read("translation", "strategy.kind=ctc", text=drawn).search.sampling
    assert read("translation", "search.sampling=false", text=drawn).search.top_p == 1.0
    assert "search.beam_size 4 has no effect with strategy.kind cut_at_end" in refused(
        "asr", "strategy.kind=cut_at_end", "search.beam_size=4", text=text
    )


def test_what_a_joint_run_says_itself_goes_before_the_files_of_its_tasks():
    Path("asr.yaml").write_text("task: asr\nstrategy: {ctc_weight: 0.3}\nsearch: {ctc_weight: 0.5}\n")
    joint = "tasks:\n  one: {yaml: asr.yaml}\n  two: {yaml: asr.yaml, strategy: {kind: ctc, ctc_weight: 0.3}}\n"
    config = read("multitask", text=joint)
    assert [part.search.ctc_weight for part in config.tasks.values()] == [0.5, 0.0]
    Path("asr.yaml").write_text("task: asr\nsearch: {ctc_weight: 0.5}\n")
    assert refused("multitask", text=joint).startswith(
        "asr.yaml:2: search.ctc_weight 0.5 has no effect with strategy.ctc_weight 0.0"
    )


def test_a_joint_run_refuses_what_only_its_tasks_can_use():
    text = "tasks: {one: {task: parsing}, two: {task: translation}}\n"
    found = refused("multitask", "search.beam_size=4", text=text)
    assert found.startswith("command line: search.beam_size=4: search.beam_size 4 has no effect with task multitask")
    assert "expected: tasks.NAME.search.beam_size\n  remedy:   set it for one or two" in found
    assert "data.path elsewhere has no effect" in refused("multitask", "data.path=elsewhere", text=text)
    assert "strategy.kind ctc has no effect" in refused("multitask", "strategy.kind=ctc", text=text)
    assert "in a joint run, which does not rescore" in refused(
        "multitask", "tasks.two.search.rescorer=runs/a", text=text
    )


@pytest.mark.parametrize(
    "overrides",
    [
        "strategy.block=1 search.block=4 search.order=any search.threshold=0.5",
        "strategy.block=1 strategy.blocks=[1,4] strategy.tail=none strategy.weighting=none",
        "search.block=1 strategy.tail=none",
    ],
)
def test_blocks_of_one_symbol_leave_to_longer_ones_what_these_use(overrides):
    assert read("translation", "strategy.kind=blocks", *overrides.split()).strategy.kind == "blocks"


def test_a_section_without_kinds_is_given_none():
    assert refused("parsing", "training.kind=ctc").startswith("command line: training.kind=ctc: unknown key")


def test_only_outputs_that_have_a_second_best_are_asked_for_several():
    check_n_best(read("translation", "strategy.kind=ctc"), 5)
    check_n_best(read("detection"), 1)
    for config in (read("detection"), read("translation", "strategy.kind=cut_at_end")):
        with pytest.raises(ConfigError, match=r"the 5 best predictions are asked for, but with .* there is only one"):
            check_n_best(config, 5)


def test_the_automaton_of_label_sets_can_be_switched_off():
    assert not Config.model_validate({"task": "multilabel", "search": {"constraint": False}}).search.constraint
