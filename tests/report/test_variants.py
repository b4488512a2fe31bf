"""Runs of a comparison in order, by their task's metric."""

from report_tools import comparison_row

from seq2seq_suite.report import variants


def test_the_best_of_a_task_is_first_in_the_metrics_own_direction():
    rows = [
        comparison_row(run="a", task="asr", metric="wer", figure=9.0, higher_is_better=False),
        comparison_row(run="b", task="asr", metric="wer", figure=7.0, higher_is_better=False),
        comparison_row(run="c", figure=50.0),
        comparison_row(run="d", figure=60.0),
    ]
    assert {task: [row["run"] for row in some] for task, some in variants.by_task(rows).items()} == {
        "asr": ["b", "a"],
        "parsing": ["d", "c"],
    }
