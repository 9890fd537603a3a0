"""The syphon brings messages home over real AMQP, at least once and never losing one
(docs/specification.md, section 8)."""

import asyncio
import contextlib
import errno
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from uuid import uuid4

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus import exceptions as sdk
from azure.servicebus.amqp import AmqpAnnotatedMessage

import pairing
from pairing import options as option_bounds
from pairing.drain import flow as drain_flow
from pairing.drain import operations, sending, syphons
from pairing.drain.refusals import why_refused
from pairing.drain.shared import lease_holder, usage
from pairing.events import count_in, is_expiry
from pairing.messages.rewriting import as_message, to_backlog
from tests.pace import Stopwatch, eventually, slowed
from tests.pairing.metered import metered
from tests.pairing.processes import started

pytestmark = pytest.mark.sampled("home")
PAUSE = timedelta(seconds=0.1)
LOCK_S = 3.0
OWN_SLICE_S = drain_flow._SLICE_S


@pytest.fixture(autouse=True)
def _short_periods(monkeypatch):
    """A syphon that is stopped ends its slice first, and one that is refused pauses at least a second: too long for a
    namespace next door. What a pause is by itself is shown in test_destinations.py, and where the length of a slice
    matters, a test has the slice's own."""
    monkeypatch.setattr(drain_flow, "_SLICE_S", 0.2)
    monkeypatch.setattr(drain_flow, "_REST_S", 0.05)
    longest = option_bounds._DURATIONS["syphon_retry_interval"][1]
    monkeypatch.setitem(option_bounds._DURATIONS, "syphon_retry_interval", (PAUSE, longest))


class Blocking:
    """One of the worlds for tests that block: its loop runs on a thread."""

    def __init__(self, world) -> None:
        self.world, self.module, self.loop = world, world.module, asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def begin(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def __call__(self, function, *arguments):
        return self.begin(self.world(function, *arguments)).result(60)

    def stop(self):
        """An event that stops a syphon."""
        return threading.Event() if self.world.name == "sync" else self(asyncio.Event)

    def start(self, syphon, *, stopping=True) -> Callable[[], None]:
        stop = self.stop()
        running = self.begin(self.world(syphon.run, stop))

        def end() -> None:
            if stopping:
                self.loop.call_soon_threadsafe(stop.set)
            running.result(60)

        return end

    def close(self) -> None:
        self.begin(self.world.close()).result(120)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Home:
    """A pair with one backlog queue, and a syphon."""

    def __init__(self, world: Blocking, lock_s=0.0, **options) -> None:
        self.world, self.events = world, world.world.events
        self.primary, self.secondary = world.world.primary, world.world.secondary
        settings = {"backlog_queue_count": 1, "enable_pings": False, "failover_interval": timedelta(minutes=1)}
        self.client = world.world.client(**settings | {"syphon_retry_interval": PAUSE} | options)
        self.name = self.client.primary.namespace
        self.backlog = f"{self.name}/x-servicebus-transfer/0"
        if lock_s:
            with self.secondary.administration() as administration:
                administration.create_queue(self.backlog, lock_duration=timedelta(seconds=lock_s))
        world(self.client.open)

    def store(self, messages, path: str) -> None:
        """Puts messages into the backlog, as a sender of the pair would."""
        self.put([to_backlog(as_message(message), path) for message in messages])

    def put(self, messages) -> None:
        sdk = ServiceBusClient.from_connection_string(self.secondary.connection_string)
        with sdk, sdk.get_queue_sender(self.backlog, keep_alive=0) as sender:
            sender.send_messages(messages)

    @contextmanager
    def syphon(self):
        syphon = self.world(self.world.module.Syphon, self.client)
        end = self.world.start(syphon)
        try:
            eventually(lambda: syphon.progress)
            yield syphon.progress[self.backlog]
        finally:
            end()

    @property
    def reported(self) -> list[str]:
        return self.world.world.reported

    def dead_letters(self) -> list:
        count = self.secondary.stats(self.backlog)["dead_lettered"]
        return self.secondary.receive(f"{self.backlog}/$DeadLetterQueue", count)


@pytest.fixture
def home(request, make_world, primary, secondary):
    world = Blocking(make_world(getattr(request, "param", "sync")))
    yield partial(Home, world)
    primary.thaw()
    secondary.thaw()
    world.close()


both_worlds = pytest.mark.parametrize("home", ["sync", "asyncio"], indirect=True)


def numbered(count: int, first: int = 0, **arguments) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(str(n), message_id=f"id-{n}", **arguments) for n in range(first, first + count)]


def numbers(messages) -> list[int]:
    return [int(str(message)) for message in messages]


@both_worlds
def test_messages_come_home_in_their_order_and_on_the_bill_and_the_ledgers_balance(home, primary, queue):
    here = home()
    here.store(numbered(250), queue)
    with here.syphon() as progress:
        eventually(lambda: progress.ledger.count("restored") == 250)
        assert progress.ledger.balance(0).missing == 0
    assert numbers(primary.receive(queue, 250)) == list(range(250))
    assert here.reported == ["syphon_started", "syphon_stopped"]
    counted = metered(here.client, "kind", "namespace", "entity")
    for kind, namespace in (("receive", "contoso-dr"), ("settle", "contoso-dr"), ("send", here.name)):
        moved = counted[f"syphon_{kind}", namespace, queue]
        assert (moved.messages, moved.billing_units) == (250, 250)
    idle = counted.get(("syphon_receive_empty", "contoso-dr", here.backlog))
    assert idle is None or idle.operations == 1, "until it was stopped"


@both_worlds
def test_nothing_is_sent_to_what_is_failed_over_and_others_pass_and_another_process_finds_it(home, primary, queue):
    here, other = home(), primary.create_queue()
    here.client.fail_over(queue, "drill")
    here.store(numbered(20), queue)
    here.store(numbered(20), other)
    with here.syphon() as progress:
        eventually(lambda: progress.moved == 20 and progress.deferred == 20)
    assert primary.stats(queue).get("enqueued", 0) == 0
    here.client.mark_healthy(queue)
    with here.syphon() as progress:
        eventually(lambda: progress.ledger.count("restored") == 20)
        assert progress.deferred == 0
    assert numbers(primary.receive(queue, 20)) == list(range(20))
    assert len(primary.receive(other, 20)) == 20


@both_worlds
def test_a_poisoned_message_is_dead_lettered_with_the_reason_and_holds_up_nobody(home, primary, queue):
    here = home()
    here.put([ServiceBusMessage("no path")])
    wrong = {"x-ms-path": queue, "x-ms-timetolive": "soon"}
    here.put([ServiceBusMessage("wrong type", application_properties=wrong)])
    here.store(numbered(1), queue)
    with here.syphon() as progress:
        eventually(lambda: progress.moved == 1 and progress.dead_lettered == 2)
        assert progress.ledger.balance(0).missing == 0
    reported = [letter.dead_letter_error_description for letter in here.dead_letters()]
    assert reported == ["x-ms-path is missing", "x-ms-timetolive is bytes b'soon'"]
    assert here.reported.count("dead_lettered") == 2


@both_worlds
def test_a_message_that_the_sdk_cannot_decode_is_set_aside_and_holds_up_nobody(home, primary, queue):
    here = home()
    here.store(numbered(3), queue)
    undecodable = {"x-ms-path": queue, "price": Decimal("1E+40")}
    here.put([ServiceBusMessage("undecodable", application_properties=undecodable)])
    here.store(numbered(3, 3), queue)
    with here.syphon() as progress:
        eventually(lambda: progress.moved == 6 and progress.set_aside == 1)
        eventually(lambda: progress.ledger.balance(0).missing == 0)
    assert numbers(primary.receive(queue, 6)) == list(range(6))
    assert here.secondary.stats(here.backlog)["dead_lettered"] == 1


@both_worlds
def test_a_body_that_the_sdk_decodes_and_cannot_encode_as_it_is_comes_home(home, primary, queue):
    when = datetime(2026, 11, 21, 3, 4, 5, tzinfo=UTC)
    here = home()
    here.store([AmqpAnnotatedMessage(value_body=when), AmqpAnnotatedMessage(sequence_body=[[when]])], queue)
    with here.syphon() as progress:
        eventually(lambda: progress.moved == 2)
    milliseconds = int(when.timestamp() * 1000)
    bodies = [message.raw_amqp_message.body for message in primary.receive(queue, 2)]
    assert [body if isinstance(body, int) else list(body) for body in bodies] == [milliseconds, [[milliseconds]]]


@both_worlds
@pytest.mark.parametrize("is_disabled", [False, True], ids=["gone", "disabled"])
def test_messages_for_an_entity_that_takes_none_are_dead_lettered_only_after_some_attempts(home, primary, is_disabled):
    here = home(max_restore_attempts=3)
    path = primary.create_queue(status="Disabled") if is_disabled else "gone"
    here.store(numbered(3), path)
    with here.syphon() as progress:
        eventually(lambda: progress.dead_lettered == 3, within_s=40)
        assert progress.ledger.balance(0).missing == 0
    reported = [letter.dead_letter_error_description for letter in here.dead_letters()]
    assert ["refused 3 times" in why for why in reported] == [True] * 3
    events = [event for event in here.events if event.kind == "dead_lettered"]
    assert {event.entity for event in events} == {path}
    assert sum(count_in(event.reason) for event in events) == 3


REFUSALS = {
    "final": [sdk.MessagingEntityNotFoundError(), sdk.MessagingEntityDisabledError()],
    "outage": [
        *(sdk.ServiceBusQuotaExceededError(), sdk.ServiceBusConnectionError(), sdk.OperationTimeoutError()),
        sdk.ServiceBusAuthenticationError(),
    ],
    "busy": [sdk.ServiceBusServerBusyError()],
    "shortage": [sdk.ServiceBusConnectionError(error=OSError(errno.EMFILE, "Too many open files"))],
    "message": [sdk.MessageSizeExceededError()],
    "ours": [ValueError("cannot be encoded"), sdk.ServiceBusError("…", error=TypeError())],
}


@pytest.mark.parametrize(("why", "error"), [(why, error) for why, errors in REFUSALS.items() for error in errors])
def test_whose_fault_a_refusal_is(why, error):
    assert why_refused(error) == why


def test_an_administration_that_does_not_answer_is_asked_once(home, primary, monkeypatch):
    here, asked = home(), []

    def refuse(role, path):
        raise sdk.ServiceBusAuthenticationError

    def ask(path, **limits):
        asked.append(path)
        raise ServiceRequestError("no answer")

    monkeypatch.setattr(here.client, "sdk_sender", refuse)
    monkeypatch.setattr(here.client.primary.administration, "get_queue", ask)
    for _ in range(3):
        here.store(numbered(1), primary.create_queue())
    with here.syphon() as progress:
        eventually(lambda: progress.deferred == 3)
    assert len(asked) == 1


def test_a_message_that_is_too_large_is_given_up_alone(home, primary, queue):
    here = home(max_restore_attempts=2)
    here.store(numbered(2), queue)
    primary.fault(entity=queue, operation="send", effect="reject", condition="amqp:link:message-size-exceeded", count=4)
    here.store(numbered(2, 2), queue)
    with here.syphon() as progress:
        eventually(lambda: progress.moved + progress.dead_lettered == 4)
        assert progress.ledger.balance(0).missing == 0
    assert progress.moved >= 2


@both_worlds
@pytest.mark.parametrize("effect", ["reset", "reject"])
def test_an_outage_of_the_destination_loses_nothing(home, primary, queue, effect):
    here = home()
    here.store(numbered(150), queue)
    primary.fault(entity=queue, operation="send", effect=effect, count=2)
    with here.syphon() as progress:
        eventually(lambda: progress.ledger.count("restored") == 150, within_s=60)
        assert progress.ledger.balance(0).missing == 0
    got = numbers(primary.drain(queue))
    assert set(got) == set(range(150))
    assert progress.dead_lettered == 0


@both_worlds
def test_with_the_secondary_gone_the_syphon_waits_and_says_so(home, primary, secondary, queue):
    here = home()
    secondary.fault(entity=here.backlog, operation="attach", effect="refuse")
    with here.syphon() as progress:
        eventually(lambda: progress.state == "failing")
        assert "ServiceBusError" in progress.last_error
        here.secondary.mend()
        here.store(numbered(3), queue)
        eventually(lambda: progress.moved == 3)


@both_worlds
def test_stopping_takes_less_than_two_seconds_while_messages_flow(home, primary, queue, monkeypatch):
    monkeypatch.setattr(drain_flow, "_SLICE_S", OWN_SLICE_S)
    here = home()
    here.store(numbered(1000), queue)
    with here.syphon() as progress, contextlib.ExitStack() as stopping:
        eventually(lambda: progress.moved)
        watch = stopping.enter_context(Stopwatch())
    assert watch.took < 2.5
    with here.syphon() as progress:
        eventually(lambda: here.secondary.stats(here.backlog)["active"] == 0)
    got = numbers(primary.drain(queue))
    assert set(got) == set(range(1000))
    assert progress.dead_lettered == 0


def test_a_queue_for_which_no_thread_can_be_started_is_drained_later(home, primary, queue, monkeypatch):
    here, start, refused = home(), threading.Thread.start, []

    def refuse_once(thread):
        if thread.name == "pairing-syphon-0" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    here.store(numbered(3), queue)
    with here.syphon():
        assert numbers(primary.receive(queue, 3)) == [0, 1, 2]
    assert refused


@both_worlds
def test_a_syphon_needs_an_open_client(home):
    here = home()
    syphon = here.world(here.world.module.Syphon, here.world.world.client())
    with pytest.raises(pairing.PairingError, match="a syphon needs an open one"):
        here.world(syphon.run, here.world.stop())


@both_worlds
def test_a_syphon_runs_again(home, primary, queue):
    here = home()
    syphon = here.world(here.world.module.Syphon, here.client)
    for number in range(2):
        here.store(numbered(1, number), queue)
        end = here.world.start(syphon)
        assert numbers(primary.receive(queue, 1)) == [number]
        end()


@both_worlds
def test_a_syphon_of_one_queue_takes_a_list(home):
    here = home()
    with pytest.raises(TypeError, match="queues must be a list of backlog queues, not the text"):
        here.world(lambda: here.world.module.Syphon(here.client, queues=here.backlog))


@pytest.mark.parametrize("home", ["asyncio"], indirect=True)
def test_an_event_of_threads_would_block_the_loop_and_is_refused(home):
    here = home()
    syphon = here.world(here.world.module.Syphon, here.client)
    running = here.world.begin(syphon.run(threading.Event()))
    with pytest.raises(TypeError, match=r"stop must be an asyncio\.Event, not threading\.Event"):
        running.result(60)


@both_worlds
def test_a_syphon_at_work_ends_with_its_client_and_makes_no_noise(home, queue, caplog):
    caplog.set_level("WARNING")
    here = home()
    here.store(numbered(400), queue)
    syphon = here.world(here.world.module.Syphon, here.client)
    has_ended = here.world.start(syphon, stopping=False)
    eventually(lambda: here.backlog in syphon.progress and syphon.progress[here.backlog].moved > 0)
    here.world(here.client.close)
    has_ended()
    assert here.reported[-1] == "syphon_stopped"
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith(("azure", "pairing", "asyncio"))
    ] == []


def test_the_time_in_the_backlog_counts_where_the_policy_says_so(home, primary, secondary, queue):
    here = home(ttl_policy="remaining")
    here.store([ServiceBusMessage("long", time_to_live=timedelta(hours=1))], queue)
    here.store([ServiceBusMessage("short", time_to_live=timedelta(seconds=1))], queue)
    with here.syphon() as progress:
        eventually(lambda: progress.moved + progress.dead_lettered == 2)
        assert progress.ledger.count("expired") == 1
    (event,) = [event for event in here.events if event.kind == "dead_lettered"]
    assert (event.entity, count_in(event.reason), is_expiry(event.reason)) == (queue, 1, True)
    [message] = primary.receive(queue, 1)
    assert timedelta(minutes=59) < message.time_to_live < timedelta(hours=1)


def store_large(here, count: int, path: str) -> None:
    """Messages of which one transfer takes one."""
    for n in range(count):
        body = str(n).ljust(150_000).encode()
        here.store([ServiceBusMessage(body, message_id=f"id-{n}")], path)


@both_worlds
def test_locks_hold_while_a_group_takes_many_transfers(home, primary, queue, monkeypatch):
    monkeypatch.setattr(sending, "_RENEW_AFTER_S", 0.5)
    lock_s = slowed(LOCK_S)
    here = home(lock_s=lock_s)
    store_large(here, 12, queue)
    primary.fault(entity=queue, operation="send", effect="delay", delay_s=lock_s * 0.14)
    with here.syphon() as progress:
        began = time.monotonic()
        eventually(lambda: progress.ledger.count("restored") == 12, within_s=120 + 3 * lock_s)
        assert time.monotonic() - began > lock_s
        assert progress.locks_lost == 0
    assert primary.stats(queue)["enqueued"] == 12


@both_worlds
def test_messages_that_came_during_a_pause_longer_than_their_locks_are_delivered_once(
    home, primary, queue, monkeypatch
):
    """The service gives them to the open link, which locks them, although the drain does not ask for any."""
    lock_s = slowed(LOCK_S)
    monkeypatch.setattr(operations, "STALE_S", lock_s / 3)
    monkeypatch.setattr(sending, "_RENEW_AFTER_S", 0.5)
    here = home(lock_s=lock_s, max_rate=LOCK_S / lock_s)
    here.store(numbered(5), queue)
    with here.syphon() as progress:
        eventually(lambda: primary.stats(queue).get("enqueued"))
        here.store(numbered(8)[5:], queue)  # their locks end before the first ones have gone at their pace
        eventually(lambda: progress.ledger.count("restored") == 8, within_s=120 + 5 * lock_s)
        assert progress.locks_lost == 0
    assert primary.stats(queue)["enqueued"] == 8


@both_worlds
def test_no_transfer_of_a_group_begins_once_its_entity_is_failed_over(home, primary, queue):
    here = home()
    store_large(here, 12, queue)
    primary.fault(entity=queue, operation="send", effect="delay", delay_s=0.5)
    with here.syphon() as progress:
        eventually(lambda: primary.stats(queue).get("enqueued"))
        here.client.fail_over(queue, "drill")
        sent = primary.stats(queue)["enqueued"]
        eventually(lambda: progress.deferred and primary.stats(queue)["enqueued"] + progress.deferred == 12)
        assert primary.stats(queue)["enqueued"] <= min(sent + 2, 11)  # what was under way


@both_worlds
def test_an_idle_poll_is_one_empty_receive_however_long_it_waits(home, secondary, monkeypatch):
    here = home()
    with here.syphon() as progress:
        eventually(lambda: progress.state == "receiving")
        threading.Event().wait(0.9)  # more than two local slices
    client = here.client
    records = []

    def empty_receives() -> int:
        records.extend(client.meter.drain(client.clock.now(), everything=True))
        return sum(record.operations for record in records if record.kind == "syphon_receive_empty")

    assert empty_receives() == 1
    assert usage.GRANT_S == 900
    monkeypatch.setattr(usage, "GRANT_S", 0.1)
    with here.syphon():
        eventually(lambda: empty_receives() >= 2)  # it went on with another grant once this one was over


def test_a_crash_between_send_and_complete_doubles_messages_and_loses_none(home, primary, secondary, queue):
    """Of every kind of message, the sender too, in both worlds: killed between failed attempt and acknowledgement."""
    name = f"contoso-{uuid4().hex[:8]}"
    backlog = f"{name}/x-servicebus-transfer/0"
    with secondary.administration() as administration:
        administration.create_queue(backlog, lock_duration=timedelta(seconds=2))  # they outlive who dies
    strings = primary.connection_string, secondary.connection_string
    sessions, topic, later = primary.create_queue(requires_session=True), primary.create_topic(), primary.create_queue()
    when = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    primary.fault(operation="connect", effect="refuse")
    assert started("crashing_sender.py", *strings, name, queue, sessions, topic, later, when.isoformat()).wait(600) == 0
    primary.mend()
    here = home(primary_namespace=name)
    here.backlog = backlog
    stored = secondary.stats(backlog)["active"]
    assert stored == 66, "22 messages died unsent; 22 more, of which nobody knew, and all of them were sent again"
    arrived = (queue, sessions, f"{topic}/Subscriptions/audit", later)
    while not all(primary.stats(path).get("enqueued") for path in arrived):  # one receive may not bring them all
        assert started("serving_syphon.py", *strings, name, "", "die").wait(600) == -9
    assert secondary.stats(backlog)["completed"] == 0
    with here.syphon() as progress:
        eventually(lambda: progress.ledger.count("restored") == stored, within_s=60)

    def ids(form: str, count: int) -> set[str]:
        cases = [(step, world) for step in ("before", "after") for world in ("sync", "asyncio")]
        return {f"{form}-{step}-{world}-{n}" for step, world in cases for n in range(count)}

    at_home = {path: primary.stats(path)["enqueued"] for path in arrived}
    assert sum(at_home.values()) > stored
    plain = primary.receive(queue, at_home[queue])
    assert {message.message_id for message in plain} == ids("single", 1) | ids("batch", 3)
    published = primary.receive(topic, at_home[arrived[2]], subscription="audit")
    assert {message.message_id for message in published} == ids("topic", 1)
    with ServiceBusClient.from_connection_string(primary.connection_string) as sdk:
        with sdk.get_queue_receiver(sessions, session_id="s", keep_alive=0) as receiver:
            assert {message.message_id for message in receiver.peek_messages(100)} == ids("session", 3)
        with sdk.get_queue_receiver(later, keep_alive=0) as receiver:
            waiting = receiver.peek_messages(100)
    assert {message.message_id for message in waiting} == ids("scheduled", 3)
    assert {(message.state.name, message.scheduled_enqueue_time_utc) for message in waiting} == {("SCHEDULED", when)}
    assert all(str(message) == message.message_id[:-2] for message in [*plain, *published, *waiting])


@both_worlds
def test_who_is_asked_to_stop_in_the_middle_of_a_send_still_completes_it(home, primary, queue, redis_url, monkeypatch):
    """The send takes longer than what was left of the lease: it is renewed meanwhile, or all would come home twice."""
    monkeypatch.setattr(lease_holder, "LEASE_S", 3.0)
    monkeypatch.setattr(lease_holder, "_RENEW_S", 0.5)
    monkeypatch.setattr(syphons, "LOOK_S", 0.1)
    here = home(coordination=redis_url, close_grace=timedelta(seconds=20))
    primary.fault(entity=queue, operation="send", effect="delay", delay_s=4.0)
    here.store(numbered(10), queue)
    with here.syphon() as progress:
        eventually(lambda: progress.state == "moving")
    assert primary.stats(queue)["enqueued"] == progress.ledger.count("restored") == 10
    assert here.secondary.stats(here.backlog)["completed"] == 10
