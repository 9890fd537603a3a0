"""Who disputes a failover, and how many there are: what "failed over in 1 of N" is counted from.

docs/specification.md, section 11.
"""

import time

import pytest
import redis

from pairing import SendAvailabilityOptions
from pairing.fleet.coordination import RedisCoordination, SharedState
from pairing.fleet.presence import Heard, Presence, Presences, ReportedStates, reported_states
from pairing.membership import Fleet
from pairing.pair import GuardedEntity, Pair
from pairing.testing import ManualClock

KEY = "pairing:{contoso}:processes"


@pytest.fixture
def presences(redis_client: redis.Redis) -> Presences:
    return Presences(SharedState(redis_client, "contoso"))


def test_a_failover_that_all_but_one_dispute_holds_in_one_of_them() -> None:
    lonely, other = Presence(sends=True), Presence(sends=True, disputed=("orders",))
    agreed = reported_states([lonely, other, other, Presence(sends=False)])
    assert (agreed.failed_over_in("orders"), agreed.processes) == (1, 3)
    assert agreed.failed_over_in("payments") == 3


def test_a_fleet_in_which_nobody_sends_has_no_report() -> None:
    assert reported_states([Presence(sends=False)]) == ReportedStates(0, {})


def test_a_process_is_there_while_it_reports_and_until_it_leaves(presences: Presences) -> None:
    heard = Heard("orders", 1_790_000_000_123, 0.042)
    here = Presence(sends=True, disputed=("orders",), heard=(heard,))
    presences.report("host:1:aaaa", here)
    assert presences.living() == {"host:1:aaaa": here}
    presences.leave("host:1:aaaa")
    assert presences.living() == {}


def test_a_process_that_has_fallen_silent_is_not_counted_and_after_an_hour_forgotten(
    presences: Presences, redis_client: redis.Redis
) -> None:
    redis_client.hset(KEY, "host:0:dead", '{"at": 1000, "report": {"sends": true, "disputed": []}}')
    presences.report("host:1:aaaa", Presence(sends=True))
    assert list(presences.living()) == ["host:1:aaaa"]
    assert redis_client.hkeys(KEY) == ["host:1:aaaa"]


def test_a_client_reports_whether_it_sends_and_what_it_disputes(redis_url: str, presences: Presences) -> None:
    pair = Pair(SendAvailabilityOptions(), "contoso", "host:1:aaaa", ManualClock())
    fleet = Fleet(pair, redis_url)
    assert isinstance(fleet.coordination, RedisCoordination)
    assert fleet.coordination.presence() == Presence(sends=False)
    GuardedEntity(pair, "orders")
    pair.availability("orders").disputed = True
    fleet.coordination._reconcile()
    assert presences.living() == {"host:1:aaaa": Presence(sends=True, disputed=("orders",))}
    fleet.close()


def test_a_client_that_is_closed_is_not_counted_any_more(redis_url: str, presences: Presences) -> None:
    coordination = RedisCoordination(redis_url, "contoso", "host:1:aaaa")
    coordination._reconcile()
    coordination.is_connected = True
    assert presences.living()
    coordination._is_closing = True
    coordination._write()
    assert presences.living() == {}
    coordination.close()


def test_a_reader_learns_how_far_the_clock_of_a_process_is_ahead(
    presences: Presences, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr("pairing.fleet.presence.time.time", lambda: real() + 90)

    presences.report("host:1:aaaa", Presence(sends=True))

    ahead_s = presences.living()["host:1:aaaa"].ahead_s
    assert ahead_s == pytest.approx(90, abs=2)


def test_a_process_reports_how_soon_a_forced_failover_reached_it(
    redis_url: str, redis_client: redis.Redis, presences: Presences
) -> None:
    coordination = RedisCoordination(redis_url, "contoso", "host:1:aaaa")
    coordination._reconcile()
    forced = SharedState(redis_client, "contoso").fail_over("orders", "a drill", operator="ada", process="host:2:bbbb")
    coordination._read(forced.to_json())
    coordination._reconcile()

    (heard,) = presences.living()["host:1:aaaa"].heard
    coordination.close()
    assert (heard.path, heard.version) == ("orders", forced.version)
    assert 0 <= heard.after_s < 60
