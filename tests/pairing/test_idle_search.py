"""What a lease holder does while its backlog queue is empty: a ledger with gaps is stored again every 30 s, because a
predecessor may leave one that fills them (docs/design/leases-and-fencing.md). The test moves the only clock."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from pairing.drain.backlog_queue import Kept, Progress
from pairing.drain.ledger import Ledger
from pairing.drain.queue_state import QueueState
from pairing.drain.search import Search
from pairing.drain.shared import stored_ledger
from pairing.drain.shared.stored_ledger import StoredLedger
from pairing.fleet.shared_state import SharedState
from tests.pairing.steps import Keep, Peek, Queue, answered

QUEUE, LEFT = "queue-0", "pairing:{contoso}:left-ledgers:queue-0"
START = datetime(2026, 11, 22, tzinfo=UTC)
AGAIN_S = 30.0


def ledger_of(*numbers: int) -> Ledger:
    ledger = Ledger(QUEUE, "today")
    for number in numbers:
        ledger.close(number, "restored")
    return ledger


@dataclass
class Holder:
    """A process that holds the lease of an empty queue; `kept_at` are the times at which it stored its ledger."""

    ledger: Ledger
    stored: StoredLedger | None = None
    now: float = 0.0
    kept_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        queue = QueueState(Queue(), Progress(QUEUE, self.ledger), lambda: self.now)
        queue.scanned_at = 0.0  # the queue was searched just now
        utc_now = lambda: START + timedelta(seconds=self.now)  # noqa: E731
        self.search = Search(queue, lambda *_: None, lambda: True, lambda: self.now, utc_now)

    def idles(self, seconds: float) -> None:
        """A receive that returns nothing each second."""
        until = self.now + seconds
        while self.now < until:
            self.now += 1.0
            answered(self.search.idle(), self._perform)

    def _perform(self, action: Any) -> Any:
        if isinstance(action, Peek):
            return []
        assert isinstance(action, Keep)
        self.kept_at.append(self.now)
        return Kept.STORED if self.stored is None else self.stored.keep(action.ledger)


def test_the_gaps_wait_for_settlements_in_doubt() -> None:
    """They are resolved first, every five seconds, and close a gap by themselves."""
    holder = Holder(ledger_of(1, 3))
    holder.ledger.drained(START)
    holder.ledger.pending[2] = "restored"
    holder.idles(4 * AGAIN_S)
    assert holder.ledger.gaps() == []
    assert holder.kept_at == [6.0]  # what has become of them, and no gap afterwards


def test_a_ledger_that_is_left_while_the_holder_idles_fills_its_gaps_within_thirty_seconds(
    shared: SharedState, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet: Any = SimpleNamespace(shared=shared, is_connected=True)
    late = StoredLedger(fleet, "host:1:a", QUEUE, "today", shared.acquire_lease(QUEUE, "late", 60), lambda: True)
    shared.release_lease(QUEUE, "late")
    stored = StoredLedger(fleet, "host:1:a", QUEUE, "today", shared.acquire_lease(QUEUE, "holder", 60), lambda: True)
    holder = Holder(ledger_of(1, 2, 5), stored)
    monkeypatch.setattr(stored_ledger, "time", SimpleNamespace(monotonic=lambda: holder.now))
    holder.ledger.drained(START)

    holder.idles(AGAIN_S + 5)
    assert stored.read().gaps() == [3, 4]
    assert late.keep(ledger_of(3, 4)) == "refused", "it has lost its lease"
    assert redis_client.llen(LEFT) == 1

    holder.idles(AGAIN_S)
    assert holder.ledger.gaps() == []
    assert stored.read().gaps() == []
    assert stored.read().count("restored") == 5
    assert redis_client.llen(LEFT) == 0
    before = list(holder.kept_at)
    holder.idles(4 * AGAIN_S)
    assert holder.kept_at == before
