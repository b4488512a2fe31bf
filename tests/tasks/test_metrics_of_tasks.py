"""By which figure a run's best checkpoint is chosen, and which way is up."""

from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks import TASKS

LOWER_IS_BETTER = {"asr": "wer", "language_model": "bits_per_character"}


def test_error_rates_and_entropy_are_better_the_lower_and_nothing_else():
    found = {name: (task := open_task(name)).higher_is_better or task.primary_metric for name in TASKS}
    assert {name: metric for name, metric in found.items() if metric is not True} == LOWER_IS_BETTER
