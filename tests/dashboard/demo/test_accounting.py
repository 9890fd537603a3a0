"""The demo's accounts: a message is missing only if it can be nowhere else."""

import pytest
import redis

from dashboard.demo.delivery_proof import Bookkeeper, Held


class Accounts:
    """A bookkeeper with a clock of its own, a Redis, and namespaces that hold what they are asked to."""

    def __init__(self, client: redis.Redis) -> None:
        self.client, self.now, self.held = client, 100.0, Held({}, 0)
        self.keeper = Bookkeeper(lambda: self.now)

    def mark(self, name: str, *numbers: int, queue: str = "orders") -> None:
        for number in numbers:
            self.client.setbit(f"demo:{{{queue}}}:{name}", number, 1)

    def close(self):
        return self.keeper.close(["orders", "payments"], self.client, lambda: self.held)


@pytest.fixture
def accounts(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield Accounts(client)


def test_accepted_and_received_are_counted_by_queue_and_in_all(accounts):
    accounts.mark("accepted", *range(20))
    accounts.mark("received", *range(20))
    accounts.mark("accepted", 3, queue="payments")
    accounts.client.set("demo:{orders}:refused", 7)
    accounts.client.set("demo:{payments}:duplicates", 2)

    closed = accounts.close()

    orders, payments = closed.accounts
    assert (orders.accepted, orders.received, orders.on_the_way, orders.refused) == (20, 20, 0, 7)
    assert (payments.accepted, payments.received, payments.on_the_way, payments.duplicates) == (1, 0, 1, 2)
    assert (closed.total.accepted, closed.total.refused, closed.total.duplicates) == (21, 7, 2)


def test_what_is_nowhere_after_five_seconds_is_missing(accounts):
    accounts.mark("accepted", 1, 2)
    accounts.close()
    accounts.now += 4.9
    assert accounts.close().total.missing == 0
    accounts.now += 0.1

    closed = accounts.close()

    assert (closed.total.on_the_way, closed.total.missing) == (0, 2)
    assert closed.accounts[0].missing == 2


@pytest.mark.parametrize("held", [Held({"orders": 2}, 0), Held({}, 2), Held({"orders": 1}, 1)])
def test_what_the_namespaces_hold_is_on_the_way_however_long(accounts, held):
    accounts.mark("accepted", 1, 2)
    accounts.held = held
    for _ in range(100):
        accounts.now += 5
        closed = accounts.close()

    assert (closed.total.on_the_way, closed.total.missing) == (2, 0)


def test_one_message_missing_among_many_held_is_reported(accounts):
    accounts.mark("accepted", *range(10))
    accounts.held = Held({"orders": 4}, 5)
    accounts.close()
    accounts.now += 6

    assert accounts.close().total.missing == 1


def test_steady_traffic_is_never_missing(accounts):
    for number in range(200):
        accounts.mark("accepted", number)
        if number >= 3:
            accounts.mark("received", number - 3)
        accounts.now += 2

        assert accounts.close().total.missing == 0


def test_a_message_received_after_all_is_missing_no_longer(accounts):
    accounts.mark("accepted", 1)
    accounts.close()
    accounts.now += 6
    assert accounts.close().total.missing == 1

    accounts.mark("received", 1)

    assert accounts.close().total.missing == 0
