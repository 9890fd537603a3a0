"""When the sends of a session are held back so that its barrier can be lifted (docs/design/session-order.md)."""

from pairing.sessions.turns import Holds


def looks_until_due(holds, near=("a",), barred=("a",)):
    for look in range(1, 1000):
        if holds.due(near, barred):
            return look
    raise AssertionError("never due")


def test_a_session_is_held_back_after_five_looks_and_then_ever_more_seldom():
    holds = Holds()
    assert [looks_until_due(holds) for _ in range(7)] == [5, 10, 20, 40, 80, 80, 80]


def test_looks_count_only_one_after_the_other():
    holds = Holds()
    for _ in range(4):
        assert not holds.due(["a"], ["a"])
    assert not holds.due([], ["a"])
    assert looks_until_due(holds) == 5


def test_a_new_barrier_begins_anew():
    holds = Holds()
    assert looks_until_due(holds) == 5
    holds.due([], [])
    assert looks_until_due(holds) == 5


def test_each_session_is_counted_for_itself():
    holds = Holds()
    holds.due(["a"], ["a", "b"])
    for _ in range(3):
        assert holds.due(["a", "b"], ["a", "b"]) == []
    assert holds.due(["a", "b"], ["a", "b"]) == ["a"]
    assert holds.due(["a", "b"], ["a", "b"]) == ["b"]
