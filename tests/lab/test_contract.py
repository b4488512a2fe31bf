"""Laws and faults in this process: the reference obeys, a bug is caught, and the law's inputs belong to the seed."""

import pytest
import torch

from seq2seq_suite.lab.assignment import Broken, Failed, Part, law, load, near
from seq2seq_suite.lab.assignments import ASSIGNMENTS, ATTENTION
from seq2seq_suite.lab.checking import InProcess, judge, points
from seq2seq_suite.lab.probes import Probe


def test_the_reference_obeys_and_each_fault_is_caught():
    reference = ATTENTION.text("attend")
    for seed in range(3):
        assert all(judge(one, InProcess(load(reference, "attend")), seed).holds for one in ATTENTION.laws("attend"))
    for fault in ATTENTION.faults("attend"):
        student = InProcess(load(fault.text(reference), "attend"))
        broken = {one.name for one in ATTENTION.laws("attend") if not judge(one, student, 0).holds}
        assert fault.law in broken, fault.id


def test_a_law_draws_the_same_inputs_for_a_seed_whatever_the_student_draws():
    drawn = []

    @law("f.random", part="f")
    def random_law(student):
        for _ in range(2):
            drawn.append(float(torch.rand(())))
            student.f(torch.zeros(1))

    for function in (lambda x: x, lambda x: torch.rand(5)):
        before = torch.random.get_rng_state()
        assert judge(random_law, InProcess({"f": function}), 7).holds
        assert torch.equal(before, torch.random.get_rng_state())
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]


def test_what_was_changed_in_place_is_seen_and_the_law_keeps_its_own():
    student, x = InProcess({"f": lambda x: x.add_(1)}), torch.zeros(2)
    assert torch.equal(student.call("f", x), torch.ones(2)) and torch.equal(student.after[0], torch.ones(2))
    assert torch.equal(x, torch.zeros(2))


def test_gradients_are_those_of_the_cotangent_and_none_where_detached():
    student, x = InProcess({"f": lambda x, y: (x * x).sum(-1) + y.detach()}), torch.tensor([[1.0, 2.0]])
    output, found = student.call("f", x, x[:, 0], gradient=(0, 1), cotangent=torch.tensor([10.0]))
    assert output.tolist() == [6.0] and found[0].tolist() == [[20.0, 40.0]] and found[1] is None


def test_probes_tell_what_they_were_called_with_in_order():
    student = InProcess({"f": lambda norm, layer, x: x + layer(norm(x))})
    one = torch.ones(1)
    assert student.call(
        "f", Probe("affine", 2 * one, one, name="norm"), Probe("linear", one[None], name="layer"), one
    ).tolist() == [4.0]
    assert [(name, float(arguments[0])) for name, arguments in student.calls] == [("norm", 1.0), ("layer", 3.0)]


def test_a_starter_is_distinguished_from_a_mistake():
    def begun():
        raise NotImplementedError("f")

    with pytest.raises(Failed) as failed:
        InProcess({"f": begun}).f()
    assert not failed.value.begun
    with pytest.raises(Failed) as failed:
        InProcess({"f": lambda: 1 / 0}).f()
    assert failed.value.begun and "ZeroDivisionError" in failed.value.message


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (None, "got None"),
        ("x", "got a str"),
        (torch.zeros(3), "shape [3], expected [2]"),
        (torch.tensor([1.0, float("nan")]), "at [1] got nan, expected 2"),
        ([1.0, 2.1], "at [1] got 2.1, expected 2"),
    ],
)
def test_near_says_what_and_where(got, said):
    with pytest.raises(Broken, match="the sum: ") as broken:
        near(got, torch.tensor([1.0, 2.0]), "the sum", "和")
    assert said in broken.value.message and broken.value.message_zh.startswith("和：")


def test_edges_count_once_all_values_hold():
    part, laws = (
        Part("f", ("f",), 20),
        [
            law(f"f.{n}", part="f", kind=kind)(lambda student, n=n: student.f(n))
            for n, kind in enumerate(("value", "value", "edge", "edge"))
        ],
    )

    def scored(*wrong):
        student = InProcess({"f": lambda n: 1 / (n not in wrong)})
        return points(part, [judge(one, student, 0) for one in laws])

    assert (scored(), scored(0), scored(0, 1), scored(2), scored(2, 3)) == (20, 5, 0, 15, 10)


def test_numbers_and_names_of_assignments_are_their_own():
    assert len({one.name for one in ASSIGNMENTS}) == len({one.number for one in ASSIGNMENTS}) == len(ASSIGNMENTS)
    assert all(one.points == 100 for one in ASSIGNMENTS)
