"""Clients send through a gateway while the primary namespace cannot be reached at all."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from emulator.running import RunningNamespace, running
from tests.emulator.clients.programs import sends
from tests.gateway.running import gateway
from tests.ports import free_port

pytestmark = pytest.mark.slow
COUNT = 60


class Primary:
    """A namespace in a process of its own, and the network before it."""

    def __init__(self, folder, stack):
        self._folder, self._stack = folder, stack
        self._port, listens = free_port(), free_port()
        route = [sys.executable, "-m", "tests.campaign.network", f"primary={listens}:{self._port}"]
        self._network = self._run(route, stdin=subprocess.PIPE)
        assert self._network.stdout.readline() == "ready\n"
        self.start()
        self.through_network = re.sub(r":\d+;", f":{listens};", self.own.connection_string, count=1)

    def start(self):
        command = [sys.executable, "-m", "emulator", "--namespace", f"contoso:{self._port}", "--store", self._folder]
        self._process = self._run([*command, "--entity", "contoso/orders"])
        self.own = RunningNamespace("contoso", self._process.stdout.readline().split(" ", 2)[2].strip())

    def _run(self, command, **more):
        process = self._stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more))
        self._stack.callback(process.kill)
        return process

    def fail(self, how):
        if how == "killed":
            self._process.kill()
            self._process.wait()
        else:
            self._disturb(how)

    def come_back(self, how):
        if how == "killed":
            self.start()
        else:
            self._disturb("mend")

    def _disturb(self, effect):
        self._network.stdin.write(json.dumps({"route": "primary", "effect": effect}) + "\n")
        self._network.stdin.flush()


class Program:
    """Sends of another language; those of .NET are made by themselves."""

    def __init__(self, language, connection_string, count=10**6, every_ms=500):
        argv, more = sends(language, connection_string, count, "--every", str(every_ms))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(argv, env=os.environ | more, **pipes)

    def ask(self, number):
        with contextlib.suppress(BrokenPipeError):
            print(f"orders {number} eA==", file=self._process.stdin, flush=True)
        return self._process.stdout.readline()

    def end(self):
        with self._process:
            self._process.kill()


@pytest.fixture
def pair(tmp_path):
    with contextlib.ExitStack() as stack:
        secondary = stack.enter_context(running("contoso-dr"))["contoso-dr"]
        yield Primary(str(tmp_path / "store"), stack), secondary


def backlog(namespace):
    return sum(each["enqueued"] for path, each in namespace.stats().items() if "transfer" in path)


def received(connection_string, count):
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_receiver("orders") as receiver,
    ):
        found = []
        while len(found) < count and (some := receiver.receive_messages(count, max_wait_time=30)):
            for message in some:
                receiver.complete_message(message)
                found.append(message)
    return found


@pytest.mark.parametrize("how", ["killed", "cut", pytest.param("half_open", marks=pytest.mark.nightly)])
def test_clients_send_while_the_primary_is_away_and_everything_comes_home(pair, tmp_path, how):
    primary, secondary = pair

    async def send(connection_string, *texts):
        async with (
            AsyncServiceBusClient.from_connection_string(connection_string) as client,
            client.get_queue_sender("orders") as sender,
        ):
            for text in texts:
                await sender.send_messages(ServiceBusMessage(text))

    options = (primary.through_network, "--enable-syphon")
    with gateway(tmp_path, *options, secondary=secondary.connection_string) as through:
        while not backlog_queues(secondary):
            pass
        with (
            ServiceBusClient.from_connection_string(through.connection_string, retry_total=0) as client,
            ServiceBusClient.from_connection_string(through.connection_string) as patient,
            client.get_queue_sender("orders") as sender,
            patient.get_queue_sender("orders") as other,
        ):
            sender.send_messages(ServiceBusMessage("before"))
            other.send_messages(ServiceBusMessage("before, too"))
            primary.fail(how)
            for number in range(3):
                sender.send_messages(ServiceBusMessage(f"old {number}"))
            asyncio.run(send(through.connection_string, "new 0", "new 1"))
            assert backlog(secondary) == 5
            primary.come_back(how)
            found = received(through.connection_string, 7)
            other.send_messages(ServiceBusMessage("after"))
            found += received(through.connection_string, 1)
        expected = ["after", "before", "before, too", "new 0", "new 1", "old 0", "old 1", "old 2"]
        assert sorted(map(str, found)) == expected


@pytest.mark.nightly
@pytest.mark.parametrize("language", ["JavaScript", "Go", "Java", ".NET"])
def test_each_sdk_sends_through_an_outage(pair, tmp_path, language):
    primary, secondary = pair
    options = (primary.own.connection_string, "--enable-syphon")
    with gateway(tmp_path, *options, secondary=secondary.connection_string) as through:
        while not backlog_queues(secondary):
            pass
        client = Program(language, through.connection_string, COUNT, 100)
        lines = [client.ask(number) for number in range(10)]
        primary.fail("killed")
        lines += [client.ask(number) for number in range(10, 40)]
        assert backlog(secondary) > 0
        primary.come_back("killed")
        lines += [client.ask(number) for number in range(40, COUNT)]
        client.end()
        assert [line for line in lines if line.startswith("failed ")] == []
        found = received(through.connection_string, COUNT)
    assert sorted(int(message.message_id.strip("m")) for message in found) == [*range(COUNT)]


def backlog_queues(namespace):
    return [path for path in namespace.stats() if "transfer" in path]
