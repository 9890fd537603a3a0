"""docs/specification.md, sections 5 and 6: the rules of sending, in neither world."""

from datetime import timedelta

import pytest
from azure.servicebus import exceptions as sdk

from pairing import BacklogUnavailableError, Fault
from pairing.backlog.rotation import Rotation
from pairing.health.flows import DONE, Failed, send
from pairing.options import SendAvailabilityOptions
from pairing.pair import GuardedEntity, Pair, SenderBacklog
from pairing.testing import ManualClock
from tests.pairing.steps import Attempts, ToBacklog, ToPrimary, Wait, answered

LOST = sdk.ServiceBusConnectionError()
OUTAGE = Failed(Fault.OUTAGE, LOST)
TORN = Failed(Fault.OUTAGE, LOST, repeatable=True)
CROWDED = Failed(Fault.CALLER, sdk.OperationTimeoutError(), is_crowded=True)
BUSY = Failed(Fault.BUSY, sdk.ServiceBusServerBusyError())
QUEUES = ["c/x-servicebus-transfer/0", "c/x-servicebus-transfer/1", "c/x-servicebus-transfer/2"]


class World:
    """Answers actions from a script and lets time pass; keeps what was asked."""

    def __init__(self, *, failover_interval_s=60.0, queues=QUEUES, **options):
        self.clock = ManualClock()
        interval = timedelta(seconds=failover_interval_s)
        self.pair = Pair(SendAvailabilityOptions(failover_interval=interval, **options), "c", "p", self.clock)
        self.pair.rotation = Rotation(queues, probation_s=60.0)
        self.events = []
        self.pair.on_event = lambda event: self.events.append(event.kind)
        self.entity = GuardedEntity(self.pair, "orders")
        self.asked = []
        self.meanwhile = lambda action: None

    def send(self, *answers, timeout_s=30.0, wait_when_busy=False):
        script = iter(answers)

        def perform(action):
            self.asked.append(action)
            self.meanwhile(action)
            if isinstance(action, Wait):
                self.clock.advance(action.seconds)
                return DONE
            answer = next(script)
            if isinstance(answer, tuple):
                answer, took = answer
                self.clock.advance(action.timeout_s if took == "all" else took)
            return answer

        sending = send(
            Attempts(),
            "work",
            self.entity,
            SenderBacklog(self.pair),
            self.clock.now,
            began_at=self.clock.now(),
            timeout_s=timeout_s,
            wait_when_busy=wait_when_busy,
        )
        return answered(sending, perform)

    @property
    def kinds(self):
        return [type(action) for action in self.asked]


@pytest.mark.parametrize("worked", [True, False])
def test_refused_credentials_are_shown(worked):
    world = World()
    if worked:
        world.send(DONE)
    with pytest.raises(sdk.ServiceBusAuthenticationError):
        world.send(Failed(Fault.CONFIGURATION, sdk.ServiceBusAuthenticationError()))
    since = "refused: wrong key, or no such entity, since 2026-01-01 00:00:00 UTC; "
    health = world.pair.health("orders")
    assert (health.state, health.reason) == ("healthy", since + ("worked before" if worked else "never worked"))


# Bounded time


def test_the_primary_gets_half_of_the_timeout_and_one_attempt_ten_seconds_at_most():
    world = World(failover_interval_s=0)
    world.send((TORN, "all"), (OUTAGE, "all"), DONE, timeout_s=30.0)
    first, second, third = world.asked
    assert first.timeout_s == 10.0
    assert second.timeout_s == 5.0
    assert third.timeout_s <= 10.0
    assert world.clock.now() <= 30.0


def test_no_repetition_where_its_half_is_used_up():
    world = World(failover_interval_s=0)
    world.send((TORN, "all"), DONE, timeout_s=4.0)
    assert world.kinds == [ToPrimary, ToBacklog]
    assert world.asked[0].timeout_s == 2.0


def test_a_timeout_too_short_for_both_raises_the_primarys_error():
    world = World(failover_interval_s=0)
    with pytest.raises(sdk.ServiceBusConnectionError):
        world.send((OUTAGE, 30.0), timeout_s=30.0)
    assert world.kinds == [ToPrimary]


def test_silent_backlog_queues_never_take_longer_than_the_timeout():
    world = World(failover_interval_s=0)
    with pytest.raises(BacklogUnavailableError):
        world.send((TORN, "all"), (OUTAGE, "all"), *[(OUTAGE, "all")] * 20, timeout_s=30.0)
    assert world.clock.now() <= 30.0 + 1e-6


# Server busy


def test_waiting_for_a_busy_server_sends_again_after_ten_seconds():
    world = World()
    assert world.send(BUSY, DONE, wait_when_busy=True) is None
    assert world.kinds == [ToPrimary, Wait, ToPrimary]
    assert world.clock.now() == 10.0


# The backlog


def test_a_stale_link_to_the_backlog_is_tried_once_more_before_its_queue_is_pulled():
    world = World(failover_interval_s=0)
    taken = world.send(OUTAGE, TORN, DONE)
    assert taken == world.asked[1].queue
    assert world.events == ["failed_over"]


def test_a_message_at_fault_does_not_pull_a_queue():
    world = World(failover_interval_s=0)
    with pytest.raises(sdk.MessageSizeExceededError):
        world.send(OUTAGE, Failed(Fault.CALLER, sdk.MessageSizeExceededError()))
    assert world.events == ["failed_over"]


# Crowded links


def test_who_waits_behind_other_sends_goes_to_the_backlog_once_the_entity_is_failed_over():
    world = World(failover_interval_s=0)

    def fails_for_another(action):
        if isinstance(action, ToPrimary):
            world.entity.failed(world.clock.now(), LOST, world.clock.now())

    world.meanwhile = fails_for_another
    assert world.send((CROWDED, 5.0), DONE) in QUEUES


def test_who_never_has_a_turn_gets_the_message_back_in_time():
    world = World(failover_interval_s=0)
    with pytest.raises(sdk.OperationTimeoutError):
        world.send(*[(CROWDED, "all")] * 99)
    assert world.clock.now() <= 30.0
    assert world.entity.machine.state.value == "healthy"


def test_a_backlog_queue_is_not_pulled_for_a_crowd_before_it():
    world = World()
    world.pair.fail_over("orders", "drill", False, None, "ada")
    assert world.send((CROWDED, 1.0), DONE) in QUEUES
    assert "queue_pulled" not in world.events
