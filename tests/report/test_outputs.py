"""Outputs of runs: kinds of errors, and rows that older versions wrote."""

from seq2seq_suite.report.outputs import Outputs
from seq2seq_suite.report.sentences import _kind


def test_rows_of_an_old_run_are_equal_where_their_texts_are():
    outputs = Outputs(
        "test",
        [
            {"reference": "a", "prediction": "a"},
            {"reference": "a", "prediction": "b"},
            {"reference": "a", "prediction": "b", "equal": True},
        ],
        {},
        {},
        "f1",
        True,
    )
    assert outputs.equal == [True, False, True]


def test_the_leading_kind_of_error_stands_out():
    outputs = Outputs("test", [{"equal": False, "kinds": ["order"]}] * 6 + [{"equal": False}], {}, {}, "f1", True)
    said, stands_out = _kind([outputs])[1]
    assert stands_out and said.startswith("6 have the error") and "order" in said
