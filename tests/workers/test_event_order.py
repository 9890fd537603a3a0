"""Events of one entity are in their order in the database, whatever the clocks of those who reported them say."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import redis
from django.contrib.auth import get_user_model

from dashboard.access.audited import Request
from dashboard.access.idempotency import UNSEEN_END
from dashboard.actions import entities, events
from dashboard.actions.entities import FAIL_OVER
from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.fleet.pairs.sync import sync
from dashboard.models import AuditEntry, FailoverEvent, Pair
from pairing.events import Event
from pairing.fleet.clock import FleetClock
from pairing.fleet.coordination import EVENTS, RedisCoordination
from tests.pace import eventually
from tests.workers.test_collectors import collect
from workers.streams import Reader

pytestmark = pytest.mark.django_db


class Process:
    """An application on a machine whose clock is off."""

    def __init__(self, url: str, name: str, ahead_s: float) -> None:
        self.ahead_s, self.name = ahead_s, name
        self.coordination = RedisCoordination(url, "contoso", name)
        self.coordination._clock = FleetClock(lambda: time.time() + ahead_s)
        self.coordination.start(lambda change: None)

    def sees(self, kind: str) -> None:
        now = datetime.now(UTC) + timedelta(seconds=self.ahead_s)
        self.coordination.report(Event(uuid4().hex, now, "contoso", "orders", kind, "r", self.name))


@pytest.fixture
def reader(fleet: redis.Redis, pairs: dict[str, PairConfig]) -> Reader:
    list(sync(pairs))
    return Reader(fleet, "pairing:events", "event", "test")


@pytest.fixture
def join(fleet: redis.Redis, redis_url: str) -> Iterator[Callable[[str, float], Process]]:
    joined: list[Process] = []

    def one(name: str, ahead_s: float) -> Process:
        joined.append(Process(redis_url, name, ahead_s))
        eventually(lambda: joined[-1].coordination.is_connected)
        return joined[-1]

    yield one
    for process in joined:
        process.coordination.close()


def a_while() -> None:
    """Lets more time pass than the uncertainty of a clock on a busy machine, because the test compares times."""
    threading.Event().wait(0.3)


def stored() -> list[tuple[str, str]]:
    """Oldest first, as pages tell them."""
    return list(FailoverEvent.objects.filter(entity="orders").reverse().values_list("kind", "process"))


@pytest.mark.parametrize("ahead_s", [3.0, -3.0])
def test_a_reporter_whose_clock_is_three_seconds_off_turns_no_events_round(join, fleet, reader, ahead_s):
    off, right = join("off", ahead_s), join("right", 0.0)
    began = datetime.now(UTC)
    reported = []
    for count, (process, kind) in enumerate(
        [(right, "failing"), (off, "failing"), (off, "failed_over"), (right, "recovered"), (off, "failing")], 1
    ):
        a_while()
        process.sees(kind)
        reported.append((kind, process.name))
        eventually(lambda wanted=count: fleet.xlen(EVENTS) == wanted)
    collect(reader)
    assert stored() == reported
    times = FailoverEvent.objects.values_list("time", flat=True)
    assert all(began <= at <= datetime.now(UTC) + timedelta(seconds=0.5) for at in times)


def test_an_operators_word_is_reported_by_the_fleets_clock_too(join, fleet, reader, monkeypatch):
    """The web server's own clock is off here."""
    right = join("right", 0.0)
    right.sees("failing")
    eventually(lambda: fleet.xlen(EVENTS) == 1)
    a_while()
    monkeypatch.setattr(events.timezone, "now", lambda: datetime.now(UTC) - timedelta(seconds=3))
    ann = get_user_model().objects.create_superuser("ann")
    FAIL_OVER.run(Request(ann, Pair.objects.get(name="contoso"), "orders", "drill", "r1"))
    collect(reader)
    assert [kind for kind, _ in stored()] == ["failing", "forced"]


@pytest.mark.parametrize("is_one", [True, False], ids=["of one entity", "of several"])
def test_an_operators_word_is_reported_also_if_its_process_dies_before_the_commit(fleet, reader, monkeypatch, is_one):
    ann = get_user_model().objects.create_superuser("ann")
    pair = Pair.objects.get(name="contoso")

    def click(request_id: str) -> str:
        request = Request(ann, pair, "orders", "drill", request_id)
        return (FAIL_OVER.run(request) if is_one else FAIL_OVER.run_on(request, ["orders"])).outcome

    with monkeypatch.context() as power:
        power.setattr(entities.projection, "record_events", dies)
        with pytest.raises(OSError, match="power fails"):
            click("1")
    assert not FailoverEvent.objects.exists()

    collect(reader)
    AuditEntry.objects.update(at=datetime.now(UTC) - 2 * UNSEEN_END)
    assert (click("1"), click("2")) == ("unchanged", "unchanged")

    reported = FailoverEvent.objects.get()
    assert (reported.kind, reported.entity, reported.operator, reported.reason) == ("forced", "orders", "ann", "drill")


def test_an_operators_word_is_stored_once_though_it_is_reported_twice(fleet, reader):
    ann = get_user_model().objects.create_superuser("ann")
    pair = Pair.objects.get(name="contoso")
    FAIL_OVER.run_on(Request(ann, pair, "*", "drill", "1"), ["orders", "payments"])
    assert FailoverEvent.objects.count() == fleet.xlen(EVENTS) == 2

    collect(reader)

    assert FailoverEvent.objects.count() == 2


def dies(_: object) -> None:
    raise OSError("power fails")


def test_an_event_that_waited_for_redis_is_reported_at_its_own_time(join, fleet, reader):
    """Its place in the stream is not its place in time."""
    off, right = join("off", -3.0), join("right", 0.0)
    off.coordination.is_connected = False
    with off.coordination._lock:  # its outbox is held up from here on
        early = Event(uuid4().hex, datetime.now(UTC) - timedelta(seconds=3), "contoso", "orders", "failing", "r", "off")
        a_while()
        right.sees("recovered")
        eventually(lambda: fleet.xlen(EVENTS) == 1)
    off.coordination.report(early)
    eventually(lambda: fleet.xlen(EVENTS) == 2)
    collect(reader)
    assert [kind for kind, _ in stored()] == ["failing", "recovered"]
