"""How fast the syphon goes, as options and operators want it (docs/syphon.md, "Pace")."""

import pytest

from pairing.drain.shared.pacing import Pacing


def gone(pacing: Pacing, path: str, queue: str, *, until_s: float) -> int:
    """How many messages of an endless supply went in that time."""
    count = now = 0
    while now < until_s:
        allowance = pacing.take(path, queue, 100, now)
        count += allowance.count
        assert (allowance.count > 0) != (allowance.wait_s > 0)
        now += max(allowance.wait_s, 0.01)
    return count


def test_a_rate_is_kept_over_time_and_for_each_destination():
    pacing = Pacing(max_rate=10)
    assert 100 <= gone(pacing, "orders", "q0", until_s=10) <= 111
    assert pacing.take("payments", "q0", 5, 10).count == 5


def test_what_was_allowed_and_did_not_go_may_go_later():
    pacing = Pacing(max_rate=10)
    assert pacing.take("orders", "q0", 100, 0.0).count == 10
    pacing.give_back("orders", "q0", 9)
    assert pacing.take("orders", "q0", 100, 0.0).count == 9


def test_case_does_not_distinguish_targets():
    pacing = Pacing()
    pacing.obey({"Orders": 10}, 1.0)
    assert pacing.take("oRDERS", "q0", 100, 0).count == 10


@pytest.mark.parametrize(
    ("paces", "max_rate", "share", "expected"),
    [
        pytest.param({}, None, 1.0, 100, id="without a rate everything may go"),
        pytest.param({}, 10, 1.0, 10, id="the option alone"),
        pytest.param({"orders": 4}, 10, 1.0, 4, id="an operator may be slower than the option"),
        pytest.param({"orders": 40}, 10, 1.0, 10, id="and never faster"),
        pytest.param({"orders": 8}, None, 0.5, 4, id="half of the queues, half of the rate"),
        pytest.param({"q0": 8}, None, 0.5, 8, id="one queue is served by one process: its rate is whole"),
        pytest.param({"*": 8}, None, 0.5, 4, id="the pair's is shared"),
        pytest.param({"*": 6, "orders": 3, "q0": 5}, None, 1.0, 3, id="the slowest limit holds"),
        pytest.param({"payments": 1, "q1": 1}, None, 1.0, 100, id="other targets do not matter"),
    ],
)
def test_the_slowest_of_all_limits_holds(paces, max_rate, share, expected):
    pacing = Pacing(max_rate)
    pacing.obey(paces, share)
    assert pacing.take("orders", "q0", 100, 0).count == expected


def test_the_limit_of_a_pair_is_one_for_all_its_entities():
    pacing = Pacing()
    pacing.obey({"*": 10}, 1.0)
    assert pacing.take("orders", "q0", 7, 0).count == 7
    assert pacing.take("payments", "q1", 7, 0).count == 3


def test_only_the_limit_of_a_destination_lets_the_others_pass():
    pacing = Pacing()
    pacing.obey({"*": 1}, 1.0)
    pacing.take("orders", "q0", 1, 0)
    assert not pacing.take("orders", "q0", 1, 0).is_own
    pacing.obey({"orders": 1}, 1.0)
    pacing.take("orders", "q0", 1, 10)
    assert pacing.take("orders", "q0", 1, 10).is_own


def test_to_ask_takes_nothing():
    pacing = Pacing(max_rate=10)
    assert pacing.allowance("orders", "q0", 100, 0).count == 10
    assert pacing.take("orders", "q0", 100, 0).count == 10
    assert pacing.allowance("orders", "q0", 100, 0).count == 0
