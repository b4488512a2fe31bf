from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config.config_file import dump, is_override, load
from seq2seq_suite.config.schema import Config, Data
from seq2seq_suite.options.training import Training
from seq2seq_suite.tasks import TASKS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(text: str | bytes, *overrides: str, name: str = "p.yaml") -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(Path(name), overrides)
    message = str(caught.value)
    assert not any(word in message for word in ("Input should", "pydantic", "Value error", "Field required", "Extra"))
    return message


def test_a_file_fills_the_configuration_and_overrides_follow_it(folder):
    Path("p.yaml").write_text(
        "task: parsing\ntraining: {learning_rate: 1e-3, batch_tokens: 10_000}\n"
        "data: {subset: no, splits: {on: a.txt}, test_splits: [dev, test]}\n"
    )
    config = load(
        Path("p.yaml"),
        [
            "training.learning_rate=3e-4",
            "data.splits.dev=b=c",
            "data.path=",
            "seed=2",
            "training.max_minutes=.inf",
            "seed=3",
        ],
    )
    assert config.training.learning_rate == 3e-4 and config.training.batch_tokens == 10_000
    assert config.data == Data(path="", subset="no", splits={"on": "a.txt", "dev": "b=c"}, test_splits=("dev", "test"))
    assert config.seed == 3 and config.training.max_minutes == float("inf")
    assert config.backbone.width == 256


def test_a_misspelt_key_is_named_with_its_line_and_the_key_that_was_meant(folder):
    text = "task: parsing\nbackbone:\n  {}: 4\n"
    for wrong, right in {
        "n_heads": "num_heads",
        "num_head": "num_heads",
        "d_model": "width",
        "layers": "encoder_layers",
        "beam_size": "search.beam_size",
        "Dropout": "dropout",
    }.items():
        assert (
            error_of(text.format(wrong), name="tasks/p.yaml")
            == f"tasks/p.yaml:3: backbone.{wrong}: unknown key, did you mean {right}?"
        )
    assert error_of("task: parsing\nmodle: {}\n") == "p.yaml:2: modle: unknown key, did you mean backbone?"
    assert error_of("task: parsing\ndata: {qqq: 1}\n") == (
        "p.yaml:2: data.qqq: unknown key\n"
        "  expected: one of path, format, subset, size, splits, split, test_splits, share, max_bad_rows, "
        "max_row_megabytes, in_memory_megabytes, cache, vocabulary_rows, streaming, unicode, max_length"
    )


def test_an_unknown_kind_is_shown_beside_the_known_ones(folder):
    found = error_of("task: parsing\nstrategy:\n  kind: lenght_head\n")
    assert "p.yaml:3: strategy.kind: got 'lenght_head' (text)\n  expected: one of autoregressive, length_head," in found
    assert "did you mean length_head?" in found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_updates: many", "training.max_updates: got 'many' (text)\n  expected: a whole number above 0"),
        ("max_updates: '3'", "got '3' (text)\n  expected: a whole number above 0\n  remedy:   remove the quotes"),
        (
            "max_updates: 1e4",
            "got 10000.0 (a decimal number)\n  expected: a whole number above 0\n  remedy:   write 10000",
        ),
        ("max_updates: true", "got true (a truth value)\n  expected: a whole number above 0"),
        ("learning_rate: -1", "got -1 (a whole number)\n  expected: a number above 0"),
        ("learning_rate: .nan", "got nan (a decimal number)\n  expected: a finite number above 0"),
        ("learning_rate: .inf", "got inf (a decimal number)\n  expected: a finite number above 0"),
        ("max_minutes: .nan", "got nan (a decimal number)\n  expected: a number above 0"),
        ("warmup_updates: 10_000_000_000", "expected: a whole number of at least 0 and of at most 1,000,000,000"),
        ("threads: 1_099_511_627_776", "expected: a whole number of at least 0 and of at most 1,000"),
        ("ema_decay: 1", "got 1 (a whole number)\n  expected: a number of at least 0 and below 1"),
        (
            "schedule: cosin",
            "got 'cosin' (text)\n  expected: one of inverse_sqrt, cosine, power, constant\n"
            "  remedy:   did you mean cosine?",
        ),
        ("schedule:", "got nothing\n  expected: one of inverse_sqrt"),
        ("log_every: [1]", "got a list\n  expected: a whole number above 0"),
    ],
)
def test_a_value_of_the_wrong_kind_is_shown_beside_what_was_expected(folder, line, message):
    found = error_of(f"task: parsing\ntraining:\n  {line}\n")
    assert found.startswith("p.yaml:3: training.") and message in found


def test_a_section_of_another_task_is_refused(folder):
    assert error_of("task: parsing\ndetection: {height: 240}\n") == (
        "p.yaml:2: detection: a section of another task\n  expected: those of this task: parsing"
    )
    assert error_of("task: multitask\ntasks: {a: {task: asr, qa: {}}, b: {task: qa}}\n") == (
        "p.yaml:2: tasks.a.qa: a section of another task\n  expected: those of this task: asr and audio"
    )
    assert "detection.height" in error_of("task: detection\n", "detection.height=3")


def test_values_of_other_sections_are_explained_too(folder):
    assert "expected: true or false\n  remedy:   write true" in error_of("task: parsing\nsearch: {sampling: yes}\n")
    assert "expected: text\n  remedy:   put it in quotes" in error_of("task: parsing\ndata: {subset: 3}\n")
    assert "data.splits.dev: got 3" in error_of("task: parsing\ndata: {splits: {dev: 3}}\n")
    assert "training: got nothing" in error_of("task: parsing\ntraining:\n")
    assert (
        error_of("seed: 1\n") == "p.yaml: task: the key is missing\n  expected: one of "
        f"{', '.join(TASKS)}, multitask\n  remedy:   add task: ..."
    )
    assert "expected: a list, such as [a, b]" in error_of("task: parsing\ndata: {test_splits: dev}\n")


def test_items_of_lists_are_explained_as_what_the_list_holds(folder):
    text = "task: translation\nstrategy:\n  kind: ctc\n  agreement: {}\n"
    assert error_of(text.format("[0.5, 1.5]")) == (
        "p.yaml:4: strategy.agreement.1: got 1.5 (a decimal number)\n"
        "  expected: a number of at least 0 and of at most 1"
    )
    for wrong in ("[0.5]", "[0.5, 0.5, 1.0]"):
        assert error_of(text.format(wrong)) == (
            "p.yaml:4: strategy.agreement: got a list\n  expected: a list of 2, such as [a, b]"
        )
    assert "encoder_dilations.1: got 0 (a whole number)\n  expected: a whole number above 0" in error_of(
        "task: parsing\nbackbone: {encoder_dilations: [1, 0]}\n"
    )


def test_keys_that_contradict_each_other_are_named_where_they_stand(folder):
    assert error_of("task: parsing\nbackbone:\n  width: 250\n  num_heads: 4\n") == (
        "p.yaml:3: backbone.width 250 is not a multiple of backbone.num_heads 4"
    )
    assert error_of("task: parsing\nsearch: {num_hypotheses: 5}\n", "search.beam_size=2").startswith(
        "command line: search.beam_size=2: search.num_hypotheses 5 exceeds"
    )


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        ("attention_score: additive, positions: rotary", "additive has no product: set backbone.positions=sinusoidal"),
        ("attention_score: additive, encoder: rnn, decoder: rnn", "backbone.decoder rnn have none"),
        ("experts: 2", "leaves no choice with backbone.experts_per_token 2: set a larger backbone.experts"),
        ("experts: 4, encoder: conv, encoder_kernel: 3, decoder: rnn", "have none: set backbone.experts=0"),
        ("decoder_kernel: 3", "does not go with strategy.kind autoregressive, which sees no symbols on both sides"),
        ("decoder_kernel: 4", "backbone.decoder_kernel 4 is even, but must be odd"),
        ("embedding_width: 256", "backbone.embedding_width 256 is not below backbone.width 256: set it to 0"),
    ],
)
def test_variants_that_make_no_sense_are_refused_with_a_remedy(folder, backbone, message):
    found = error_of(f"task: translation\nbackbone: {{{backbone}}}\n")
    assert found.startswith("p.yaml:2: backbone.") and message in found


def test_all_errors_are_reported_at_once_in_the_order_of_the_file(folder):
    lines = error_of("task: parsing\nseed: x\ntraining: {lr: 1}\nbackbone: {size: tinny}\n", "search.beam_size=0")
    starts = [line.split(": ")[:2] for line in lines.splitlines() if not line.startswith(" ")]
    assert starts == [
        ["p.yaml:2", "seed"],
        ["p.yaml:3", "training.lr"],
        ["p.yaml:4", "backbone.size"],
        ["command line", "search.beam_size=0"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.yaml: the file is empty"),
        ("# nothing\n", "p.yaml: the file is empty"),
        ("- a\n", "p.yaml:1: got a list at the top"),
        ("parsing\n", "p.yaml:1: got 'parsing' (text) at the top"),
        ("task: parsing\nseed: 1\nseed: 2\n", "p.yaml:3: seed: the key appears twice (first on line 2)"),
        ("task: parsing\n\tseed: 1\n", "p.yaml:2: this is not YAML: found a tab"),
        ("task: parsing\ndata: {path: [a\n", "p.yaml:3: this is not YAML: "),
        ("data:\n  path: a: b\n", "p.yaml:2: this is not YAML: "),
        ("task: a\n---\ntask: b\n", "p.yaml:2: this is not YAML"),
        ("data: !include x\n", "p.yaml:1: data: got !include x"),
        ("data: !!python/name:os.system\n", "p.yaml:1: data: got "),
        ("data: &a [*a]\n", "p.yaml:1: data: the value contains itself"),
        ("? [a]\n: b\n", "p.yaml:1: a list or mapping"),
        ("seed: !!int x\n", "p.yaml:1: seed: got"),
        (b"task: \xff\n", "p.yaml: byte 6 is not UTF-8"),
        ("seed: \x01\n", "p.yaml: this is not YAML"),
        ('data: {path: "a\\0b"}\n', "p.yaml:1: data.path: the text holds the character 0"),
        ('data: {path: "\\ud800"}\n', "p.yaml:1: data.path: the text holds the character 55296"),
        ("data: " + "[" * 500 + "]" * 500, "p.yaml: lists and mappings are nested more than 50 deep"),
        ("data: " + "[" * 60 + "]" * 60, "p.yaml:1: data: lists and mappings are nested more than 50 deep"),
        ("# " + "x" * 300_000, "p.yaml: the file has more than 262,144 bytes"),
    ],
)
def test_broken_yaml_is_refused_with_its_line(folder, text, message):
    assert error_of(text).startswith(message)


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory(folder):
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
    )
    assert "there are more than 10,000 values up to here" in error_of(bomb)


def test_an_override_nested_too_deep_is_refused(folder):
    assert error_of("task: parsing\n", "data.path=" + "[" * 500 + "]" * 500) == (
        "command line: data.path: lists and mappings are nested more than 50 deep\n  expected: keys in sections"
    )
    long = error_of("task: parsing\n", f"data.{'x' * 100}=" + "[" * 60 + "]" * 60)
    assert long.startswith(f"command line:1: data.{'x' * 52}...: lists and mappings are nested")


@pytest.mark.parametrize(
    ("text", "override"),
    [
        ("task: parsing\nsearch: {{top_p: {}}}\n", "search.top_p={}"),
        ("task: parsing\n{}: 1\n", "{}=1"),
        ("task: {}\n", "task={}"),
        ("task: parsing\ndata: {{{}: 1}}\n", "data.{}=1"),
        ("task: parsing\nseed: !{} 1\n", "seed=!{} 1"),
        ("task: parsing\nsearch: {{rescorer: {}, beam_size: 1, num_hypotheses: 2}}\n", "search.top_k={}"),
        ("task: translation\ntranslation: {{source_language: {0}, target_language: {0}}}\n", "translation.joint={}"),
        ("task: multitask\ntasks: {{{}.: {{task: parsing}}}}\n", "tasks.{}={{task: parsing}}"),
        ("task: language_model\nsearch: {{rescorer: {}}}\n", "search.rescorer=[{}"),
    ],
)
@pytest.mark.parametrize("value", ["9" * 200, "9" * 5000, "x" * 200, "e" + "9" * 5000])
def test_no_message_repeats_a_long_value_in_full(folder, text, override, value):
    assert value[:61] not in error_of(text.format(value))
    assert value[:61] not in error_of("task: language_model\n", override.format(value))


def test_a_path_that_no_file_can_have_is_refused(folder):
    for path in ("a\0b", "x" * 300, "x/" * 3000):
        with pytest.raises(ConfigError, match="the file cannot be read"):
            load(Path(path))


def test_a_missing_file_is_answered_with_the_nearest_name(folder):
    error_of("", name="tasks/parsing.yaml")
    for path, remedy in {
        "tasks/parsin.yaml": "did you mean tasks/parsing.yaml?",
        "parsing": "did you mean tasks/pars",
        "zz.yaml": "choose one of: tasks/parsing.yaml",
    }.items():
        with pytest.raises(ConfigError, match="there is no such file") as caught:
            load(Path(path))
        assert caught.value.remedy.startswith(remedy)
    with pytest.raises(ConfigError, match="is a folder"):
        load(Path("tasks"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.lr=3e-4", "unknown key, did you mean training.learning_rate?"),
        ("trainin.learning_rate=1", "unknown key, did you mean training?"),
        ("learning_rate=1", "unknown key, did you mean training.learning_rate?"),
        ("search=4", "got 4 (a whole number)\n  expected: a section with the keys beam_size"),
        ("seed=x", "got 'x' (text)\n  expected: a whole number of at least 0"),
        ("seed=[1", "the value is not YAML"),
    ],
)
def test_an_error_in_an_override_names_the_command_line(folder, override, message):
    assert error_of("task: parsing\n", override).startswith(f"command line: {override}: {message}")


def test_a_key_that_has_the_name_of_its_strategy_is_described(folder):
    found = error_of("task: translation\nstrategy: {kind: blocks}\n", "strategy.blocks=[0, 4]")
    assert "strategy.blocks=[0, 4]: got 0 (a whole number)\n  expected: a whole number above 0" in found


@pytest.mark.parametrize("override", ["seed.x=1", "task.kind=a"])
def test_an_override_below_a_value_is_refused(folder, override):
    assert f"{override}: {override.partition('.')[0]} is no section" in error_of("task: parsing\nseed: 1\n", override)


def test_an_argument_is_an_override_only_if_a_dotted_key_stands_before_its_equals_sign():
    assert is_override("a.b_c=x=y") and is_override("seed=")
    assert not any(is_override(text) for text in ("runs/a=b", "=x", "a..b=x", "1a=x", "The cat = x", "seed"))


TEXTS = st.one_of(
    st.sampled_from(["no", "3e-4", "1_0", ".inf", "~", "", "on", "0x1", "1:30", "2001-01-01", "a: b", "#"]),
    st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=5),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    path=TEXTS,
    splits=st.dictionaries(TEXTS, TEXTS, max_size=3),
    rate=st.floats(1e-12, 1e6),
    minutes=st.one_of(st.just(float("inf")), st.floats(0.1, 100)),
)
def test_a_dumped_configuration_loads_as_itself(tmp_path_factory, path, splits, rate, minutes):
    config = Config(
        task="parsing",
        data=Data(path=path, splits=splits, test_splits=("a", path)),
        training=Training(learning_rate=rate, max_minutes=minutes),
    )
    file = tmp_path_factory.mktemp("dump") / "config.yaml"
    file.write_text(dump(config), encoding="utf-8")
    assert load(file) == config
    keys = [line.split(":")[0] for line in dump(config).splitlines() if line[0] not in " -"]
    assert ["format", *config.model_dump()] == keys


def test_the_kind_of_decoder_alone_can_be_changed(folder):
    Path("p.yaml").write_text(
        "task: asr\nstrategy:\n  kind: autoregressive\n  label_smoothing: 0.1\n  ctc_weight: 0.2\n"
    )
    config = load(Path("p.yaml"), ["strategy.kind=ctc", "strategy.factor=3.0", "strategy.glancing=[0.5, 0.3]"])
    assert config.strategy.model_dump() == {
        "kind": "ctc",
        "consistency": 0.0,
        "factor": 3.0,
        "glancing": (0.5, 0.3),
        "agreement": (0.0, 0.0),
        "ctc_weight": 0.2,
    }
    assert load(Path("p.yaml"), ["strategy.kind=length_head"]).strategy.label_smoothing == 0.1
    Path("copy.yaml").write_text(dump(config))
    assert load(Path("copy.yaml")) == config
    with pytest.raises(ConfigError, match=r"strategy.factor=3: a key of strategy.kind cut_at_end, ctc, dag only"):
        load(Path("p.yaml"), ["strategy.factor=3", "strategy.kind=length_head"])  # of the command line none is dropped
    with pytest.raises(ConfigError, match=r"strategy.factro=3: unknown key, did you mean strategy.factor\?"):
        load(Path("p.yaml"), ["strategy.factro=3", "strategy.kind=ctc"])
    text = "task: translation\nstrategy:\n  kind: ctc\n  label_smoothing: 0.1\n"
    assert "p.yaml:4: strategy.label_smoothing: a key of strategy.kind autoregressive, " in error_of(text)
    assert error_of("task: detection\n", "strategy.grid=[3, 3]").endswith("a key of strategy.kind slots only")
    assert "expected: a number" in error_of("task: translation\n", "strategy.label_smoothing=abc")
    assert "p.yaml:3: strategy.kind: got 'dat'" in error_of(text.replace("ctc", "dat"))
    assert (
        "ctc writes text; the outputs of task parsing are structures: choose strategy.kind autoregressive, "
        "length_head, mask_predict, cut_at_end or blocks" in error_of("task: parsing\n", "strategy.kind=ctc")
    )
    assert "set parsing.guide=false" in error_of("task: parsing\n", "strategy.kind=length_head")
    assert "multilabel.order free has none" in error_of(
        "task: multilabel\n", "strategy.kind=length_head", "multilabel.order=free"
    )
    assert "strategy.kind length_head scores no sets" in error_of(
        "task: multilabel\n", "strategy.kind=length_head", "multilabel.head=pooled"
    )
    assert "slots writes objects; the outputs of task qa are text" in error_of("task: qa\n", "strategy.kind=slots")
    assert "are continuations: choose strategy.kind autoregressive" in error_of(
        "task: language_model\n", "strategy.kind=length_head"
    )
    assert "has no encoder" in error_of("task: language_model\n", "backbone.encoder=rnn")
    assert "may be 1021 symbols long" in error_of(
        "task: language_model\n", "backbone.max_positions=1000", "search.max_length_factor=1.0"
    )
    assert "has 9 slots, fewer than detection.instances 40" in error_of(
        "task: detection\n", "strategy.kind=slots", "strategy.grid=[3, 3]"
    )
    assert "detection.instances 40 times strategy.slots_per_object 2" in error_of(
        "task: detection\n", "strategy.kind=slots", "strategy.slots_per_object=2", "detection.max_overlap=0.6"
    )
    assert "set detection.max_overlap below 1" in error_of(
        "task: detection\n", "strategy.kind=slots", "strategy.grid=[9, 9]", "strategy.slots_per_object=2"
    )
    backbone = load(Path("p.yaml"), ["backbone.size=tiny_12_1"]).backbone
    assert (backbone.width, backbone.encoder_layers, backbone.decoder_layers) == (128, 12, 1)
    assert "the decoder may have 1033 positions" in error_of(
        "task: qa\n", "strategy.kind=dag", "backbone.max_positions=512", "search.max_length_factor=1.0"
    )
