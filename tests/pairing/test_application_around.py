"""What the application around the library does, or can no longer do, is neither waited for nor taken for an outage."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from types import SimpleNamespace

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from pairing import SendAvailabilityOptions
from pairing.events import Event
from pairing.links import sockets
from pairing.operations.maintenance import Maintenance
from pairing.operations.threads import Threads
from pairing.sessions.gates import SessionGates
from pairing.telemetry.callbacks import Callbacks
from tests.pace import GUARD
from tests.pairing.test_ways_to_a_namespace import KEY

pytestmark = pytest.mark.sampled("world")

EVENT = Event("0" * 32, None, "contoso", "orders", "failing", "away", "host:1:abc")


async def test_sends_to_a_backlog_queue_that_would_wait_for_each_other_have_links_of_their_own(world, queue):
    client = await world.open(backlog_queue_count=1, enable_pings=False)
    client.fail_over(queue, "drill")
    world.secondary.fault(operation="send", effect="silent")
    senders = [client.get_queue_sender(queue) for _ in range(4)]
    sends = [asyncio.create_task(world(sender.send_messages, ServiceBusMessage("x"))) for sender in senders]
    await world.until(lambda: world.secondary.hits() == [4])
    world.secondary.mend()
    await asyncio.gather(*sends, return_exceptions=True)
    links = client._links_of("secondary")
    for link in links:
        await world(link.maintain, time.monotonic() + 3600)
    assert len(links) >= 4
    assert sum(link.sender is not None for link in links) <= 1


async def test_a_send_does_not_wait_for_a_callback(world, primary, queue):
    client, gate, returned = await world.open(enable_pings=False), threading.Event(), []
    client.pair_state.on_event = client._callbacks.report
    client.on_event(lambda event: returned.append(gate.wait(GUARD * 20)))
    primary.fault(entity=queue, operation="send", effect="reject")
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    assert not returned
    gate.set()


def report_a_session(shared):
    gates = SessionGates(shared, "host:1:abc", endangered=list, at_risk=print)
    return lambda: gates.left("orders\0a", "token", stored=True)


def warm_a_link(_):
    maintenance = Maintenance(SimpleNamespace(_runtime=Threads()))
    return lambda: maintenance.warm("backlog/0")


@pytest.mark.parametrize("part_of_a_send", [report_a_session, warm_a_link])
def test_a_signal_handler_that_sends_does_not_wait_for_the_send_that_it_interrupts(shared, part_of_a_send):
    send = part_of_a_send(shared)

    def interrupt(frame, event, arg):
        sys.settrace(None)
        send()
        sys.settrace(interrupt)
        return interrupt

    def interrupted():
        sys.settrace(interrupt)
        send()
        sys.settrace(None)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(GUARD * 20)
    assert not thread.is_alive()


def test_a_callback_that_raises_anything_is_called_again_and_keeps_no_other_from_being_called():
    callbacks, called = Callbacks(), []
    callbacks.add(lambda event: sys.exit())
    callbacks.add(called.append)
    for _ in range(2):
        callbacks.report(EVENT)
        callbacks.wait(GUARD * 60)
    assert called == [EVENT, EVENT]


async def test_sessions_do_not_wait_for_the_event_loops_own_threads(make_world, queue, redis_url):
    world, gate, loop = make_world("asyncio"), threading.Event(), asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    loop.run_in_executor(None, gate.wait)
    try:
        client = await world.open(coordination=redis_url, preserve_session_order=True)
        client.fail_over(queue, "drill")
        await client.get_queue_sender(queue).send_messages(ServiceBusMessage("x", session_id="a"))
    finally:
        gate.set()
        await world.close()


async def with_credential(world, credential):
    """An open client that asks this credential for the primary."""
    hosts = [f"127.0.0.1:{namespace.port}" for namespace in (world.primary, world.secondary)]
    options = SendAvailabilityOptions(
        primary_namespace="hanging", secondary_namespace="dr", backlog_queue_count=1, failover_interval=timedelta(0)
    )
    key = AzureNamedKeyCredential("RootManageSharedAccessKey", KEY)
    client = world.module.PairedServiceBusClient(
        *hosts, credential, secondary_credential=key, options=options, use_tls=False
    )
    world.clients.append(client)
    await world(client.open)
    return client


@pytest.mark.parametrize("given", [SystemExit(2), StopIteration(), asyncio.CancelledError(), None], ids=repr)
async def test_a_credential_that_raises_or_returns_anything_gives_no_token(world, queue, given):
    def refuse(*scopes, **options):
        if given is not None:
            raise given

    async def refuse_later(*scopes, **options):
        refuse()

    client = await with_credential(world, SimpleNamespace(get_token=refuse if world.name == "sync" else refuse_later))
    with pytest.raises(ServiceBusError):
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    assert "gives no token" in client.entity_health(queue).reason


async def test_a_credential_that_does_not_answer_keeps_few_threads_and_is_no_outage(world, queue):
    gate, aio_gate = threading.Event(), asyncio.Event()

    class Hanging:
        def get_token(self, *scopes, **options):
            return gate.wait() if world.name == "sync" else aio_gate.wait()

    client = await with_credential(world, Hanging())
    senders = [client.get_queue_sender(queue) for _ in range(12)]
    sends = [world(sender.send_messages, ServiceBusMessage("x"), timeout=20) for sender in senders]
    errors = await asyncio.gather(*sends, return_exceptions=True)
    await world.until(lambda: sum(t.name in ("pairing-opening", "pairing-token") for t in threading.enumerate()) <= 8)
    assert [error for error in errors if not isinstance(error, ServiceBusError)] == []
    health = client.entity_health(queue)
    assert (health.state, "gives no token" in health.reason) == ("healthy", True)
    gate.set()


async def test_a_primary_that_answers_with_another_protocol_is_an_outage(world, primary, queue):
    def answer(server):
        with suppress(OSError):  # it is closed with the test
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(8)
                    connection.sendall(b"AMQP\0\0\x09\1")

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        elsewhere = SimpleNamespace(connection_string=primary.connection_string.replace(f":{primary.port}", f":{port}"))
        world.primary = elsewhere
        client = await world.open(enable_pings=False)
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
        assert client.entity_health(queue).state == "failed_over"


AT_THE_END = """
import sys
from azure.servicebus import ServiceBusMessage
import pairing
options = pairing.SendAvailabilityOptions(primary_namespace="ending", secondary_namespace="dr", backlog_queue_count=1)
client = pairing.PairedServiceBusClient.from_connection_string(*sys.stdin.read().split(), options=options)
client.open()

class SendsAtTheEnd:
    def __del__(self, sender=client.get_queue_sender("q"), message=ServiceBusMessage("x")):
        try:
            sender.send_messages(message)
        except RuntimeError as error:
            print(error, flush=True)

sys.modules["kept"] = SendsAtTheEnd()
"""


def test_a_send_at_the_end_of_the_interpreter_is_refused(primary, secondary):
    strings = f"{primary.connection_string}\n{secondary.connection_string}"
    command = [sys.executable, "-c", AT_THE_END]
    ended = subprocess.run(command, input=strings, capture_output=True, text=True, timeout=GUARD * 60, check=True)
    assert ended.stdout == "can't create new thread at interpreter shutdown\n"


WITH_FEW_DESCRIPTORS = """
import os, resource, sys, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
from azure.servicebus import ServiceBusMessage
import pairing
from tests.prompt_links import prompt_links

primary, secondary, *paths = sys.stdin.read().split()
options = pairing.SendAvailabilityOptions(primary_namespace="few", secondary_namespace="dr", backlog_queue_count=1)
client = pairing.PairedServiceBusClient.from_connection_string(primary, secondary, options=options)
with prompt_links(), client:
    events, taken, stop = set(), [], threading.Event()
    syphon = threading.Thread(target=pairing.Syphon(client).run, args=[stop])
    client.on_event(lambda event: events.add(event.kind))
    for path in paths:
        client.fail_over(path, "drill")
        client.get_queue_sender(path).send_messages(ServiceBusMessage("x"))
        client.mark_healthy(path)
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        syphon.start()
    try:
        client.get_queue_sender(paths[0]).send_messages(ServiceBusMessage("x"))
    except Exception as error:
        print(type(error).__name__)
    while "out_of_resources" not in events:
        time.sleep(0.01)
    for descriptor in taken:
        os.close(descriptor)
    look = client.secondary.administration.get_queue_runtime_properties
    while look(client.backlog_paths[0]).total_message_count:
        time.sleep(0.05)
    print(*sorted(events), *{health.state.value for health in client.health()}, pairing.options.MOST_LINKS)
    stop.set()
    syphon.join()
"""


def test_a_process_without_descriptors_tells_it_fails_nothing_over_and_drains_to_more_destinations_than_it_has(
    primary, secondary
):
    paths = [primary.create_queue() for _ in range(60)]
    strings = "\n".join([primary.connection_string, secondary.connection_string, *paths])
    command = [sys.executable, "-c", WITH_FEW_DESCRIPTORS]
    ended = subprocess.run(command, input=strings, capture_output=True, text=True, timeout=GUARD * 100, check=True)
    assert ended.stdout.split() == (
        ["ServiceBusConnectionError", "forced", "out_of_resources", "recovered", "syphon_started", "healthy", "12"]
    )
    assert {primary.stats(path)["enqueued"] for path in paths} == {1}


def test_the_socket_of_eventlet_is_interrupted(monkeypatch):
    ours, theirs = socket.socketpair()
    green = type("GreenSocket", (), {"fd": ours})
    monkeypatch.setattr(sockets.socket, "socket", green)
    sockets.break_transport(
        SimpleNamespace(_handler=SimpleNamespace(_connection=SimpleNamespace(_transport=SimpleNamespace(sock=green()))))
    )
    monkeypatch.undo()
    assert theirs.recv(1) == b""
    ours.close(), theirs.close()
