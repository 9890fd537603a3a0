"""The library is typed, strictly, for those who use it: a user's program, right and wrong, under mypy --strict."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import azure.servicebus
import azure.servicebus.aio
import pytest

import pairing
import pairing.aio

pytest.importorskip("mypy", reason="mypy is among the tools of `make check`")

RIGHT = """
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Event as Stop
from typing import Any, Protocol, assert_type

from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.aio import ServiceBusSender as ServiceBusSenderOfAsyncio

import pairing.aio
from pairing import (
    BacklogUnavailableError, EntityHealth, Event, Fault, PairedMessageBatch, PairedSender, PairedServiceBusClient,
    PingResult, SendAvailabilityOptions, State, Syphon, classify, is_ping,
)
from pairing.testing import InMemoryNamespace, InMemoryPairedClient, ManualClock


def forgiving(error: BaseException, *, known: bool) -> Fault:
    return classify(error, known=known)


options = SendAvailabilityOptions(failover_interval=timedelta(0), classify=forgiving, server_busy="wait")


def tell(event: Event) -> None:
    print(event.kind, event.entity, event.time.isoformat())


class Sending(Protocol):
    def send_messages(self, message: ServiceBusMessage, *, timeout: float | None = None, **kwargs: Any) -> None: ...

    def schedule_messages(
        self, messages: ServiceBusMessage, schedule_time_utc: datetime, *, timeout: float | None = None, **kwargs: Any
    ) -> list[int]: ...

    def cancel_scheduled_messages(
        self, sequence_numbers: int | list[int], *, timeout: float | None = None, **kwargs: Any
    ) -> None: ...


def of_the_sdk(sender: ServiceBusSender, by_protocol: Sending) -> str:
    return sender.entity_name


def blocking(primary: str, secondary: str) -> Sequence[int]:
    with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
        assert_type(client, PairedServiceBusClient)
        client.on_event(tell)()
        assert_type(client.health(), list[EntityHealth])
        with client.get_queue_sender("orders") as sender:
            assert_type(sender, PairedSender)
            try:
                sender.send_messages(ServiceBusMessage("hello"), timeout=5)
                sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
            except BacklogUnavailableError as error:
                print(error.entity, {path: str(cause) for path, cause in error.errors.items()})
            batch = sender.create_message_batch()
            assert_type(batch, PairedMessageBatch)
            batch.add_message(ServiceBusMessage("x"))
            sender.send_messages(batch)
            of_the_sdk(sender, sender)
            numbers = sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC))
            assert_type(numbers, list[int])
            sender.cancel_scheduled_messages(numbers)
        receiver = client.get_queue_receiver("orders", max_wait_time=5)
        assert_type(receiver, ServiceBusReceiver)
        health = client.entity_health("orders")
        assert_type(health, EntityHealth)
        assert_type(health.state, State)
        client.fail_over("orders", "maintenance", expires=timedelta(hours=1))
        assert_type(client.ping("orders"), PingResult)
        assert_type(client.backlog_queue_count, int)
        Syphon(client).run(Stop())
        return numbers


async def awaited(primary: str, secondary: str) -> None:
    async with pairing.aio.PairedServiceBusClient.from_connection_string(primary, secondary) as client:
        async with client.get_topic_sender("news") as sender:
            assert_type(sender, pairing.aio.PairedSender)
            of_asyncio: ServiceBusSenderOfAsyncio = sender
            await sender.send_messages(ServiceBusMessage("hello"))
            assert_type(await sender.create_message_batch(), PairedMessageBatch)
        await pairing.aio.Syphon(client).run(asyncio.Event())


def faked() -> bool:
    clock = ManualClock()
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b"), clock=clock) as client:
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        return is_ping(client.namespaces["primary"].messages("orders")[0])
"""

WRONG = {
    "an option that there is not": "SendAvailabilityOptions(failover_intervall=timedelta(0))",
    "an option of the wrong type": "SendAvailabilityOptions(failover_interval=60)",
    "a choice that there is not": 'SendAvailabilityOptions(server_busy="ignore")',
    "a keyword that a send does not take": 'sender.send_messages(ServiceBusMessage("x"), time_out=5)',
    "a message of the wrong type": "sender.send_messages(3)",
    "a name that the library does not have": "pairing.Siphon",
    "a name that it does not have in asyncio": "pairing.aio.Siphon",
    "a result that is not one": 'numbers: str = sender.schedule_messages(ServiceBusMessage("x"), datetime.now(UTC))',
}
WRONG_PROGRAM = """
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusMessage

import pairing
import pairing.aio
from pairing import PairedSender, SendAvailabilityOptions


def use(sender: PairedSender) -> None:
    """ + "\n    ".join(WRONG.values())


@pytest.fixture(scope="module")
def checked(tmp_path_factory, pytestconfig):
    """What mypy says of both; what it knows of the SDK and of the library it keeps for the next run."""
    directory = tmp_path_factory.mktemp("program")
    (directory / "right.py").write_text(RIGHT)
    (directory / "wrong.py").write_text(WRONG_PROGRAM)
    (directory / "mypy.ini").write_text("[mypy]\n")
    cache = str(pytestconfig.cache.mkdir("mypy"))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", cache]
    root = Path(pairing.__file__).parent.parent
    reported = subprocess.run(
        [*command, "--config-file", "mypy.ini", "right.py", "wrong.py"],
        env={**os.environ, "MYPYPATH": str(root)},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert not reported.stderr, reported.stderr
    return reported.stdout.splitlines()


def test_a_users_program_is_free_of_errors_under_strict_typing(checked):
    assert [line for line in checked if line.startswith("right.py") and ": error:" in line] == []


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_reported_before_it_runs(checked, what):
    line = WRONG_PROGRAM.splitlines().index("    " + WRONG[what]) + 1
    assert [reported for reported in checked if reported.startswith(f"wrong.py:{line}: error:")]


# The SDK's signatures, ours beside them


def annotated(function):
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


WORLDS = [
    pytest.param(pairing, azure.servicebus, id="blocking"),
    pytest.param(pairing.aio, azure.servicebus.aio, id="asyncio"),
]
SENDER = ["send_messages", "schedule_messages", "cancel_scheduled_messages", "create_message_batch", "close"]
CLIENT = ["get_queue_sender", "get_topic_sender", "list_queue_sessions", "list_subscription_sessions", "close"]
SIGNATURES = [
    *(("PairedSender", "ServiceBusSender", name) for name in SENDER),
    *(("PairedServiceBusClient", "ServiceBusClient", name) for name in CLIENT),
]


@pytest.mark.parametrize(("ours", "theirs"), WORLDS)
@pytest.mark.parametrize(("paired", "plain", "name"), SIGNATURES)
def test_arguments_are_the_sdks_in_kind_and_default(ours, theirs, paired, plain, name):
    mine, sdks = getattr(getattr(ours, paired), name), getattr(getattr(theirs, plain), name)
    assert annotated(mine) == annotated(sdks)
    assert inspect.iscoroutinefunction(mine) == inspect.iscoroutinefunction(sdks)


@pytest.mark.parametrize(("ours", "theirs"), WORLDS)
@pytest.mark.parametrize(("paired", "plain"), dict.fromkeys(row[:2] for row in SIGNATURES))
def test_every_public_name_of_the_sdk_is_there(ours, theirs, paired, plain):
    public = {name for name in dir(getattr(theirs, plain)) if not name.startswith("_")}
    assert public <= set(dir(getattr(ours, paired)))


@pytest.mark.parametrize(("ours", "theirs"), WORLDS)
@pytest.mark.parametrize("name", ["get_queue_receiver", "get_subscription_receiver"])
def test_a_receivers_arguments_are_the_sdks(ours, theirs, name):
    """They are handed on as they come: the SDK itself takes or refuses each of them."""
    mine, sdks = getattr(ours.PairedServiceBusClient, name), getattr(theirs.ServiceBusClient, name)
    named = [p for p in annotated(mine) if p[0] != "self"]
    assert named == [p for p in annotated(sdks) if p[0] != "self"][: len(named)]
    assert any(p.kind is p.VAR_KEYWORD for p in inspect.signature(mine).parameters.values())


@pytest.mark.parametrize("name", ["PairedSender", "PairedServiceBusClient"])
def test_both_worlds_have_the_same_names_and_arguments(name):
    def public(class_):
        found = inspect.getmembers(class_, inspect.isfunction)
        return {member: annotated(function) for member, function in found if not member.startswith("_")}

    assert public(getattr(pairing, name)) == public(getattr(pairing.aio, name))
