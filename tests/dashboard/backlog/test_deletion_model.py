"""Random lives of the deletion of a queue: an operator cancels, workers are killed, frozen longer than their claim, or
get no answer, at any step; meanwhile messages come, somebody ends the quarantine, the queue is made anew, a process
begins to use it. The row, its claims and the steps are the real ones; the namespace and the clock are models
(docs/design/deleting-queues.md).

The bound: of one run of a worker at most one step is disturbed. Between the proof and the deletion itself nobody else
changes the queue: a namespace cannot delete on a condition, so that nothing can be promised there.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.access.audited import ActionError, Request
from dashboard.backlog import cleanup, deletions
from dashboard.backlog.orphans import QUARANTINED, Proof, Use
from dashboard.fleet.pairs.namespaces import NamespaceError
from dashboard.models import AuditEntry, QueueDeletion
from dashboard.models.backlog import COUNTS
from dashboard.site.redis import RedisError
from tests.dashboard.conftest import NOW
from tests.dashboard.secondary import ORPHAN
from tests.selection import lives

Stage = QueueDeletion.Stage
ACTIVE = "Active"
LONGER_THAN_A_CLAIM = timedelta(seconds=deletions.CLAIM_S + 1)
OUTSIDE = ("message", "reopened", "made anew", "gone", "used", "unused", "cancelled")
KILLS = frozenset({"killed before", "killed after"})
OF_THE_DATABASE = KILLS | {"frozen", "cancelled", "overtaken"}
OF_A_NAMESPACE = OF_THE_DATABASE | {"no answer"}
OF_REDIS = OF_THE_DATABASE | {"redis away"}
DURING = sorted(OF_A_NAMESPACE | OF_REDIS)


class Killed(BaseException):
    """The process dies here."""


@dataclass
class Queue:
    """One backlog queue as a namespace has it."""

    created_at: str
    status: str = ACTIVE
    messages: int = 0


@dataclass
class World:
    """The namespace, the clock and the trouble; what the real code asks for instead of the outside."""

    queue: Queue | None
    now: datetime = NOW
    is_used: bool = False
    trouble: dict[int, str] = field(default_factory=dict)
    """What happens at which step of the run that is going on."""
    step: int = 0
    depth: int = 0
    made: int = 1
    is_cancelled: bool = False
    cancel: Callable[[], None] = lambda: None
    work: Callable[[], None] = lambda: None

    @contextmanager
    def running(self, trouble: dict[int, str]) -> Iterator[None]:
        """A run of a worker or of an operator; only the outermost one is disturbed."""
        self.depth += 1
        if self.depth == 1:
            self.trouble, self.step = trouble, 0
        try:
            yield
        except Killed:
            if self.depth > 1:
                raise
        finally:
            self.depth -= 1

    @contextmanager
    def stepped(self, possible: Collection[str]) -> Iterator[None]:
        """One step of the run, and what happens to it."""
        trouble = ""
        if self.depth == 1:
            self.step += 1
            trouble = self.trouble.get(self.step, "")
        if trouble in possible:
            self.strike(trouble)
        yield
        self.now += timedelta(milliseconds=10)
        if trouble == "killed after" and trouble in possible:
            raise Killed

    def strike(self, trouble: str) -> None:
        match trouble:
            case "killed before":
                raise Killed
            case "no answer":
                raise NamespaceError("No answer.")
            case "redis away":
                raise RedisError("away")
            case "frozen" | "overtaken":
                self.now += LONGER_THAN_A_CLAIM
                if trouble == "overtaken":
                    self.work()
            case "cancelled":
                self.cancel()

    # what the modules ask for -----------------------------------------------------------------------------------------

    def look(self, here: Any, path: str) -> Proof | None:
        with self.stepped(OF_A_NAMESPACE):
            if (found := self.queue) is None:
                return None
            counts = dict.fromkeys(COUNTS, 0) | {"active": found.messages}
            return Proof(path, found.created_at, found.status, counts, found.messages, 0, None, {}, self.now)

    def set_status(self, here: Any, path: str, status: str) -> None:
        with self.stepped(OF_A_NAMESPACE):
            if self.queue is None:
                raise ResourceNotFoundError("gone")
            self.queue.status = status

    def use_of(self, pair: Any, path: str) -> Use:
        with self.stepped(OF_REDIS):
            return Use(served="A live process uses it.") if self.is_used else Use()

    @contextmanager
    def namespace(self, name: str) -> Iterator[Any]:
        yield SimpleNamespace(asked=self.asked)

    @contextmanager
    def asked(self) -> Iterator[Any]:
        yield SimpleNamespace(delete_queue=self.delete_queue)

    def delete_queue(self, path: str) -> None:
        with self.stepped(KILLS):
            row, queue = QueueDeletion.objects.get(), self.queue
            assert not self.is_cancelled, "the operator has cancelled it"
            assert queue.status == QUARANTINED, "a queue is deleted that takes messages"
            assert (queue.created_at, queue.messages) == (row.queue_created_at, row.messages), "another one is deleted"
            assert not self.is_used, "a queue is deleted that a process uses"
            assert row.stage == Stage.DELETING
            self.queue = None

    # what others do ---------------------------------------------------------------------------------------------------

    def happens(self, event: str) -> None:
        match event:
            case "message" if self.queue is not None and self.queue.status == ACTIVE:
                self.queue.messages += 1
            case "reopened" if self.queue is not None:
                self.queue.status = ACTIVE
            case "gone":
                self.queue = None
            case "made anew":
                self.made += 1
                self.queue = Queue(f"{self.made}")
            case "used" | "unused":
                self.is_used = event == "used"
            case "time":
                self.now += timedelta(minutes=1)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """Has the real code ask this world."""
    move = deletions._move

    def use(world: World) -> None:
        clock = SimpleNamespace(now=lambda: world.now)
        for module in (deletions, cleanup):
            monkeypatch.setattr(module, "timezone", clock)
        for name in ("look", "set_status", "use_of", "namespace"):
            monkeypatch.setattr(deletions, name, getattr(world, name))

        def moved(*arguments: Any, **changes: Any) -> bool:
            with world.stepped(OF_THE_DATABASE):
                return move(*arguments, **changes)

        monkeypatch.setattr(deletions, "_move", moved)
        monkeypatch.setattr(deletions, "announce_change", lambda: None)

    return use


troubles = st.dictionaries(st.integers(1, 9), st.sampled_from(DURING), max_size=1)
events = st.one_of(
    st.tuples(st.just("worker"), troubles),
    st.tuples(st.just("time"), st.just({})),
    st.tuples(st.sampled_from(OUTSIDE), st.just({})),
)


@settings(max_examples=lives(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2), troubles, st.lists(events, max_size=10))
def test_a_deletion_ends_once_and_loses_nothing_that_was_not_confirmed(pair, people, steps, messages, first, then):
    lives_on(pair, people["operator"], steps, messages, first, then)


@pytest.mark.parametrize("step", range(1, 10))
def test_trouble_at_any_single_step_of_the_confirmation_or_of_a_worker_changes_no_end(pair, people, steps, step):
    for trouble in ({step: kind} for kind in DURING):
        lives_on(pair, people["operator"], steps, 0, trouble, [])
        lives_on(pair, people["operator"], steps, 0, {}, [("worker", {}), ("time", {}), ("worker", trouble)])


def lives_on(pair, operator, steps, messages, first, then):
    """A life of a deletion; what is stored of it leaves no trace."""
    world = World(Queue("1", messages=messages))
    steps(world)
    with transaction.atomic():
        request = Request(user=operator, pair=pair, target=ORPHAN, reason="the count was lowered")
        set_in_motion(world, request, first)
        for event, trouble in then:
            if event == "worker":
                with world.running(trouble):
                    world.work()
            elif event == "cancelled":
                world.cancel()
            else:
                world.happens(event)
        for _ in range(4):
            world.now += timedelta(hours=1)
            world.work()
        is_alone = {event for event, _ in then} <= {"worker", "time"} and not world.is_cancelled
        ends_well(world, messages, is_alone=is_alone)
        transaction.set_rollback(True)


def set_in_motion(world: World, request: Request, trouble: dict[int, str]) -> None:
    def work() -> None:
        for row in deletions.due(world.now):
            deletions.carry_on(row, world.now)

    def cancel() -> None:
        with suppress(ActionError), world.running({}):
            outcome = cleanup.take_back(request, cleanup.read_rows(request.pair, ORPHAN))
            world.is_cancelled = world.is_cancelled or outcome.outcome == "done"

    world.work, world.cancel = work, cancel
    proof = world.look(None, ORPHAN)
    assert proof is not None
    with world.running(trouble):
        cleanup._delete(request, proof)


def ends_well(world: World, messages: int, *, is_alone: bool) -> None:
    [row] = QueueDeletion.objects.all()
    assert row.ended_at is not None
    assert AuditEntry.objects.filter(verb__in=[end.name for end in deletions.ENDS.values()]).count() == 1
    if world.queue is not None:
        assert world.queue.status == ACTIVE, "a queue is left in quarantine that nobody will delete"
    if is_alone:
        assert (row.stage, world.queue) == (Stage.DELETED, None), row.detail
    if world.is_cancelled:
        assert row.stage == Stage.TAKEN_BACK
