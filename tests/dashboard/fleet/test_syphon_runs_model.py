"""Random lives of the runs of syphons in the database: leases of two queues move between processes and expire, holders
drain, workers look, and some of them are frozen between any two of their steps, so that what they have read is old when
they write it. What decides is dashboard/fleet/state/syphon_runs.py; leases, ledgers and the clock are models.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.fleet.state import ledgers, syphon_runs
from dashboard.models import SyphonRun
from pairing.drain.ledger import Ledger
from tests.dashboard.conftest import NOW
from tests.selection import lives

QUEUES = tuple(f"contoso/x-servicebus-transfer/{number}" for number in range(2))
HOLDERS = ("host:1:aaaa", "host:2:bbbb", "host:3:cccc")
LOOK_S = 5.0
Step = Callable[[], object]


@dataclass
class Fleet:
    """The truth: who holds which queue since when, and the ledger of each queue."""

    now: datetime = NOW
    leases: dict[str, str] = field(default_factory=dict)
    held: dict[tuple[str, str], list[tuple[datetime, datetime | None]]] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    frozen: list[list[Step]] = field(default_factory=list)
    """What is left to do of the looks of workers that are frozen."""
    runs: list[SyphonRun] | None = None
    """Those in the database, in their order; None where they may have changed since they were read."""

    def lease(self, queue: str, holder: str | None) -> None:
        """It moves to this process, or expires."""
        if (before := self.leases.pop(queue, None)) is not None:
            times = self.held[queue, before]
            times[-1] = times[-1][0], self.now
        if holder is not None:
            self.leases[queue] = holder
            self.held.setdefault((queue, holder), []).append((self.now, None))

    def drain(self, queue: str, count: int) -> None:
        """The holder drains so many messages and stores its ledger."""
        if (holder := self.leases.get(queue)) is None:
            return
        ledger = self.ledgers.setdefault(queue, Ledger(queue, "2026-11-01T00:00:00Z"))
        ledger.reporter = holder
        first = self.drained(queue) + 1
        for number in range(first, first + count):
            ledger.see(number, self.now)
            ledger.close(number, "restored")

    def drained(self, queue: str) -> int:
        return self.ledgers[queue].count("restored") if queue in self.ledgers else 0

    def look(self) -> list[Step]:
        """What a worker does every five seconds; leases and ledgers are read now, each step is done when it is."""
        at, leases = self.now, dict(self.leases)
        reported = {queue: json.dumps(ledger.to_json()) for queue, ledger in self.ledgers.items()}
        return [
            lambda: syphon_runs.look("contoso", leases, at),
            lambda: ledgers.keep("contoso", reported, at),
            lambda: syphon_runs.seen("contoso", at),
        ]

    def work(self, steps: list[Step], count: int) -> None:
        """So many of them; a worker that does not do all is frozen before the rest. Nothing else writes runs."""
        if steps[:count]:
            self.runs = None
        for step in steps[:count]:
            step()
        if steps[count:]:
            self.frozen.append(steps[count:])

    def runs_of(self, queue: str) -> list[SyphonRun]:
        if self.runs is None:
            self.runs = list(SyphonRun.objects.order_by("started_at", "id"))
        return [run for run in self.runs if run.queue == queue]

    def held_at(self, run: SyphonRun) -> bool:
        times = self.held.get((run.queue, run.holder), [])
        return any(began <= run.started_at and (over is None or run.started_at <= over) for began, over in times)


queues = st.sampled_from(QUEUES)
events = st.one_of(
    st.tuples(st.just("lease"), queues, st.sampled_from((None, *HOLDERS))),
    st.tuples(st.just("drain"), queues, st.integers(1, 40)),
    st.tuples(st.just("look"), st.integers(0, 3)),
    st.tuples(st.just("thaw"), st.integers(0, 3), st.integers(1, 3)),
    st.tuples(st.just("time"), st.integers(1, 40)),
)


@settings(max_examples=lives(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=30))
def test_runs_of_syphons_are_those_of_the_leases_and_count_no_message_twice(pair, then):
    fleet = Fleet()
    with transaction.atomic():
        for event in then:
            happens(fleet, *event)
            fleet.now += timedelta(seconds=0.5)
            for queue in QUEUES:
                holds(fleet, queue)
        for steps in (fleet.look(), *fleet.frozen, fleet.look()):  # the last frozen ones thaw between two sound looks
            fleet.work(steps, len(steps))
            fleet.now += timedelta(seconds=LOOK_S)
        for queue in QUEUES:
            holds(fleet, queue)
            is_open = [run.holder for run in fleet.runs_of(queue) if run.ended_at is None]
            assert is_open == [holder for one, holder in fleet.leases.items() if one == queue]
        transaction.set_rollback(True)


def happens(fleet: Fleet, event: str, *about: object) -> None:
    match event, *about:
        case "lease", str(queue), (None | str()) as holder:
            fleet.lease(queue, holder)
        case "drain", str(queue), int(count):
            fleet.drain(queue, count)
        case "look", int(count):
            fleet.work(fleet.look(), count)
        case "thaw", int(which), int(count):
            if which < len(fleet.frozen):
                fleet.work(fleet.frozen.pop(which), count)
        case "time", int(seconds):
            fleet.now += timedelta(seconds=seconds)


def holds(fleet: Fleet, queue: str) -> None:
    """At any time: runs of a queue follow each other, each is of a process that held it, and none counts too much."""
    runs = fleet.runs_of(queue)
    for before, after in pairwise(runs):
        assert before.ended_at is not None
        assert before.ended_at <= after.started_at, f"{before.holder} until {before.ended_at}: {after.started_at}"
    assert all(fleet.held_at(run) for run in runs), "a run of a process that did not hold the queue then"
    assert sum(run.moved for run in runs) <= fleet.drained(queue), "a message is counted twice"
