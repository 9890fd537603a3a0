"""Sentences of docs/specification.md and docs/contract.md that are short, and that no other test names."""

import asyncio
import inspect
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from pairing import Fault, PairedNamespaceFaultedError, PairedServiceBusClient, SendAvailabilityOptions
from pairing.backlog.administration import CREATED_WITH
from pairing.fleet.shared_state import SharedState
from pairing.health.flows import PingResult
from pairing.membership import Fleet
from pairing.pair import Pair
from pairing.testing import ManualClock
from tests.pace import Stopwatch


def noting(monkeypatch: Any, owner: Any, method: str, note: Any) -> None:
    """Whenever this method is called, so is ``note`` before it."""
    original = getattr(owner, method)

    def call(*arguments: Any, **keywords: Any) -> Any:
        note()
        return original(*arguments, **keywords)

    monkeypatch.setattr(owner, method, call)


# Section 4: pairing


async def test_what_the_table_does_not_name_is_left_at_its_default(world, secondary):
    client = await world.open(backlog_queue_count=1)
    with secondary.administration() as administration:
        plain = dict(administration.create_queue(f"plain-{client.primary.namespace}"))
        made = dict(administration.get_queue(client.backlog_paths[0]))
        administration.delete_queue(plain["name"])
    differing = {name for name in made if made[name] != plain[name]}
    assert differing <= {"name", *CREATED_WITH}


# Section 5: when an entity fails over


def test_a_missing_entity_that_the_control_plane_knows_is_an_outage(redis_url, redis_client):
    pair = Pair(SendAvailabilityOptions(), "contoso", "host:1:a", ManualClock())
    fleet = Fleet(pair, redis_url)
    missing = MessagingEntityNotFoundError(message="no such entity")
    assert pair.classify(missing, "orders") is Fault.CALLER
    SharedState(redis_client, "contoso").know(["Orders"])
    fleet.coordination._reconcile()
    assert pair.classify(missing, "orders") is Fault.OUTAGE
    assert pair.classify(missing, "odrers") is Fault.CALLER
    redis_client.flushall()
    fleet.coordination._reconcile()
    assert pair.classify(missing, "orders") is Fault.OUTAGE
    SharedState(redis_client, "contoso").know(["payments"])
    fleet.coordination._reconcile()
    assert pair.classify(missing, "payments") is Fault.OUTAGE
    fleet.close()


@pytest.mark.parametrize("world", ["sync"], indirect=True)
async def test_a_link_opens_on_a_thread_of_its_own_and_an_open_one_sends_on_the_callers(world, queue, monkeypatch):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    threads: dict[str, threading.Thread] = {}
    noting(monkeypatch, sender._link, "_make", lambda: threads.update(opening=threading.current_thread()))
    sender.send_messages(ServiceBusMessage("x"))
    sdk = sender._link.sender
    noting(monkeypatch, sdk, "send_messages", lambda: threads.update(sending=threading.current_thread()))
    sender.send_messages(ServiceBusMessage("y"))
    assert threads["sending"] is threading.current_thread()
    assert threads["opening"] is not threading.current_thread()
    assert threads["opening"].daemon


# Section 6: sending to the backlog


async def test_redirected_senders_share_one_link_to_a_backlog_queue(world, primary):
    client = await world.open(enable_pings=False, backlog_queue_count=1)
    for name in (primary.create_queue(), primary.create_queue()):
        client.fail_over(name, "test")
        await world(client.get_queue_sender(name).send_messages, ServiceBusMessage("x"))
    assert client.secondary.connections == 1


# Section 7: pings


def test_a_stretched_ping_interval_is_shown():
    clock = ManualClock()
    options = SendAvailabilityOptions(failover_interval=timedelta(0), ping_primary_interval=timedelta(seconds=20))
    pair = Pair(options, "contoso", "host:1:a", clock)
    machine = pair.availability("orders")
    for _ in range(2):
        pair.apply(machine, lambda now: machine.failed(now, "an outage", began=now))
        clock.advance(60)
        pair.pinged(PingResult("orders", True, "accepted"))
    pair.apply(machine, lambda now: machine.failed(now, "an outage", began=now))
    assert pair.health("orders").ping_interval == timedelta(seconds=80)


# Section 9: closing and faulting

OF_AN_ENTITY = ("get_queue_sender", "get_topic_sender", "get_queue_receiver", "list_queue_sessions")
OF_ITS_STATE = ("entity_health", "hold", "release", "mark_healthy", "ping")
OF_A_SUBSCRIPTION = ("get_subscription_receiver", "list_subscription_sessions")
CALLS = {
    **dict.fromkeys((*OF_AN_ENTITY, *OF_ITS_STATE), ("orders",)),
    **dict.fromkeys(OF_A_SUBSCRIPTION, ("orders", "audit")),
    "open": (),
    "health": (),
    "ping_due": (),
    "fail_over": ("orders", "drill"),
    "on_event": (print,),
}
SENDS = {
    "send_messages": (ServiceBusMessage("x"),),
    "schedule_messages": (ServiceBusMessage("x"), datetime.now(UTC) + timedelta(hours=1)),
    "cancel_scheduled_messages": (1,),
    "create_message_batch": (),
}


async def test_every_call_raises_the_error_that_faulted_the_pair(world):
    clock = ManualClock()
    client = world.client(clock=clock, enable_pings=False)
    await world(client.open)
    sender = client.get_queue_sender("orders")
    await world(client.primary.fault, RuntimeError("the network is gone"))
    clock.advance(6)
    await world.until(lambda: client.state == "faulted")
    for owner, calls in ((client, CALLS), (sender, SENDS)):
        for name, arguments in calls.items():
            with pytest.raises(PairedNamespaceFaultedError):
                await world(getattr(owner, name), *arguments)


def test_every_public_call_of_a_client_is_among_them():
    found = inspect.getmembers(PairedServiceBusClient, inspect.isfunction)
    assert {name for name, _ in found if not name.startswith("_")} - {"close", "sdk_sender"} <= set(CALLS)


async def test_closing_stops_pings_then_the_syphon_then_both_ends(world, monkeypatch):
    client = await world.open(enable_syphon=True)
    await world.until(lambda: "syphon_started" in world.reported)
    order: list[str] = []
    client.on_event(lambda event: order.append(event.kind))

    pings = (client._pinger, "stop") if world.name == "sync" else (client.background, "cancel")
    for name, (owner, method) in {
        "pings": pings,
        "primary": (client.primary, "close"),
        "secondary": (client.secondary, "close"),
    }.items():
        noting(monkeypatch, owner, method, lambda name=name: order.append(name))
    await world(client.close)
    assert list(dict.fromkeys(order)) == ["pings", "syphon_stopped", "primary", "secondary"]


async def test_a_short_grace_shortens_the_closing_of_a_sender_whose_send_is_under_way(world, primary, queue):
    client = await world.open(enable_pings=False, close_grace=timedelta(seconds=0.2))
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("x"))
    primary.fault(entity=queue, operation="send", effect="silent")
    sending = asyncio.ensure_future(world(sender.send_messages, ServiceBusMessage("y")))
    await world.until(lambda: primary.hits() == [1])
    with Stopwatch() as watch:
        await world(sender.close)
    assert watch.took < 3.0
    await asyncio.wait([sending], timeout=60)
    if not sending.cancelled():
        sending.exception()


# The contract, section 2


async def test_neither_getting_nor_entering_a_sender_opens_anything(world, queue):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    if world.name == "sync":
        sender.__enter__()
    else:
        await sender.__aenter__()
    assert (client.primary.connections, client.secondary.connections) == (0, 0)
    await world(sender.send_messages, ServiceBusMessage("x"))
    assert client.primary.connections == 1
