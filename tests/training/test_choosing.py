"""Which checkpoint is the best one: by the metric where it moves, else by the loss."""

import pytest

from seq2seq_suite.training.checkpoint import Progress
from seq2seq_suite.training.choosing import Metric, constancy, is_better, note_validation, watched


def test_a_figure_that_is_not_a_number_never_becomes_the_best():
    nan = float("nan")
    assert is_better(1.0, nan, higher_is_better=True) and is_better(1.0, nan, higher_is_better=False)
    assert not is_better(nan, 1.0, higher_is_better=True) and not is_better(nan, nan, higher_is_better=True)
    assert is_better(1.0, 2.0, higher_is_better=False) and not is_better(2.0, 2.0, higher_is_better=True)


@pytest.mark.parametrize("value", [0.0, 100.0, float("nan")])
def test_a_metric_that_does_not_move_leaves_the_choice_to_the_loss(value):
    progress, metric, said = Progress(), Metric("bleu", True), []
    for update, loss in enumerate((3.0, 2.0, 2.5, 1.0, 1.5, 1.2), 1):
        progress.update = update
        note_validation(progress, {"bleu": value, "loss_output": loss, "loss_ctc": -loss}, metric)
        said.append(constancy(progress, "bleu"))
    assert progress.best_update == 4 and progress.best_loss == 1.0 and progress.validations_since_best == 2
    assert [bool(one) for one in said] == [False, False, True, False, False, False]
    assert f"bleu is {value:.4g} at all 6 validations" in constancy(progress, "bleu", ended=True)
    assert watched(progress, "bleu") == "validation loss"


@pytest.mark.parametrize("higher", [False, True])
def test_a_metric_that_moves_chooses_alone(higher):
    progress, metric = Progress(), Metric("wer", higher)
    figures = (5.0, 5.0, 4.0, 6.0, 5.0, 4.0, 6.0)
    found = []
    for update, figure in enumerate(figures, 1):
        progress.update = update
        found.append(note_validation(progress, {"wer": figure, "loss_output": -float(update)}, metric))
    assert found == [True, True, not higher, higher, False, False, False]
    assert not constancy(progress, "wer", ended=True) and watched(progress, "wer") == "wer"
    single = Progress(update=1)
    note_validation(single, {"wer": 5.0}, metric)
    assert not constancy(single, "wer", ended=True) and single.best_update == 1
