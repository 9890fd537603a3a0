"""Workers know what is failed over without reading it again and again (docs/specification.md, section 7)."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from django.db import OperationalError, connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from dashboard.models import Pair
from pairing.fleet.coordination import SharedState
from workers import pingers, slices


def test_an_entity_is_watched_while_it_is_failed_over(fleet):
    shared = SharedState(fleet, "contoso")
    assert pingers.away("contoso") == set()
    for path in ("orders", "payments"):
        shared.fail_over(path, "drill", operator="ada", process="web")
    assert pingers.away("contoso") == {"orders", "payments"}
    shared.mark_healthy("orders", operator="ada", process="web")
    assert pingers.away("contoso") == {"payments"}


def test_a_redis_that_has_forgotten_has_nothing_failed_over(fleet):
    SharedState(fleet, "contoso").fail_over("orders", "drill", operator="ada", process="web")
    assert pingers.away("contoso") == {"orders"}
    fleet.flushall()
    assert pingers.away("contoso") == set()


def test_pings_that_wait_for_answers_keep_no_other_from_being_begun(monkeypatch):
    """The client has its places; threads of silent entities take none of them from the rest."""
    ticks = iter([False] * 20 + [True])
    due = SimpleNamespace(ping_due=lambda now: True)
    connected = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: 0.0), pair_state=SimpleNamespace(entities=lambda: [due])
    )
    started: list[str] = []

    def start_thread(name: str, *_: object) -> SimpleNamespace:
        started.append(name)
        return SimpleNamespace(is_alive=lambda: True)

    monkeypatch.setattr(pingers, "slice_of", lambda name: nullcontext(SimpleNamespace(wait=lambda _: next(ticks))))
    monkeypatch.setattr(pingers, "pairs", lambda: {"contoso"})
    monkeypatch.setattr(pingers, "away", lambda pair: {"orders"})
    monkeypatch.setattr(pingers, "client", lambda pair: connected)
    monkeypatch.setattr(pingers, "start_thread", start_thread)
    pingers.keep_pinging("contoso")
    assert started == ["ping"] * 20


@pytest.fixture
def pinged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[Any]]:
    """Runs a ping on a thread of its own that then stores its result, and gives that thread's connections."""

    def run(store: Callable[[], object]) -> list[Any]:
        used: list[Any] = []

        def catch_up(pair: str, paths: set[str]) -> None:
            assert (pair, paths) == ("contoso", {"orders"})
            used.append(connections["default"])
            store()

        answered = SimpleNamespace(ping_due=lambda: [SimpleNamespace(path="orders")])
        monkeypatch.setattr(pingers, "client", lambda pair: answered)
        monkeypatch.setattr(pingers, "catch_up", catch_up)
        monkeypatch.setattr(DatabaseWrapper, "is_in_memory_db", lambda self: False)  # those are never closed
        slices.start_thread("ping", pingers.ping, "contoso").join(60)
        return used

    return run


@pytest.mark.django_db(transaction=True)
def test_a_ping_leaves_no_connection_to_the_database_open(pinged, fleet):
    """Not even until the garbage collector runs: a database has a limited number of them."""
    (used,) = pinged(Pair.objects.exists)
    assert used is not connections["default"]
    assert used.connection is None


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_one_line_in_the_log(pinged, fleet):
    def store() -> None:
        raise OperationalError("the connection\nis closed")

    with structlog.testing.capture_logs() as logged:
        pinged(store)
    assert [(one["event"], one["thread"], one["problem"]) for one in logged] == [
        ("the database does not answer", "ping", "the connection is closed")
    ]
