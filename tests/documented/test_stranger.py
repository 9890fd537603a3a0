"""A stranger's first minutes: an empty folder, the packages, the program of the quickstart, a failover and back."""

import json
import re
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.documented.blocks import ROOT, block, fenced
from tests.documented.terminal import Terminal, empty_environment, terminal, until_that
from tests.pace import GUARD
from tests.ports import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
MOST_S = 180
"""A stranger's patience, on a quiet machine with a package index nearby."""
PAGE = "docs/quickstart.md"
GATEWAY = "docs/gateway.md"


def program() -> str:
    """The example of the page that is a program of its own."""
    (found,) = [text for language, text in fenced(ROOT / PAGE) if language == "python" and "os.environ" in text]
    return found


def sent(text: str) -> int:
    """How many messages the program says it has sent."""
    return len(re.findall(r"^sent \d+$", text, re.MULTILINE))


def stored(port: int, path: str) -> int:
    """How many messages wait in a queue of the local namespace at this port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/$emulator/stats", timeout=60) as answer:
        return int(json.load(answer).get(path, {}).get("active", 0))


def endpoints(text: str) -> list[str]:
    """The connection strings that a command has printed."""
    return re.findall(r"^ready \S+ (Endpoint=\S+)$", text, re.MULTILINE)


def connection_strings(text: str, prefix: str = "") -> dict[str, str]:
    """What the local namespaces print, under the names that the page gives it."""
    found = endpoints(text)
    return dict(zip((f"{prefix}PRIMARY", f"{prefix}SECONDARY"), found, strict=True)) if len(found) == 2 else {}


def test_a_stranger_sends_through_a_failover_within_three_minutes(dist: Path, room: Path) -> None:
    """The packages come from the folder that the build fills; what they require, from where pip gets it here."""
    began = time.monotonic()
    ports = {"contoso:5672": f"contoso:{free_port()}", "contoso-dr:5673": f"contoso-dr:{free_port()}"}
    port = int(ports["contoso:5672"].partition(":")[2])
    instead = {**ports, "127.0.0.1:5672": f"127.0.0.1:{port}"}
    variables = {**empty_environment(room / "environment"), "PIP_FIND_LINKS": str(dist)}
    with terminal(room / "empty", instead, variables) as first:
        install, _ = block(PAGE, 2).commands
        first.succeed(block(PAGE, 1).commands[0])
        first.succeed(install)
        namespaces = first.serve(block(PAGE, 2).commands[1])
        namespaces.until(connection_strings, "two connection strings are printed")

        send_through_a_failover(first, connection_strings(namespaces.text), port)

    assert time.monotonic() - began < GUARD * MOST_S


def send_through_a_failover(first: Terminal, strings: Mapping[str, str], port: int) -> None:
    break_it, mend_it = block(PAGE, 3).commands
    (first.folder / "program.py").write_text(program(), encoding="utf-8")
    with terminal(first.folder, first.instead, {**first.variables, **strings}) as second:
        running = second.serve("python program.py")
        running.until(sent, "the first message is sent")

        first.succeed(break_it)
        running.until(lambda text: "failed_over orders" in text, "the queue fails over")
        before = sent(running.text)
        running.until(lambda text: sent(text) >= before + 3, "messages are sent into the backlog")
        assert stored(port, "orders") <= before

        first.succeed(mend_it)
        running.until(lambda text: "recovered orders" in text, "the queue recovers")
        until_that(lambda: stored(port, "orders") == sent(running.text), "all that was sent is in the queue")


def test_a_stranger_sends_through_a_gateway_and_an_outage(dist: Path, room: Path) -> None:
    """With the unmodified SDK, and the connection string that the gateway prints."""
    ports = {name: str(free_port()) for name in ("5673", "5674")}
    anywhere = {"GATEWAY_LISTEN": "127.0.0.1:0", "GATEWAY_HEALTH": "127.0.0.1:0"}
    variables = {**empty_environment(room / "environment"), "PIP_FIND_LINKS": str(dist), **anywhere}
    install, start = block(GATEWAY, 2).commands
    break_it, look, mend_it = block(GATEWAY, 4).commands
    with terminal(room / "empty", ports, variables) as first:
        first.succeed(install)
        namespaces = first.serve(start)
        namespaces.until(connection_strings, "two connection strings are printed")
        (pairs,) = [text for language, text in fenced(ROOT / GATEWAY) if language == "toml"]
        (first.folder / "pairs.toml").write_text(pairs, encoding="utf-8")
        with terminal(first.folder, ports, {**variables, **connection_strings(namespaces.text, "CONTOSO_")}) as second:
            gateway = second.serve(block(GATEWAY, 3).commands[0])
            gateway.until(endpoints, "the gateway is ready")
            client = ServiceBusClient.from_connection_string(endpoints(gateway.text)[0])
            with client, client.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage("hello"))
                second.succeed(break_it)
                sender.send_messages(ServiceBusMessage("into the backlog"))
                assert "x-servicebus-transfer" in second.succeed(look)
                second.succeed(mend_it)
            until_that(lambda: stored(int(ports["5673"]), "orders") == 2, "both messages are in the queue")
