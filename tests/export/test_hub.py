"""What is exported loads elsewhere and predicts the same; callbacks see a run, and TensorBoard reads what one wrote."""

import base64
import io
import shutil

import numpy as np
import pytest
import yaml
from PIL import Image
from small_run import small_config, write_trees

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common import lazy_imports as lazy
from seq2seq_suite.common.files import read_json
from seq2seq_suite.runs import callbacks

SENTENCES = ["the dog sleeps .", "a cat sees the old bird ."]


class Watch:
    def __init__(self):
        self.rows, self.ended = [], []

    def __call__(self, row):
        self.rows.append(row)

    def end(self, directory):
        assert (directory / "summary.json").is_file()
        self.ended.append(directory)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    config = small_config(write_trees(folder / "data"), max_updates=4, validate_every=2, log_every=2, tensorboard=True)
    watch = Watch()
    run = s2s.train(config, output=folder / "run", callbacks=[watch])
    run.watch = watch
    return run


def test_an_exported_folder_predicts_what_the_run_predicts(run, tmp_path):
    assert cli.main(["export", str(run.path), str(tmp_path / "hub")]) == 0
    moved = shutil.move(tmp_path / "hub", tmp_path / "elsewhere")
    found, wanted = (
        one.predict(SENTENCES, n_best=2, settings={"search.beam_size": 2}) for one in (s2s.load(moved), run)
    )
    assert found == wanted
    assert str(run.path.parent) not in "".join(
        path.read_text() for path in (tmp_path / "elsewhere/README.md", tmp_path / "elsewhere/config.yaml")
    )


def test_the_card_has_the_hubs_head_and_the_runs_figures(run, tmp_path):
    assert cli.main(["export", str(run.path), "--to", "model-card", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    text = (tmp_path / "README.md").read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    assert (head["pipeline_tag"], head["library_name"]) == ("token-classification", "seq2seq_suite")
    figures = {metric["type"]: metric["value"] for metric in head["model-index"][0]["results"][0]["metrics"]}
    assert figures == run.summary["splits"]["test"]
    assert all(title in text for title in ("## Figures", "## Data and training", "## Limits", "s2s.load("))
    metric = run.summary["primary_metric"]
    low, high = run.summary["intervals"]["test"][metric]
    assert f"| test | {metric.replace('_', ' ')} | {figures[metric]:.2f} [{low:.2f}, {high:.2f}] |" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RUN", "OUT", "--to", "onnx"], "'onnx' is not one of"),
        (["nowhere", "OUT"], "nowhere"),
        (["RUN", "RUN"], "the run itself"),
    ],
)
def test_what_cannot_be_exported_is_said(run, tmp_path, capsys, words, said):
    places = {"RUN": str(run.path), "OUT": str(tmp_path / "out")}
    assert cli.main(["export", *(places.get(word, word) for word in words)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("hf://owner", "is no name of the Hub"),
        ("hf://owner/absent", "cannot be had from the Hub: HF_HUB_OFFLINE is set"),
    ],
)
def test_the_hub_is_asked_by_name_alone_and_offline_refused(monkeypatch, name, got):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(s2s.DataError) as caught:
        s2s.load(name)
    assert got in caught.value.got


def test_a_callback_is_notified_at_the_end_with_all_files_written(run):
    assert run.watch.ended == [run.path] and run.watch.rows


def test_tensorboard_reads_the_scalars_and_texts_of_a_run(run):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = events.EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()
    wanted = [(row["update"], row["f1"]) for row in run.watch.rows if row["split"] == "validation"]
    assert [(one.step, pytest.approx(one.value, rel=1e-5)) for one in board.Scalars("validation/f1")] == wanted
    assert any(tag.startswith("test") for tag in board.Tags()["tensors"])
    (first, *_) = read_json(run.path / "inspection" / "test.json")["examples"]
    packed = first["attention"]["encoder"]
    board = board.Images(f"test, row {first['row'] + 1}/encoder")
    drawn = np.asarray(Image.open(io.BytesIO(board[0].encoded_image_string)).convert("L"))
    assert (drawn == callbacks.attention_picture(packed)).all()
    weights = np.frombuffer(base64.b64decode(packed["values"]), dtype=np.uint8).reshape(
        [packed[name] for name in ("layers", "heads", "rows", "columns")]
    )
    layer, head, high, wide = weights.shape[0] - 1, weights.shape[1] - 1, weights.shape[2] + 1, weights.shape[3] + 1
    corner = drawn[::4, ::4][layer * high :, head * wide :][: high - 1, : wide - 1]
    assert ((corner == 0) == (weights[layer, head] == weights[layer, head].max())).all()


def test_tensorboard_that_is_not_installed_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(lazy, "find_spec", lambda name: None)
    config = small_config(write_trees(tmp_path / "data"), tensorboard=True)
    with pytest.raises(s2s.ConfigError, match="tensorboard is not installed"):
        s2s.train(config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
