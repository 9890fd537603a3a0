"""The namespace the contract is checked against: the emulator, or a real one named by SERVICEBUS_CONNECTION_STRING."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import ServiceBusAdministrationClient

from emulator.administration import Administration, AdminRequest
from emulator.broker.namespace import Namespace

KEY_NAME, KEY = "RootManageSharedAccessKey", "the key of the contract tests"


class PlainTransport(RequestsTransport):
    """Reaches an emulator, whose administration speaks plain HTTP; the client always asks for https."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


@pytest.fixture(scope="session")
def connection_string() -> Iterator[str]:
    """Where the namespace is and how to be let in."""
    real = os.environ.get("SERVICEBUS_CONNECTION_STRING")
    if real:
        yield real
    else:
        with _emulator() as local:
            yield local


@contextmanager
def _emulator() -> Iterator[str]:
    administration = Administration(Namespace("contract"), {KEY_NAME: KEY}, time.time())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {key.lower(): value for key, value in self.headers.items()}
            answer = administration.handle(AdminRequest(self.command, self.path, headers, body), time.time())
            self.send_response(answer.status)
            self.send_header("content-length", str(len(answer.body)))
            if answer.content_type:
                self.send_header("content-type", answer.content_type)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_address[1]
    yield f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={KEY_NAME};SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def administration_with(connection_string: str) -> Iterator[Callable[..., ServiceBusAdministrationClient]]:
    """Makes administration clients: `wrong="key"` or `"name"` spoils the credential, the rest goes to the SDK."""
    clients: list[ServiceBusAdministrationClient] = []

    def make(*, wrong: str | None = None, **options: Any) -> ServiceBusAdministrationClient:
        text = connection_string
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
