"""An entity does not stay failing because the process that saw it fail has ended."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
import redis

from dashboard.fleet import catching_up
from dashboard.fleet.pairs_file import PairConfig
from dashboard.fleet.sync import sync
from dashboard.models import EntityHealth, FailoverEvent
from pairing.events import Event
from pairing.fleet.presence import Presence, Presences
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from workers import ended_processes, watchers

pytestmark = pytest.mark.django_db
SENDER = "host:1:aaaa"
BEGAN = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def shared(fleet: redis.Redis, pairs: Mapping[str, PairConfig], monkeypatch: pytest.MonkeyPatch) -> SharedState:
    """The pair as reported by one sender, which saw `orders` fail."""
    list(sync(pairs))
    monkeypatch.setattr(watchers, "pairs", lambda: pairs)
    catching_up._progress.clear()
    state = SharedState(fleet, "contoso")
    Presences(state).report(SENDER, Presence(sends=True))
    state.publish(health("failing"))
    return state


def health(state: str, *, since: datetime = BEGAN, process: str = SENDER, version: int = 0) -> SharedHealth:
    return SharedHealth("orders", state, since, "no answer", None, None, "organic", version, process)


def refreshed() -> str:
    """The state in the database after a refresh, a while after the report was stored."""
    watchers.refresh()
    EntityHealth.objects.filter(path="orders").update(applied_at=datetime.now(UTC) - timedelta(minutes=1))
    watchers.refresh()
    return EntityHealth.objects.get(path="orders").state


def reported(fleet: redis.Redis) -> list[Event]:
    return [Event.from_json(fields["event"]) for _, fields in fleet.xrange("pairing:events")]


def test_a_process_that_ended_leaves_no_failing_entity_behind(shared: SharedState, fleet: redis.Redis) -> None:
    Presences(shared).leave(SENDER)
    assert refreshed() == "healthy"
    assert shared.health()["orders"].state == "healthy"
    (event,) = reported(fleet)
    assert (event.kind, event.entity, event.reason) == ("recovered", "orders", ended_processes.REASON)


def test_a_process_that_was_killed_leaves_none_behind_once_it_is_silent(
    shared: SharedState, fleet: redis.Redis
) -> None:
    fleet.hset("pairing:{contoso}:processes", SENDER, '{"at": 0, "told": {"sends": true, "disputed": []}}')
    assert refreshed() == "healthy"


def test_what_a_living_process_reports_stays(shared: SharedState, fleet: redis.Redis) -> None:
    assert refreshed() == "failing"
    assert not reported(fleet)


def test_a_report_that_just_came_stays(shared: SharedState) -> None:
    """The process may not have reported its presence yet."""
    Presences(shared).leave(SENDER)
    watchers.refresh()
    watchers.refresh()
    assert shared.health()["orders"].state == "failing"


def test_a_failover_ends_only_by_a_ping_or_an_operator(shared: SharedState) -> None:
    shared.publish(health("failed_over", since=BEGAN + timedelta(minutes=1)))
    Presences(shared).leave(SENDER)
    assert refreshed() == "failed_over"


def test_a_process_that_was_only_late_still_fails_the_entity_over(shared: SharedState) -> None:
    failing = shared.health()["orders"]
    Presences(shared).leave(SENDER)
    assert refreshed() == "healthy"
    late = health("failed_over", since=BEGAN + timedelta(seconds=5), version=failing.version)
    assert shared.publish(late) is not None
    assert refreshed() == "failed_over"


def test_whoever_is_killed_in_between_reports_it_once_in_the_end(
    shared: SharedState, fleet: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    Presences(shared).leave(SENDER)

    def killed(*_: object, **__: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(SharedState, "exchange", killed)
        with pytest.raises(SystemExit):
            refreshed()
    assert shared.health()["orders"].state == "failing"
    assert refreshed() == "healthy"
    first, again = reported(fleet)
    assert first.id == again.id
    catching_up.projection.record_events([first, again])
    assert FailoverEvent.objects.count() == 1
