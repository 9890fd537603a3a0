"""Opening a pair, its life and its end, in both worlds (docs/specification.md, sections 4 and 9)."""

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ServiceRequestError
from azure.servicebus import ServiceBusMessage

from pairing import BacklogCreationError, PairedNamespaceFaultedError, PairingError
from pairing.backlog.administration import CREATED_WITH, backlog_queues, deviations, find_or_create, is_forever
from pairing.testing import ManualClock
from tests.pairing.steps import Administration, CreateQueue, ListQueues, PauseBetween, answered

pytestmark = pytest.mark.sampled("world")

# Opening, step by step


class Namespace:
    """Answers pairing from a script: what is listed, and what each creation says."""

    def __init__(self, *, listed=(), creations=None):
        self.listed = list(listed)
        self.creations = creations or {}
        self.asked = []

    def perform(self, action):
        self.asked.append(action)
        match action:
            case ListQueues():
                return self.listed.pop(0) if self.listed else []
            case CreateQueue(path):
                answers = self.creations.get(path, [])
                return answers.pop(0) if answers else None
            case PauseBetween():
                return None

    def pair(self, count=3, **keywords):
        return answered(
            find_or_create(Administration(), "dr", "contoso", count, pause_s=30.0, **keywords), self.perform
        )

    @property
    def pauses(self):
        return [action.seconds for action in self.asked if isinstance(action, PauseBetween)]


PATHS = [f"contoso/x-servicebus-transfer/{i}" for i in range(3)]
BROKEN = ServiceRequestError("unreachable")


def refused(status):
    error = HttpResponseError("refused")
    error.status_code = status
    return error


def described(path, **properties):
    return SimpleNamespace(name=path, **(dict(CREATED_WITH) | {"status": "Active"} | properties))


def test_missing_queues_are_created_and_present_ones_used():
    namespace = Namespace(listed=[[described(PATHS[1])]])
    paired = namespace.pair()
    assert paired.paths == PATHS
    assert [action.path for action in namespace.asked if isinstance(action, CreateQueue)] == [PATHS[0], PATHS[2]]


@pytest.mark.parametrize(
    ("namespace", "paths", "missing", "pauses"),
    [
        (Namespace(creations={PATHS[0]: [ResourceExistsError("409")]}), PATHS, [], []),
        (Namespace(creations={PATHS[0]: [BROKEN, BROKEN, None]}), PATHS, [], [30.0, 30.0]),
        (Namespace(creations={PATHS[0]: [BROKEN] * 3}), PATHS[1:], PATHS[:1], [30.0, 30.0]),
        (Namespace(listed=[BROKEN, []]), PATHS, [], [30.0]),
        (Namespace(listed=[[described("contoso/x-servicebus-transfer/7")]]), PATHS, [], []),
    ],
    ids=["it exists", "created at the third try", "some only", "listed at the second try", "a queue of a higher index"],
)
def test_backlog_queues_are_found_or_created(namespace, paths, missing, pauses):
    paired = namespace.pair()
    assert (paired.paths, list(paired.missing), namespace.pauses) == (paths, missing, pauses)


@pytest.mark.parametrize(
    ("namespace", "tries", "reason", "pauses"),
    [
        (Namespace(creations={path: [BROKEN] * 3 for path in PATHS}), 3, "namespace dr", [30.0, 30.0]),
        (Namespace(listed=[refused(401)]), 3, "Manage claim", []),
        (Namespace(listed=[refused(403)]), 3, "Manage claim", []),
        (Namespace(listed=[BROKEN] * 3), 3, "cannot be reached", [30.0, 30.0]),
        (Namespace(listed=[BROKEN]), 1, "cannot be reached", []),
    ],
    ids=["none is created", "wrong key", "no right", "unreachable", "a repair tries once"],
)
def test_without_any_backlog_queue_the_error_names_the_namespace_and_the_reason(namespace, tries, reason, pauses):
    with pytest.raises(BacklogCreationError, match=reason) as raised:
        namespace.pair(tries=tries)
    assert "namespace dr" in str(raised.value)
    assert isinstance(raised.value.__cause__, ServiceRequestError | HttpResponseError)
    assert namespace.pauses == pauses


def test_never_is_never_however_the_sdk_sends_it_back():
    assert is_forever("P10675199DT2H48M5.4775807S")
    assert is_forever(timedelta(days=10675199, seconds=10085, microseconds=477539))
    assert not is_forever(timedelta(days=14))
    assert deviations(described(PATHS[0], auto_delete_on_idle=timedelta(days=10675199, seconds=1))) == {}


# Opening, for real


async def test_opening_creates_the_backlog_queues_with_their_properties(world, secondary):
    client = await world.open(backlog_queue_count=3)
    name = client.primary.namespace
    assert client.state == "opened"
    assert client.backlog_queue_count == 3
    assert client.backlog_paths == tuple(f"{name}/x-servicebus-transfer/{i}" for i in range(3))
    with secondary.administration() as administration:
        infos = backlog_queues(administration, name)
        queue = administration.get_queue(client.backlog_paths[0])
    assert [info.index for info in infos] == [0, 1, 2]
    assert [info.deviations for info in infos] == [{}, {}, {}]
    assert (queue.max_size_in_megabytes, queue.max_delivery_count) == (5120, 2147483647)
    assert queue.lock_duration == timedelta(minutes=1)
    assert queue.dead_lettering_on_message_expiration
    assert queue.enable_batched_operations
    assert is_forever(queue.auto_delete_on_idle)
    assert is_forever(queue.default_message_time_to_live)


async def test_a_deviating_queue_is_reported(world, secondary):
    client = world.client(backlog_queue_count=1)
    path = f"{client.primary.namespace}/x-servicebus-transfer/0"
    with secondary.administration() as administration:
        administration.create_queue(path, lock_duration=timedelta(seconds=30))
    await world(client.open)
    assert client.deviating_backlog_queues[path]["lock_duration"] == (timedelta(minutes=1), timedelta(seconds=30))
    assert client.backlog_queue_count == 1


async def test_opening_succeeds_while_the_primary_is_unreachable(world, primary, queue):
    primary.freeze()
    client = await world.open()
    sender = client.get_queue_sender(queue)
    await world(sender.close)
    assert client.state == "opened"


async def test_a_client_that_could_not_open_opens_once_the_secondary_is_back(world, secondary, queue):
    secondary.fault(operation="admin", effect="status", status=401)
    client = world.client()
    with pytest.raises(BacklogCreationError, match="credentials") as raised:
        await world(client.open)
    assert "local-namespace-key" not in str(raised.value)
    secondary.mend()
    await world(client.open)
    assert (client.state, client.backlog_queue_count) == ("opened", 2)


async def test_where_the_options_allow_it_the_client_opens_degraded_and_goes_on_trying(world, secondary, queue):
    secondary.fault(operation="admin", effect="status", status=503)
    client = await world.open(require_secondary=False)
    assert (client.state, client.backlog_queue_count) == ("opened", 0)
    assert "opened without backlog" in world.events[0].reason
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    secondary.mend()
    await world.until(lambda: client.backlog_queue_count == 2)


# Life and end


async def test_who_closes_while_the_client_falls_with_its_ends_waits_for_it(make_world, monkeypatch):
    client = await make_world("sync").open(enable_pings=False)
    reported, closers = [], []

    def close():
        try:
            client.close()
        except RuntimeError as error:
            reported.append(error)

    class ClosedMeanwhile(threading.Thread):
        def start(self):
            if getattr(self, "_target", None) == client._shut_down and not closers:
                closers.append(threading.Thread(target=close))
                closers[0].start()
                closers[0].join(0.2)  # it gets no further than to the lock
            super().start()

    monkeypatch.setattr(threading, "Thread", ClosedMeanwhile)
    client.primary.close()
    client.secondary.close()
    client._tick()
    closers[0].join(60)
    assert (reported, client.state) == ([], "closed")
    assert not client._shutting.is_alive()


COMBINATIONS = [
    ("primary", "close", None),
    ("primary", "fault", None),
    ("secondary", "close", None),
    ("secondary", "fault", None),
    ("primary", "close", "close"),
    ("primary", "fault", "close"),
    ("secondary", "close", "close"),
    ("secondary", "fault", "close"),
    ("primary", "fault", "fault"),
]


@pytest.mark.parametrize(
    ("first", "how", "other"), COMBINATIONS, ids=[f"{first} {how}, other {other}" for first, how, other in COMBINATIONS]
)
async def test_when_one_end_goes_down(world, queue, first, how, other):
    clock, cause = ManualClock(), RuntimeError("the network is gone")
    client = world.client(clock=clock, enable_pings=False)
    await world(client.open)
    ends = {"primary": client.primary, "secondary": client.secondary}
    rest = ends["secondary" if first == "primary" else "primary"]

    async def bring_down(end, how):
        await (world(end.close) if how == "close" else world(end.fault, cause))

    await bring_down(ends[first], how)
    clock.advance(4.9)
    if other is not None:
        await bring_down(rest, other)
    else:
        client._tick()
        assert rest.state == "opened"
        clock.advance(0.1)
    expected = "closed" if (how, other) == ("close", "close") else "faulted"
    await world.until(lambda: client.state == expected)
    error = PairedNamespaceFaultedError if expected == "faulted" else PairingError
    with pytest.raises(error) as raised:
        client.get_queue_sender(queue)
    if how == "fault":
        assert raised.value.__cause__ is cause
    if other is None:
        assert rest.state == "faulted"
        assert isinstance(rest.error, PairedNamespaceFaultedError)
        with pytest.raises(PairedNamespaceFaultedError):
            client.entity_health(queue)


async def test_while_the_primary_end_is_down_sends_say_so_and_do_not_count_as_an_outage(world, queue):
    client = await world.open()
    sender = client.get_queue_sender(queue)
    await world(client.primary.close)
    with pytest.raises(PairingError, match="primary end is closed"):
        await world(sender.send_messages, ServiceBusMessage("x"))
    assert world.reported == []


# The fleet (docs/specification.md, section 11)


async def test_with_redis_away_each_process_decides_alone(world, primary, queue):
    client = await world.open(coordination="redis://127.0.0.1:1/0")
    primary.fault(entity=queue, operation="send", effect="reject", count=1)
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    await world.until(lambda: client.entity_health(queue).state == "healthy")
    await world.until(lambda: len(world.reported) >= 3)  # who listens is called after the state has changed
    assert sorted(world.reported) == ["coordination_refused", "failed_over", "recovered"]


async def test_a_failing_callback_disturbs_nobody(world, primary, queue):
    client = await world.open(enable_pings=False)
    client.on_event(lambda event: 1 / 0)
    reported = []
    end = client.on_event(reported.append)
    client.fail_over(queue, "test", operator="ann")
    assert [(event.kind, event.operator, event.pair) for event in reported] == [("forced", "ann", client.pair)]
    end()
    client.mark_healthy(queue)
    assert (len(reported), client.health()) == (1, [client.entity_health(queue)])
