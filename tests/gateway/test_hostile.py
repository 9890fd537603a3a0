"""Clients that mean harm, all at once, while another one sends: no send fails or waits, and memory stays bounded."""

import contextlib
import re
import socket
import time
from pathlib import Path

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from amqp10 import performatives as p
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from emulator.running import running
from tests.amqp10.peer import SASL, SESSION, sent, source, target
from tests.benchmarks.processes import resident_bytes
from tests.gateway.running import gateway
from tests.gateway.test_away import backlog_queues
from tests.gateway.wire import Wire
from tests.pace import eventually

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
OPENING = SASL + AMQP_HEADER + sent(p.Open("hostile", max_frame_size=65536), channel=0) + SESSION


def attach(number, address):
    ends = source("x"), target(address)
    return sent(p.Attach(f"l{number}", number, False, 0, 1, *ends, initial_delivery_count=0))


def idle(wire):
    """Says nothing."""


def many_links(wire):
    wire.say(OPENING, *(attach(number, "orders") for number in range(10_000)))


def to_a_backlog(wire):
    wire.say(OPENING, *(attach(number, f"x-servicebus-transfer/{number}") for number in range(10)))
    wire.say(*(sent(p.Transfer(number, number, b"t", 0), b"\x00\x53\x75\xa0\x01x") for number in range(10)))


def oversized(wire):
    wire.say(OPENING, (2**31).to_bytes(4) + b"\x02\x00\x00\x01", bytes(2**20))


def never_ending(wire):
    part = sent(p.Transfer(0, 0, b"t", 0, more=True), bytes(60_000))
    wire.say(OPENING, attach(0, "orders"), *[part] * 1000)


def slow_writer(wire):
    wire.say(OPENING[:-5])


def test_nobody_else_is_disturbed(tmp_path, capfd):
    crowd = [idle] * 2000 + [many_links, to_a_backlog, oversized, never_ending, slow_writer] * 4
    with contextlib.ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, second = namespaces.values()
        through = stack.enter_context(gateway(tmp_path, primary.connection_string, secondary=second.connection_string))
        client = ServiceBusClient.from_connection_string(through.connection_string, retry_total=0)
        sender = stack.enter_context(stack.enter_context(client).get_queue_sender("orders"))
        sender.send_messages(ServiceBusMessage("before"))
        before, longest = resident_bytes(through.process.pid), 0.0
        for number, harm in enumerate(crowd):
            wire = Wire.to(through.connection_string)
            stack.callback(wire.socket.close)
            wire.socket.settimeout(0.5)
            with contextlib.suppress(OSError, socket.timeout):  # it is not read any more, or ended
                harm(wire)
            if number % 100 == 0 or harm is not idle:
                began = time.monotonic()
                sender.send_messages(ServiceBusMessage(str(number)))
                longest = max(longest, time.monotonic() - began)
        assert longest < 5
        assert resident_bytes(through.process.pid) - before < 150 * 2**20  # of which each idle client takes some 12 KB
        assert primary.stats()["orders"]["enqueued"] == 41
        assert sum(each["enqueued"] for each in second.stats().values()) == 0
    assert "Fatal error" not in capfd.readouterr().err


def test_what_is_kept_while_neither_namespace_answers_is_bounded(tmp_path):
    body = b"\x00\x53\x75\xb0" + (60_000).to_bytes(4) + bytes(60_000)
    with contextlib.ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, second = namespaces.values()
        through = stack.enter_context(gateway(tmp_path, primary.connection_string, secondary=second.connection_string))
        key = re.search("SharedAccessKey=([^;]*)", through.connection_string)[1]
        shown = frame(0, p.encode_performative(p.SaslInit("PLAIN", f"\0gateway\0{key}".encode())), SASL_FRAME)
        eventually(lambda: backlog_queues(second))
        stack.enter_context(primary.faulty("send", "silent"))
        stack.enter_context(second.faulty("send", "silent"))
        for _ in range(12):
            wire = Wire.to(through.connection_string)
            stack.callback(wire.socket.close)
            wire.say(SASL_HEADER, shown, OPENING.removeprefix(SASL), attach(0, "orders"))
            while wire.hear()[8:11] != b"\x00\x53\x13":  # flow
                pass
            wire.socket.settimeout(1)
            with contextlib.suppress(OSError):  # it ignores its credit, and is not read any more
                for number in range(2000):
                    wire.say(sent(p.Transfer(0, number, b"t", 0), body))
        eventually(lambda: re.search(r"refused_total\S* [1-9]", httpx.get(f"{through.health}/metrics").text), every_s=1)
        highest_kb = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{through.process.pid}/status").read_text())[1]
    assert int(highest_kb) < 384 * 1024  # the limit of a sidecar's pod
