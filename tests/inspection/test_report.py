"""What is recorded of a few examples agrees with the model and with the search."""

import base64
import json
import math
from dataclasses import replace

import pytest
import torch
from small_run import small_config, start, write_trees

from seq2seq_suite.common.examples import Example
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.inspection import report as inspecting
from seq2seq_suite.inspection.attention_recorder import AttentionRecorder, attentions
from seq2seq_suite.inspection.report import inspect
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.prediction.open_task import open_task

BACKBONE = {
    "width": 16,
    "feed_forward_width": 16,
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.0,
}
AS_A_USER_HAS_IT = {name: getattr(inspecting, name) for name in ("MOST_EXAMPLES", "_WRONG")}
PAIRS = [
    ("The dog sees a cat .", "Der Hund sieht eine Katze ."),
    ("A bird sings .", "Ein Vogel singt ."),
    ("The cat sees the dog .", "Die Katze sieht den Hund ."),
]


@pytest.fixture
def loaded(roughen):
    """A function: an untrained run of translation with its examples."""

    def make(strategy="autoregressive", *, kernels="fast", backbone=None, beam_size=1, **search):
        torch.manual_seed(1)
        config = Config.model_validate(
            {
                "task": "translation",
                "device": "cpu",
                "kernels": kernels,
                "backbone": {**BACKBONE, **(backbone or {})},
                "strategy": {"kind": strategy},
                "search": {"beam_size": beam_size, **search},
                "translation": {"source_subwords": "characters", "target_subwords": "characters"},
                "training": {"precision": "float32"},
            }
        )
        task = open_task(config.task, config)
        examples = [Example(source, target) for source, target in PAIRS]
        task.fit(examples)
        predictor = build_predictor(config, task, device=torch.device("cpu"))
        roughen(predictor.learner)
        predictor.learner.eval()
        options = predictor.options.changed(max_length_factor=1.0, max_length_extra=5)
        return LoadedRun(config, replace(predictor, options=options)), examples

    return make


def weights_of(packed):
    shape = [packed[name] for name in ("layers", "heads", "rows", "columns")]
    return torch.frombuffer(bytearray(base64.b64decode(packed["values"])), dtype=torch.uint8).view(shape).float() / 255


@pytest.mark.parametrize("kernels", ["fast", "plain"])
@pytest.mark.parametrize(
    "backbone", [{}, {"encoder": "none"}, {"attention_score": "additive"}, {"positions": "rotary"}]
)
def test_weights_sum_to_one_and_give_the_output_of_their_module(loaded, kernels, backbone):
    run, examples = loaded(kernels=kernels, backbone=backbone)
    predictor, items = run.predictor, run.task.encode(examples)
    batch, model = collate(items, run.task.name), AttentionRecorder(run.predictor.model)
    attended = []
    for _, module in attentions(model.model):
        plain = module._attend
        module._attend = lambda *given, plain=plain: attended.append((given[2], plain(*given))) or attended[-1][1]
    with torch.no_grad(), model.watched():
        strategy = predictor.learner.strategy
        strategy._hidden(model, batch, strategy.encode_source(model, batch), batch.target)
    seen = [weights for one in model.seen for part in ("encoder", "decoder", "cross") for weights in one[part]]
    values = [(value, out) for value, out in attended if value.size(-1) == 8]  # not of the identity matrix
    assert len(seen) == len(values) > 1
    for weights in seen:
        assert torch.allclose(weights.sum(-1), torch.ones_like(weights[..., 0]), atol=1e-5)
    left = list(seen)
    for value, out in values:
        place = next(
            number
            for number, weights in enumerate(left)
            if weights.size(3) == value.size(2) and torch.allclose(weights @ value, out, atol=1e-5)
        )
        del left[place]


@pytest.mark.parametrize("strategy", ["autoregressive", "length_head", "mask_predict", "cut_at_end", "ctc", "dag"])
def test_watching_changes_no_output_and_leaves_no_trace_in_the_model(loaded, strategy):
    run, examples = loaded(strategy, beam_size=1 if strategy in ("dag", "cut_at_end") else 2)
    items = run.task.encode(examples)
    before = run.predictor.hypotheses(items)
    found = inspect(run, examples)
    assert run.predictor.hypotheses(items) == before
    assert not any("_attend" in vars(module) for _, module in attentions(run.predictor.model))
    for one, hypotheses in zip(found, before, strict=True):
        written = [piece[0] for piece in one["pieces"] if piece[0] != "<end>"]
        assert written == run.task.target.names(hypotheses[0].symbols)
        for part, packed in one["attention"].items():
            assert packed["rows"] == len(one["source" if part == "encoder" else "target"])
            assert packed["columns"] == len(one["target" if part == "decoder" else "source"])
            assert (weights_of(packed).sum(-1) - 1).abs().max() < 0.1


@pytest.mark.parametrize("search", [{}, {"beam_size": 3, "length_penalty": 0.6}])
@pytest.mark.parametrize("backbone", [{}, {"encoder": "none"}])
def test_the_probabilities_of_pieces_multiply_to_the_score(loaded, search, backbone):
    run, examples = loaded(backbone=backbone, **search)
    best = [found[0] for found in run.predictor.hypotheses(run.task.encode(examples))]
    for one, hypothesis in zip(inspect(run, examples), best, strict=True):
        total = sum(math.log(share) for _, share, _ in one["pieces"])
        length = len(hypothesis.symbols) + 1
        assert run.predictor.options.normalise(total, length) == pytest.approx(hypothesis.score, rel=1e-2)
        assert all(share + sum(other for _, other in others) <= 1.001 for _, share, others in one["pieces"])


def test_a_length_head_scores_by_the_mean_of_its_pieces(loaded):
    run, examples = loaded("length_head", beam_size=3)
    best = [found[0] for found in run.predictor.hypotheses(run.task.encode(examples))]
    for one, hypothesis in zip(inspect(run, examples), best, strict=True):
        mean = sum(math.log(share) for _, share, _ in one["pieces"]) / len(hypothesis.symbols)
        assert mean == pytest.approx(hypothesis.score, rel=1e-2)
        assert one["trace"]["predicted_length"] == len(hypothesis.symbols) and one["trace"]["true"] > 0


@pytest.mark.parametrize(
    "backbone",
    [
        {"encoder": "rnn"},
        {"encoder": "rnn", "decoder": "rnn"},
        {"encoder": "conv", "encoder_kernel": 3},
        {"encoder_steps": 2},
    ],
)
def test_other_encoders_and_decoders_show_the_attention_that_they_have(loaded, backbone):
    run, examples = loaded(backbone=backbone)
    one = inspect(run, examples)[0]
    assert set(one["attention"]) == {"cross"} | ({"decoder"} if "decoder" not in backbone else set()) | (
        {"encoder"} if "encoder" not in backbone else set()
    )
    for packed in one["attention"].values():
        assert (weights_of(packed).sum(-1) - 1).abs().max() < 0.1
    if "encoder_steps" in backbone:
        assert one["attention"]["encoder"]["layers"] == 4


def test_inputs_too_long_for_all_weights_keep_their_probabilities(loaded, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.inspection.decoder_view.MOST_WEIGHTS", 10)
    run, examples = loaded()
    assert all(one["attention"] == {} and one["pieces"] for one in inspect(run, examples))


def test_a_run_keeps_what_was_inspected(tmp_path, monkeypatch):
    for name, number in AS_A_USER_HAS_IT.items():
        monkeypatch.setattr(inspecting, name, number)
    write_trees(tmp_path / "data")
    start(small_config(tmp_path / "data", max_updates=2, validate_every=2), tmp_path / "run")
    found = json.loads((tmp_path / "run" / "inspection" / "test.json").read_text())
    rows = (tmp_path / "run" / "predictions" / "test.jsonl").read_text().splitlines()
    assert len(found["examples"]) == len(rows) == 8
    for one in found["examples"]:
        row = json.loads(rows[one["row"]])
        assert one["source"][1:-1] == row["source"].split() and len(one["target"]) == len(one["pieces"])


def test_an_attention_that_cannot_be_watched_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.inspection.report.read", lambda *given: 1 / 0)
    write_trees(tmp_path / "data")
    start(small_config(tmp_path / "data", max_updates=2, validate_every=2), tmp_path / "run")
    assert "failed: ZeroDivisionError" in (tmp_path / "run" / "log.txt").read_text()
    assert not (tmp_path / "run" / "inspection").exists()
