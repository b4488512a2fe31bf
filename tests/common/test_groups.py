"""Values by key."""

from seq2seq_suite.common.groups import grouped


def test_each_value_is_under_its_key_in_order():
    pairs = [(number % 3, number) for number in range(20)]
    assert grouped(iter(pairs)) == {key: [value for one, value in pairs if one == key] for key in (0, 1, 2)}
    assert list(grouped([(2, "a"), (1, "b"), (2, "c")])) == [2, 1] and grouped([]) == {}
