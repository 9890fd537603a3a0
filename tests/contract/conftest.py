"""The namespace the contract is checked against: the emulator, or a real one named by SERVICEBUS_CONNECTION_STRING."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential

from emulator.running import running
from tests.contract.worlds import Asyncio, Blocking, asyncio_world
from tests.prompt_links import without_pauses  # noqa: F401


@pytest.fixture(scope="session")
def connection_string() -> Iterator[str]:
    """Where the namespace is and how to be let in."""
    real = os.environ.get("SERVICEBUS_CONNECTION_STRING")
    if real:
        yield real
    else:
        with running_emulator() as local:
            yield local


@contextmanager
def running_emulator(*arguments: str) -> Iterator[str]:
    """An emulator process with one namespace; its connection string."""
    with running("contract", arguments=arguments) as namespaces:
        yield namespaces["contract"].connection_string


def with_signature(connection_string: str) -> str:
    """The connection string with a signature that opens the whole namespace, instead of the key."""
    endpoint, *settings = connection_string.strip(";").split(";")
    values = dict(setting.split("=", 1) for setting in settings)
    credential = ServiceBusSharedKeyCredential(values.pop("SharedAccessKeyName"), values.pop("SharedAccessKey"))
    signature = credential.get_token(endpoint.partition("=")[2]).token
    return ";".join([endpoint, f"SharedAccessSignature={signature}", *(f"{k}={v}" for k, v in values.items())])


@pytest.fixture(scope="session")
def emulator_with() -> Callable[..., AbstractContextManager[str]]:
    """Runs another emulator with these arguments, as a context manager that gives its connection string."""
    return running_emulator


@pytest.fixture(scope="session", params=["blocking", "asyncio"])
def world(request: pytest.FixtureRequest) -> Iterator[Blocking | Asyncio]:
    """Which of the SDK's two worlds a test runs in: each runs in both."""
    if request.param == "blocking":
        yield Blocking()
    else:
        with asyncio_world() as asyncio:
            yield asyncio


@pytest.fixture(scope="session")
def administration_with(world: Blocking | Asyncio, connection_string: str) -> Iterator[Callable[..., Any]]:
    """Makes administration clients.

    `wrong="key"` or `"name"` spoils the credential, `signed=True` replaces it by a signature of its own, `text`
    replaces the connection string, the rest goes to the SDK.
    """
    clients: list[Any] = []

    def make(*, wrong: str | None = None, signed: bool = False, text: str = "", **options: Any) -> Any:
        text = text or (with_signature(connection_string) if signed else connection_string)
        if wrong:
            field = {"key": "SharedAccessKey", "name": "SharedAccessKeyName"}[wrong]
            text = re.sub(rf"\b{field}=[^;]*", f"{field}=wrong", text)

        def made(class_: Any) -> Any:
            transport = {"transport": world.transport()} if "UseDevelopmentEmulator=true" in text else {}
            return class_.from_connection_string(text, **(transport | options))

        clients.append(world.administration(made))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def administration(administration_with: Callable[..., Any]) -> Any:
    """The administration client all tests share."""
    return administration_with()


@pytest.fixture(scope="session")
def connect(world: Blocking | Asyncio) -> Callable[..., Any]:
    """Makes messaging clients, from a connection string or a host and a credential; errors come at once."""

    def make(text: str, credential: Any = None, **options: Any) -> Any:
        options = {"retry_total": 0} | options
        if credential is None:
            return world.client(lambda class_: class_.from_connection_string(text, **options))
        return world.client(lambda class_: class_(text, credential, **options))

    return make


@pytest.fixture(scope="session")
def client(connect: Callable[..., Any], connection_string: str) -> Iterator[Any]:
    """The messaging client all tests share."""
    with connect(connection_string) as shared:
        yield shared


@pytest.fixture(scope="module")
def make_queue(administration: Any) -> Iterator[Callable[..., str]]:
    """Creates queues with the properties given, for one module; returns their names."""
    names: list[str] = []

    def make(**properties: Any) -> str:
        names.append(f"contract/{uuid4().hex}")
        administration.create_queue(names[-1], **properties)
        return names[-1]

    yield make
    for name in names:
        administration.delete_queue(name)


@pytest.fixture(scope="module")
def queue(make_queue: Callable[..., str]) -> str:
    """The queue of a file; most have one of their own, with its properties."""
    return make_queue()


@pytest.fixture(scope="module")
def sender(client: Any, queue: str) -> Iterator[Any]:
    with client.get_queue_sender(queue) as sender:
        yield sender


@pytest.fixture(scope="module")
def receiver(client: Any, queue: str) -> Iterator[Any]:
    with client.get_queue_receiver(queue) as receiver:
        yield receiver
