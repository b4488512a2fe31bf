"""A language model's weights as the beginning of a task whose source is read by the decoder alone."""

import math
from pathlib import Path

import pytest
import torch
from making import strategy_of
from task_tools import make_task, write_rows

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import END
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.experiments import verbs
from seq2seq_suite.miniworld.stories import questions
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.strategies.language_model import LanguageModel

BACKBONE = {
    "width": 32,
    "feed_forward_width": 32,
    "num_heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "dropout": 0.0,
    "positions": "learned",
    "max_positions": 256,
}
TRAINING = {"max_updates": 2, "validate_every": 200, "precision": "float32", "threads": 1}
FINETUNING = {
    "backbone": {**BACKBONE, "encoder": "none"},
    "search": {"max_length_factor": 0.5},
    "strategy": {"label_smoothing": 0.0, "language_weight": 0.5},
    "init_parts": ["frontend", "decoder", "language"],
}
ROWS = [
    {"text": "oil prices rose", "labels": ["crude"]},
    {"text": "wheat and corn fell", "labels": ["wheat", "corn"]},
    {"text": "more wheat", "labels": ["wheat"]},
    {"text": "corn prices fell", "labels": ["corn"]},
    {"text": "oil and wheat rose", "labels": ["crude", "wheat"]},
    {"text": "more oil", "labels": ["crude"]},
    {"text": "corn rose", "labels": ["corn"]},
    {"text": "prices fell", "labels": ["other"]},
]


def run(folder: Path, name: str, rows, **keys):
    """Trains on the rows, which are the test split, too; what is given comes over two updates of a tiny model."""
    data = folder / f"data-{keys['task']}"
    data.mkdir(exist_ok=True)
    for split in ("train", "validation"):
        write_rows(data, rows, split=split)
    config = Config.model_validate(
        {
            "device": "cpu",
            "backbone": BACKBONE,
            **keys,
            "data": {"path": str(data), "test_splits": ["train"], "max_length": 100, **keys.get("data", {})},
            "training": {**TRAINING, **keys.get("training", {})},
        }
    )
    return verbs.run(config, folder / name, resume=False, overwrite=False, command=["test"])


@pytest.fixture
def pretrained(tmp_path):
    run(
        tmp_path,
        "lm",
        ROWS,
        task="language_model",
        language_model={"vocabulary_size": 60, "window": 80},
        strategy={"label_smoothing": 0.0},
    )
    return tmp_path / "lm"


def test_training_begins_with_what_the_language_model_knows(pretrained, tmp_path, make_batch):
    run(
        tmp_path,
        "labels",
        ROWS,
        task="multilabel",
        multilabel={"encoding": "pieces"},
        init_from=str(pretrained),
        training={"learning_rate": 1e-12},
        **FINETUNING,
    )
    assert "frontend, decoder, language start from" in (tmp_path / "labels" / "log.txt").read_text()
    teacher, tuned = (opening.open_run(directory, []) for directory in (pretrained, tmp_path / "labels"))
    text = "corn and oil fell"
    ((hypothesis,),) = strategy_of(LanguageModel).generate(
        teacher.predictor.model,
        collate(teacher.task.encode([Example(text, text)]), "language_model"),
        options=SearchOptions(),
        limit=torch.tensor([9]),
    )
    ended = teacher.predictor.model.eval()
    batch = collate(tuned.task.encode([tuned.task.from_text(text)]), "multilabel")
    with torch.no_grad():
        model = tuned.predictor.model
        predicted = float(tuned.predictor.learner.strategy.auxiliaries["language"].loss(model.encode(batch), batch))
        # A language model predicts the text's END, too.
        whole = collate(teacher.task.encode([Example(text, text)]), "language_model")
        memory = ended.prepare(ended.encode(whole))
        previous = torch.cat((torch.ones(1, 1, dtype=torch.int64), whole.target[:, :-1]), 1)
        visible = torch.ones(previous.size(1), previous.size(1)).tril().bool().unsqueeze(0)
        hidden, _ = ended.decode(ended.embed(previous, memory), visible, memory)
        last = float(ended.logits(hidden, memory).log_softmax(-1)[0, -1, END])
    assert -predicted == pytest.approx(hypothesis.score - last, abs=1e-3)


@pytest.mark.parametrize("task", ["multilabel", pytest.param("qa", marks=pytest.mark.slow)])
def test_eight_examples_are_learned_by_heart(tmp_path, task):
    learning = {"max_updates": 150, "learning_rate": 5e-3, "warmup_updates": 10}
    if task == "multilabel":
        figures = run(
            tmp_path,
            "run",
            ROWS,
            task=task,
            multilabel={"encoding": "pieces", "pieces": 60},
            training=learning,
            **FINETUNING,
        )["splits"]["train"]
        assert figures["subset_accuracy"] == 100.0
        return
    rows = [
        {"question": asked.question, "context": " ".join(asked.story[:2]), "answer": asked.answer}
        for asked in questions("train", sizes={"train": 8})
    ]
    figures = run(
        tmp_path, "run", rows, task=task, qa={"encoding": "pieces", "pieces": 120}, training=learning, **FINETUNING
    )["splits"]["train"]
    assert figures["exact_match"] == 100.0


def test_sources_are_pieces_with_start_and_delimiter():
    task = make_task("qa", qa__encoding="pieces", qa__pieces=60)
    example = task.from_text("Where is Tom? ||| Tom left. He is home.")
    task.fit([Example(example.source, questions_gold("home"))])
    source = task.encode([example])[0].source
    ids = task.source.pieces
    assert source.tolist() == [1, *ids.encode("Tom left. He is home."), END, *ids.encode("Where is Tom?")]


def questions_gold(answer: str):
    from seq2seq_suite.metrics.answers import Gold

    return Gold((answer,), "")


def test_a_share_of_the_training_split_is_drawn_by_the_seed(tmp_path, capsys):
    options = {
        "task": "multilabel",
        "multilabel": {"encoding": "pieces", "pieces": 60},
        "data": {"share": 0.5},
        **FINETUNING,
    }
    run(tmp_path, "half", ROWS, **options)
    assert "train: 4 of 8 examples are used (data.share=0.5)" in capsys.readouterr().out


def test_what_does_not_fit_is_said(pretrained, tmp_path):
    for folder, message in ((tmp_path / "empty", "no checkpoint"), (tmp_path / "other", "has no such subwords")):
        with pytest.raises(DataError, match=message):
            run(
                tmp_path,
                "a",
                ROWS,
                task="multilabel",
                multilabel={"encoding": "pieces"},
                **FINETUNING,
                init_from=str(folder),
            )
        (tmp_path / "other" / "checkpoints" / "best").mkdir(parents=True, exist_ok=True)
    with pytest.raises(DataError, match=r"train\.jsonl:2: a text of \d+ pieces"):
        run(
            tmp_path,
            "b",
            ROWS,
            task="multilabel",
            multilabel={"encoding": "pieces", "pieces": 60},
            **FINETUNING,
            data={"max_length": 4},
        )
    for wrong, message in (
        ({"backbone": {"encoder": "none", "positions": "rotary"}}, "directly follows each source"),
        ({"strategy": {"language_weight": 0.5}}, "backbone.encoder must be none"),
        ({"backbone": {"encoder": "none", "max_positions": 300}}, "behind a source of"),
        ({"backbone": {"encoder": "none"}, "strategy": {"kind": "length_head"}}, "backbone.encoder=self_attention"),
        ({"backbone": {"encoder": "none"}, "task": "asr", "strategy": {"language_weight": 0.1}}, "words or pieces"),
        ({"qa": {"encoding": "pieces", "pointer": True}}, "use tokens"),
    ):
        with pytest.raises((ValueError, ConfigError), match=message):
            Config.model_validate({"task": "qa", "search": {"max_length_factor": 0.5}, **wrong})
    assert math.isfinite(opening.open_run(pretrained, []).config.training.learning_rate)
