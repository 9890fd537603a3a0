"""The namespace the contract is checked against: the emulator, or a real one named by SERVICEBUS_CONNECTION_STRING."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
from azure.servicebus import ServiceBusClient
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncServiceBusAdministrationClient
from azure.servicebus.management import ServiceBusAdministrationClient


class PlainTransport(RequestsTransport):
    """Reaches an emulator, whose administration speaks plain HTTP; the client always asks for https."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


class AsyncPlainTransport(AioHttpTransport):
    """The same for asyncio."""

    async def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return await super().send(request, **kwargs)


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
    """An emulator process with one namespace; the connection string its ready line says."""
    command = [sys.executable, "-m", "emulator", "--namespace", "contract:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split(maxsplit=2)
            assert ready[:1] == ["ready"], "the emulator did not start"
            yield ready[2].strip()
        finally:
            process.terminate()


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


@pytest.fixture(scope="session")
def plain_transport() -> type[PlainTransport]:
    """What an administration client needs to reach an emulator over plain HTTP."""
    return PlainTransport


@pytest.fixture(scope="session")
def administration_with(connection_string: str) -> Iterator[Callable[..., ServiceBusAdministrationClient]]:
    """Makes administration clients.

    `wrong="key"` or `"name"` spoils the credential, `signed=True` replaces it by a signature of its own, the rest
    goes to the SDK.
    """
    clients: list[ServiceBusAdministrationClient] = []

    def make(*, wrong: str | None = None, signed: bool = False, **options: Any) -> ServiceBusAdministrationClient:
        text = with_signature(connection_string) if signed else connection_string
        if wrong:
            field = {"key": "SharedAccessKey", "name": "SharedAccessKeyName"}[wrong]
            text = re.sub(rf"\b{field}=[^;]*", f"{field}=wrong", text)
        if "UseDevelopmentEmulator=true" in text:
            options.setdefault("transport", PlainTransport())
        clients.append(ServiceBusAdministrationClient.from_connection_string(text, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def administration(
    administration_with: Callable[..., ServiceBusAdministrationClient],
) -> ServiceBusAdministrationClient:
    """The administration client all tests share."""
    return administration_with()


@pytest.fixture
def async_administration(connection_string: str) -> Callable[[], AsyncServiceBusAdministrationClient]:
    """Makes asyncio administration clients, to be used as context managers."""

    def make() -> AsyncServiceBusAdministrationClient:
        options = {"transport": AsyncPlainTransport()} if "UseDevelopmentEmulator=true" in connection_string else {}
        return AsyncServiceBusAdministrationClient.from_connection_string(connection_string, **options)

    return make


@pytest.fixture(scope="session")
def client(connection_string: str) -> Iterator[ServiceBusClient]:
    """The messaging client all tests share; errors come at once, not after the SDK's own retries."""
    with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as shared:
        yield shared


@pytest.fixture(scope="module")
def make_queue(administration: ServiceBusAdministrationClient) -> Iterator[Callable[..., str]]:
    """Creates queues with the properties given, for one module; returns their names."""
    names: list[str] = []

    def make(**properties: Any) -> str:
        names.append(f"contract/{uuid4().hex}")
        administration.create_queue(names[-1], **properties)
        return names[-1]

    yield make
    for name in names:
        administration.delete_queue(name)
