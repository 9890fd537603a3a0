"""Syphons that receive and do not deliver are reported with the worker's heartbeat."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pairing.drain.backlog_queue import Progress
from pairing.drain.ledger import Ledger
from workers import syphons

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUEUE = "contoso/x-servicebus-transfer/0"


def running(monkeypatch: pytest.MonkeyPatch, **reported: object) -> None:
    progress = Progress(QUEUE, Ledger(QUEUE), state="moving", last_error="orders: it refused the key")
    for name, value in reported.items():
        setattr(progress, name, value)
    monkeypatch.setattr(syphons, "_running", {"contoso": SimpleNamespace(progress={QUEUE: progress})})


def test_a_syphon_that_delivers_nothing_for_more_than_a_minute_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch, hindered_since=NOON)
    assert syphons.hindered(NOON + timedelta(seconds=60)) == {}
    assert syphons.hindered(NOON + timedelta(seconds=61)) == {
        QUEUE: "receives and delivers nothing since 12:00:00 UTC: orders: it refused the key"
    }


def test_one_that_delivers_or_has_stopped_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch)
    assert syphons.hindered(NOON + timedelta(hours=1)) == {}
    running(monkeypatch, hindered_since=NOON, state="stopped")
    assert syphons.hindered(NOON + timedelta(hours=1)) == {}
