"""Every Python example of the documentation runs as it is printed, against local namespaces.

An example may use names that its page introduces in words, like PRIMARY or `client`; each page's test supplies those.
"""

import ast
import asyncio
import inspect
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import CodeType, ModuleType
from typing import Any

import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

from emulator.running import RunningNamespace, running
from pairing import PairedServiceBusClient, SendAvailabilityOptions

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 120


def examples(page: str) -> list[CodeType]:
    """The examples of a page, in their order; they may await."""
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [
        compile(dedent(block), f"{page}, example {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for number, (_, block) in enumerate(blocks, 1)
    ]


def run(example: CodeType, names: dict[str, Any]) -> None:
    """Run one; what it defines is there for those after it."""
    result = eval(example, names)  # the documentation's own text
    if inspect.iscoroutine(result):
        asyncio.run(result)


def at(address: str, example: CodeType) -> CodeType:
    """The same for a namespace that does not have the port of the documentation."""
    constants = [
        each.replace("127.0.0.1:5672", address) if isinstance(each, str) else each for each in example.co_consts
    ]
    return example.replace(co_consts=tuple(constants))


def run_until(done: Callable[[], bool], example: CodeType, names: dict[str, Any]) -> None:
    """Run one that returns once its event `stop` is set, which happens when this is so."""
    names.pop("stop", None)
    thread = threading.Thread(target=run, args=(example, names), daemon=True)
    thread.start()
    until = time.monotonic() + PATIENCE_S
    while not ("stop" in names and done()) and time.monotonic() < until:
        time.sleep(0.01)
    names["stop"].set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def without_pauses() -> ModuleType:
    """The module `time` for an example that waits between its sends, so that somebody can watch it."""
    found = ModuleType("time")
    found.__dict__.update(vars(time), sleep=lambda seconds: None)
    return found


def enqueued(namespace: RunningNamespace) -> int:
    """How many messages its queue `orders` has taken."""
    return int(namespace.stats().get("orders", {}).get("enqueued", 0))


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RunningNamespace, RunningNamespace]]:
    with running("contoso", "contoso-dr", entities=["contoso/orders", "contoso-dr/orders"]) as namespaces:
        yield namespaces["contoso"], namespaces["contoso-dr"]


@pytest.fixture
def strings(pair, monkeypatch) -> tuple[str, str]:
    """Connection strings by whose host the library knows a namespace's name, as it does in Azure."""
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: look_up(_loopback(host), *rest, **more))
    return tuple(one.connection_string.replace("127.0.0.1", f"{one.name}.localhost") for one in pair)  # type: ignore[return-value]


def _loopback(host: Any) -> Any:
    return "127.0.0.1" if str(host).endswith(".localhost") else host


@pytest.fixture
def client(strings) -> Iterator[PairedServiceBusClient]:
    with PairedServiceBusClient.from_connection_string(*strings) as client:
        yield client


def test_these_pages_have_examples() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found = {str(page.relative_to(ROOT)): len(examples(str(page.relative_to(ROOT)))) for page in pages}

    assert {page: count for page, count in found.items() if count} == {
        "README.md": 1,
        "docs/contract.md": 1,
        "docs/day-two.md": 1,
        "docs/emulator.md": 3,
        "docs/gateway-clients.md": 1,
        "docs/migration.md": 2,
        "docs/options.md": 2,
        "docs/quickstart.md": 8,
        "docs/syphon.md": 3,
    }


def test_the_examples_of_the_quickstart(pair, strings, client, capsys, monkeypatch) -> None:
    send, credentials, send_asynchronously, host_it, run_syphon, observe, program, in_memory = examples(
        "docs/quickstart.md"
    )
    names: dict[str, Any] = {"PRIMARY": strings[0], "SECONDARY": strings[1]}
    before = enqueued(pair[0])

    run(send, names)
    run(send_asynchronously, names)
    assert enqueued(pair[0]) == before + 2
    names["SendAvailabilityOptions"] = SendAvailabilityOptions
    run(host_it, names)
    assert names["options"].enable_syphon

    names["client"] = client
    run_until(lambda: True, run_syphon, names)
    run(observe, names)
    client.close()
    assert "forced orders maintenance" in capsys.readouterr().out

    monkeypatch.setitem(sys.modules, "time", without_pauses())
    for name, string in zip(("PRIMARY", "SECONDARY"), strings, strict=True):
        monkeypatch.setenv(name, string)
    before = enqueued(pair[0])
    run(program, {})
    monkeypatch.undo()
    assert enqueued(pair[0]) == before + 60

    run(in_memory, names)
    run(credentials, {"PairedServiceBusClient": PairedServiceBusClient})


@pytest.mark.parametrize("page", ["README.md", "docs/contract.md"])
def test_the_example_that_shows_the_client(page, pair, strings) -> None:
    before = enqueued(pair[0])

    run(*examples(page), {"PRIMARY": strings[0], "SECONDARY": strings[1]})

    assert enqueued(pair[0]) == before + 1


def test_the_example_of_new_keys() -> None:
    """What a client does with them is in test_rotated_keys.py."""
    names: dict[str, Any] = {
        "PairedServiceBusClient": PairedServiceBusClient,
        "KEY_1": "one",
        "KEY_2": "two",
        "NEW_KEY_1": "three",
    }

    run(*examples("docs/day-two.md"), names)

    assert names["primary_key"].named_key == ("sender", "three")


def test_the_examples_of_the_options() -> None:
    proxy, classify = examples("docs/options.md")
    credential = AzureSasCredential("SharedAccessSignature sr=…")

    run(proxy, {"PairedServiceBusClient": PairedServiceBusClient, "credential": credential})
    names: dict[str, Any] = {}
    run(classify, names)
    assert names["options"].classify(OSError("planned maintenance"), known=True) is names["Fault"].BUSY


def test_the_examples_of_the_syphon(pair, strings, redis_url) -> None:
    before = enqueued(pair[0])
    drain, ledger, pace = examples("docs/syphon.md")
    options = SendAvailabilityOptions(backlog_queue_count=1, coordination=redis_url)
    with PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        client.fail_over("orders", "an example")
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("kept"))
        client.mark_healthy("orders")
        names: dict[str, Any] = {"client": client, "queue": client.backlog_paths[0], "active": 0, "deferred": 0}
        run_until(lambda: pair[1].stats()[names["queue"]]["completed"] == 1, drain, names)
        assert enqueued(pair[0]) == before + 1
        run(ledger, names)
        assert (names["balance"].enqueued, names["balance"].missing) == (1, 0)
        run(pace, names)
        assert client.coordination.shared.paces() == {}


def test_the_examples_of_a_migration(pair, strings) -> None:
    geo_dr, fallback = examples("docs/migration.md")
    names: dict[str, Any] = {
        "ServiceBusClient": ServiceBusClient,
        "credential": AzureSasCredential("SharedAccessSignature sr=…"),
        "PairedServiceBusClient": lambda *_: PairedServiceBusClient.from_connection_string(*strings),
    }
    run(geo_dr, names)
    with names["client"] as client, client.get_queue_sender("orders") as sender:
        connect = partial(ServiceBusClient.from_connection_string, retry_total=0)
        with (
            connect(pair[0].connection_string) as primary,
            connect(pair[1].connection_string) as secondary,
            secondary.get_queue_sender("orders") as kept,
        ):
            refused = primary.get_queue_sender("no-such-queue")
            before = enqueued(pair[1])
            names |= {"ServiceBusError": ServiceBusError, "sender": sender, "fallback_sender": kept}
            message = ServiceBusMessage("kept", application_properties={"at": datetime.now().isoformat()})
            run(fallback, names | {"primary_sender": refused, "message": message})

            assert enqueued(pair[1]) == before + 1


def test_the_examples_of_the_emulator(pair) -> None:
    tests, administration, over_websockets = examples("docs/emulator.md")

    def send_an_order(connection_string: str) -> bool:
        with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
            try:
                client.get_queue_sender("orders").send_messages(ServiceBusMessage("hello"), timeout=1)
            except ServiceBusError:
                return False
        return True

    names: dict[str, Any] = {"send_an_order": send_an_order}
    run(tests, names)
    with running("mine", entities=["mine/orders"]) as fresh:
        names["test_a_message_arrives"](fresh["mine"])
        names["test_my_sender_reports_a_namespace_that_does_not_answer"](fresh["mine"])

    run(
        administration,
        names
        | {
            "ServiceBusAdministrationClient": ServiceBusAdministrationClient,
            "connection_string": pair[0].connection_string,
        },
    )

    [address] = re.findall(r"sb://([^;/]+)", pair[0].connection_string)
    names = {"ServiceBusClient": ServiceBusClient, "TransportType": TransportType}
    names["connection_string"] = pair[0].connection_string
    run(at(address, over_websockets), names)
    before = enqueued(pair[0])
    with names["client"] as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("hello"))
    assert enqueued(pair[0]) == before + 1


def test_the_example_of_the_clients_of_a_gateway(strings) -> None:
    [client] = examples("docs/gateway-clients.md")
    run(client, {"ServiceBusClient": ServiceBusClient, "TransportType": TransportType, "connection_string": strings[0]})
