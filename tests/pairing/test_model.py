"""Random lives of a pair against a model: no accepted message is lost, none changes its identity, no state is unknown.

docs/specification.md, sections 5 to 8, over the fakes that users get (pairing.testing), with a clock turned by hand.
Tens of thousands of lives: ``PAIRING_MODEL_RUNS=20000 pytest tests/pairing/test_model.py --timeout 0``.
"""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus import exceptions as sdk
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pairing import BacklogUnavailableError, SendAvailabilityOptions
from pairing.backlog.rotation import Rotation
from pairing.messages.rewriting import restore
from pairing.testing import InMemoryNamespace, InMemoryPairedClient, ManualClock
from tests.selection import lives

ENTITIES = ["orders", "payments"]
OUTAGES = [
    sdk.ServiceBusConnectionError(),
    sdk.OperationTimeoutError(),
    sdk.MessagingEntityDisabledError(),
    sdk.ServiceBusServerBusyError(),
]
KINDS = {"failing", "failed_over", "recovered", "forced", "held", "released", "queue_pulled", "queue_returned"}
RUNS = lives(150)
entities = st.sampled_from(ENTITIES)


# What the namespaces hold is looked at after each step, and is the same bytes as after the one before.


@lru_cache(100_000)
def arrived(data: bytes) -> str:
    """The id of a message in the primary."""
    return str(ServiceBusReceivedMessage.from_bytes(data).message_id)


@lru_cache(100_000)
def restored(data: bytes) -> tuple[str, str]:
    """The destination and the id of a message in the backlog."""
    path, message = restore(ServiceBusReceivedMessage.from_bytes(data))
    return path, str(message.message_id)


class PairLife(RuleBasedStateMachine):
    """Sends, faults, pings, operators and time, in any order."""

    @initialize(interval=st.sampled_from([0, 5, 60]), queues=st.integers(1, 3), damping=st.booleans())
    def begin(self, interval, queues, damping):
        self.clock = ManualClock()
        self.primary, self.secondary = InMemoryNamespace("contoso"), InMemoryNamespace("dr")
        self.client = InMemoryPairedClient(
            self.primary,
            self.secondary,
            options=SendAvailabilityOptions(
                failover_interval=timedelta(seconds=interval),
                ping_primary_interval=timedelta(seconds=10),
                backlog_queue_count=queues,
                flap_damping=damping,
            ),
            clock=self.clock,
        )
        self.client.open()
        self.events = []
        self.client.on_event(self.events.append)
        self.senders = {entity: self.client.get_queue_sender(entity) for entity in ENTITIES}
        self.accepted, self.refused = set(), set()

    @rule(entity=entities, size=st.integers(1, 3), session=st.sampled_from([None, "s"]))
    def send(self, entity, size, session):
        number = len(self.accepted) + len(self.refused)
        messages = [
            ServiceBusMessage("x", message_id=f"{entity}/{number + i}", session_id=session) for i in range(size)
        ]
        before = self.client.pair_state.availability(entity).state
        ids = {message.message_id for message in messages}
        try:
            self.senders[entity].send_messages(messages if size > 1 else messages[0])
            self.accepted |= ids
        except BacklogUnavailableError:
            assert self.client.pair_state.availability(entity).state == "failed_over"
            self.refused |= ids
        except tuple(map(type, OUTAGES)):
            assert before != "failed_over"
            self.refused |= ids

    @rule(entity=entities, error=st.sampled_from(OUTAGES))
    def break_entity(self, entity, error):
        self.primary.fail(error, entity)

    @rule(entity=entities)
    def mend_entity(self, entity):
        self.primary.mend(entity)

    @rule(index=st.integers(0, 2), error=st.sampled_from(OUTAGES))
    def break_backlog_queue(self, index, error):
        paths = self.client.backlog_paths
        self.secondary.fail(error, paths[index % len(paths)])

    @rule()
    def mend_backlog(self):
        self.secondary.mend()

    @rule(seconds=st.sampled_from([1, 4, 10, 61, 700]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)
        self.client.tick()

    @rule()
    def ping(self):
        due = {e.path for e in self.client.pair_state.entities() if e.ping_due(self.clock.now())}
        results = self.client.ping_due()
        assert {result.path for result in results} == due

    @rule(entity=entities, hold=st.sampled_from([(True, None), (True, timedelta(seconds=30)), (False, None)]))
    def force(self, entity, hold):
        hold, expires = hold
        self.client.fail_over(entity, "maintenance", hold, expires, operator="ann")
        assert self.client.entity_health(entity).state == "failed_over"

    @rule(entity=entities)
    def release(self, entity):
        self.client.release(entity, operator="ann")

    @rule(entity=entities)
    def mark_healthy(self, entity):
        self.client.mark_healthy(entity, operator="ann")
        assert self.client.entity_health(entity).state != "failed_over"

    @rule()
    def syphon(self):
        with suppress(*map(type, OUTAGES)):
            self.client.bring_home()

    @precondition(lambda self: hasattr(self, "client"))
    @invariant()
    def nothing_accepted_is_lost_and_no_identity_changes(self):
        stored = Counter()
        for entity in ENTITIES:
            stored.update((entity, arrived(data)) for data in self.primary._queues.get(entity, ()))
        for queue in self.client.backlog_paths:
            stored.update(map(restored, self.secondary._queues.get(queue, ())))
        assert self.accepted <= {message_id for _, message_id in stored}
        assert all(message_id.startswith(f"{path}/") for path, message_id in stored)
        assert not {message_id for _, message_id in stored} & self.refused
        assert set(stored.values()) <= {1}

    @precondition(lambda self: hasattr(self, "client"))
    @invariant()
    def the_machines_are_in_a_state_of_the_table(self):
        now = self.clock.now()
        for entity in ENTITIES:
            health = self.client.entity_health(entity)
            machine = self.client.pair_state.availability(entity)
            assert health.state in ("healthy", "failing", "failed_over")
            assert (machine.held_by is None) or health.state == "failed_over"
            assert (machine.ping_at is not None) == (health.state == "failed_over")
            assert (health.state != "failing") or now < machine.since + self.client.options.failover_interval.seconds
            assert 10.0 <= machine.ping_interval_s <= 40.0
        assert {event.kind for event in self.events} <= KINDS

    @precondition(lambda self: hasattr(self, "client"))
    @invariant()
    def every_failover_is_reported_once(self):
        for entity in ENTITIES:
            story = [e.kind for e in self.events if e.entity == entity]
            state = "healthy"
            for kind in story:
                before, state = state, _AFTER[kind](state)
                assert state != before or kind in ("forced", "held", "released"), story
            assert self.client.pair_state.availability(entity).state == state


_AFTER = {
    "failing": lambda state: "failing",
    "failed_over": lambda state: "failed_over",
    "forced": lambda state: "failed_over",
    "recovered": lambda state: "healthy",
    "held": lambda state: state,
    "released": lambda state: state,
}

TestPairLife = PairLife.TestCase
TestPairLife.settings = settings(max_examples=RUNS, stateful_step_count=40, deadline=None)


class RotationLife(RuleBasedStateMachine):
    """Queues that fail, return, fill and empty: whoever asks gets the best there is."""

    @initialize(count=st.integers(1, 5))
    def begin(self, count):
        self.paths = [f"c/x-servicebus-transfer/{i}" for i in range(count)]
        self.rotation = Rotation(self.paths, probation_s=60.0)
        self.now, self.pulled, self.full, self.failures = 0.0, {}, set(), Counter()

    @rule(index=st.integers(0, 4))
    def fail(self, index):
        path = self.paths[index % len(self.paths)]
        reported = self.rotation.failed(path, "no answer", self.now, began=self.now)
        assert [event.kind for event in reported] == ([] if path in self.pulled else ["queue_pulled"])
        self.pulled[path] = self.now + min(60.0 * 2 ** self.failures[path], 1800.0)
        self.failures[path] += 1

    @rule(index=st.integers(0, 4))
    def accept(self, index):
        path = self.paths[index % len(self.paths)]
        reported = self.rotation.accepted(path, self.now)
        assert [event.kind for event in reported] == (["queue_returned"] if path in self.pulled else [])
        self.pulled.pop(path, None)
        self.failures[path] = 0

    @rule(seconds=st.sampled_from([1, 59, 60, 600, 2000]))
    def time_passes(self, seconds):
        self.now += seconds
        returned = {event.path for event in self.rotation.expire(self.now)}
        assert returned == {path for path, at in self.pulled.items() if at <= self.now}
        self.pulled = {path: at for path, at in self.pulled.items() if at > self.now}

    @rule(index=st.integers(0, 4), fill=st.sampled_from([0.0, 0.79, 0.8, 1.0]))
    def filled(self, index, fill):
        path = self.paths[index % len(self.paths)]
        self.rotation.filled({path: fill})
        (self.full.add if fill >= 0.8 else self.full.discard)(path)

    @precondition(lambda self: hasattr(self, "rotation"))
    @invariant()
    def the_choice_is_the_best_there_is(self):
        rotating = set(self.paths) - self.pulled.keys()
        best = rotating - self.full or rotating
        chosen = self.rotation.choose()
        assert chosen in best if best else chosen is None
        last = self.rotation.last_resort()
        assert (last in self.pulled) if self.pulled else last is None


TestRotationLife = RotationLife.TestCase
TestRotationLife.settings = settings(max_examples=RUNS, stateful_step_count=40, deadline=None)


# The fakes, as a user meets them


def test_a_manual_clock_does_not_go_back():
    with pytest.raises(ValueError, match="back"):
        ManualClock().advance(-1)
