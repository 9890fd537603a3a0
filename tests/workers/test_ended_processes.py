"""An entity does not stay failing because the process that saw it fail has ended."""

import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import redis

from dashboard.actions.events import REASON, _event
from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.pairs.sync import sync
from dashboard.fleet.state import catching_up
from dashboard.models import EntityHealth
from pairing.events import Event
from pairing.fleet.presence import Presence, Presences
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from tests import forked
from workers import watchers

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


def test_a_process_that_ended_leaves_no_failing_entity_behind(shared, fleet):
    Presences(shared).leave(SENDER)
    assert refreshed() == "healthy"
    assert shared.health()["orders"].state == "healthy"
    (event,) = reported(fleet)
    assert (event.kind, event.entity, event.reason) == ("recovered", "orders", REASON)


def test_a_process_that_was_killed_leaves_none_behind_once_it_is_silent(shared, fleet):
    fleet.hset(
        "pairing:{contoso}:processes",
        SENDER,
        '{"at": 0, "report": {"sends": true, "disputed": [], "rotation": [], "clock": 0, "heard": [], '
        '"gateway": null}}',
    )
    assert refreshed() == "healthy"


def test_what_a_living_process_reports_stays(shared, fleet):
    assert refreshed() == "failing"
    assert not reported(fleet)


def test_a_report_that_just_came_stays(shared):
    """The process may not have reported its presence yet."""
    Presences(shared).leave(SENDER)
    watchers.refresh()
    watchers.refresh()
    assert shared.health()["orders"].state == "failing"


def test_a_failover_ends_only_by_a_ping_or_an_operator(shared):
    shared.publish(health("failed_over", since=BEGAN + timedelta(minutes=1)))
    Presences(shared).leave(SENDER)
    assert refreshed() == "failed_over"


def test_a_process_that_was_only_late_still_fails_the_entity_over(shared):
    failing = shared.health()["orders"]
    Presences(shared).leave(SENDER)
    assert refreshed() == "healthy"
    late = health("failed_over", since=BEGAN + timedelta(seconds=5), version=failing.version)
    assert shared.publish(late)[0]
    assert refreshed() == "failed_over"


@pytest.mark.parametrize("reads", [1, 2], ids=["after the first read", "inside the transaction"])
def test_a_failover_in_the_moment_of_the_decision_stands_without_an_event(shared, fleet, monkeypatch, reads):
    """The event would end the outage in the history although the entity is failed over."""
    Presences(shared).leave(SENDER)
    read, done = SharedState.health_of, count(1)

    def health_of(state: SharedState, path: str) -> SharedHealth | None:
        found = read(state, path)
        if next(done) == reads:
            shared.publish(health("failed_over", since=BEGAN + timedelta(seconds=5)))
        return found

    monkeypatch.setattr(SharedState, "health_of", health_of)
    assert refreshed() == "failed_over"
    assert not reported(fleet)
    assert next(done) == 3


ENDS_A_FAILURE = """
import os, signal, sys
import redis
from redis.client import Pipeline
from pairing.events import Event
from pairing.fleet.shared_state import SharedState

url, event, moment = sys.argv[1:]
execute = Pipeline.execute

def killed(pipeline, *args, **options):
    if moment == "after":
        execute(pipeline, *args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

shared = SharedState(redis.Redis.from_url(url, decode_responses=True), "contoso")
failing = shared.health()["orders"]
Pipeline.execute = killed
shared.end_failure(failing, "ended", process="another", event=Event.from_json(event))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "state", "events"), [("before", "failing", 0), ("after", "healthy", 1)])
def test_a_worker_that_is_killed_changes_and_reports_both_or_nothing(shared, fleet, redis_url, moment, state, events):
    Presences(shared).leave(SENDER)
    event = _event("contoso", "orders", "recovered", REASON).to_json()
    ended = forked.run(("-c", ENDS_A_FAILURE, redis_url, event, moment), {})
    assert ended.returncode == -signal.SIGKILL
    assert (shared.health()["orders"].state, len(reported(fleet))) == (state, events)
    assert refreshed() == "healthy"
    assert len(reported(fleet)) == 1
