"""What the page of a run says of its training."""

import pytest

from seq2seq_suite.report.sentences import on_end, on_training


@pytest.mark.parametrize(
    ("training", "validation", "falling"),
    [
        ([4.0, 3.0, 2.0, 1.9], [], True),
        ([4.0, 3.0, 2.0, 1.99], [], False),
        ([4.0, 3.0], [], True),
        ([4.0], [], False),
        ([4.0, 1.0, 2.0, 1.5], [], False),
        ([4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 3.5, 3.6], False),
        ([4.0, 3.0, 2.0, 2.1], [4.0, 3.0, 2.5, 2.0], True),
        ([], [], False),
    ],
)
def test_the_loss_still_falls_where_it_is_least_at_the_end_and_fell_until_then(training, validation, falling):
    losses = [
        {"loss": "x", "dashed": dashed, "points": [[place, None, None, loss] for place, loss in enumerate(some)]}
        for dashed, some in ((False, training), (True, validation))
        if some
    ]
    said = on_end({"updates": 3, "seconds": 60.0}, {"max_updates": 9, "max_minutes": 1.0, "patience": 0}, losses, 3)
    assert ("the loss was still falling: not trained long enough" in said) == falling


def test_overfitting_is_reported_by_the_loss_of_validation():
    def reported(*losses, best=1):
        points = [[update, None, None, loss] for update, loss in enumerate(losses)]
        return on_training([{"name": "validation", "dashed": True, "points": points}], points, best)

    assert "least at update 1" in reported(2.0, 1.0, 1.2)[0]
    assert not reported(2.0, 1.0, 1.01) and not reported(2.0, 3.0)
    assert "longer training" in reported(3.0, 2.0, 1.0, best=2)[0]
    assert "same value at all 2 validations" in reported(3.0, 3.0)[0] and not reported(3.0)
