"""Names of labels survive a line of text."""

from hypothesis import given
from hypothesis import strategies as st

from seq2seq_suite.tasks.multilabel.label_names import from_line, to_line


@given(st.lists(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1), unique=True))
def test_any_labels_survive_a_line_of_text(labels):
    assert from_line(to_line(labels)) == labels
