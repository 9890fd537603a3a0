"""What a namespace's administration answers may be rubbish, cut off or without an end: an error says so, in time."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import AzureError
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministration
from azure.servicebus.management import ServiceBusAdministrationClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pairing
import pairing.aio
import pairing.aio.administration
from pairing import BacklogCreationError, ends
from pairing.backlog import administration
from tests.pairing.conftest import World
from tests.selection import depth

PRIMARY = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
ATOM = "http://www.w3.org/2005/Atom"
BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
DESCRIPTION = (
    "<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>5120</MaxSizeInMegabytes>"
    "<RequiresDuplicateDetection>false</RequiresDuplicateDetection><RequiresSession>false</RequiresSession>"
    "<DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive>"
    "<DeadLetteringOnMessageExpiration>true</DeadLetteringOnMessageExpiration>"
    "<MaxDeliveryCount>2147483647</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations>"
    "<SizeInBytes>17</SizeInBytes><MessageCount>1</MessageCount><Status>Active</Status>"
    "<CreatedAt>2026-11-21T12:00:00Z</CreatedAt><AccessedAt>2026-11-21T12:00:00Z</AccessedAt>"
    '<CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus">'
    "<d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount></CountDetails>"
)


def entry(name: str = "contoso/x-servicebus-transfer/0", description: str = DESCRIPTION) -> str:
    content = f'<content type="application/xml"><QueueDescription xmlns="{BUS}">{description}</QueueDescription>'
    return f'<entry xmlns="{ATOM}"><title type="text">{name}</title>{content}</content></entry>'


def feed(*entries: str, more: str = "") -> bytes:
    return f'<feed xmlns="{ATOM}"><title type="text">Queues</title>{more}{"".join(entries)}</feed>'.encode()


GOOD = feed(entry())
NEXT = (
    '<link rel="self" href="http://127.0.0.1/?$skip=0&amp;$top=100"/>'
    '<link rel="next" href="http://127.0.0.1/?$skip=100&amp;$top=100"/>'
)
HOSTILE = {
    "no text": b"\xff\xfe\x00\x01" * 20,
    "a page for people": b"<!doctype html><html><body><p>Sign in to the hotel<br></body></html>",
    "well-formed HTML": b"<html><body>Sign in</body></html>",
    "JSON": b'{"error": "no"}',
    "cut off in the middle": GOOD[: len(GOOD) // 2],
    "another root": b"<nothing/>",
    "a queue without a name": feed(entry().replace("<title", "<untitled").replace("</title", "</untitled")),
    "a queue without a description": feed(f'<entry xmlns="{ATOM}"><title>q</title></entry>'),
    "a queue without content": feed(f'<entry xmlns="{ATOM}"><title>q</title><content/></entry>'),
    "a size that is no number": feed(entry(description=DESCRIPTION.replace(">5120<", ">much<"))),
    "a duration that is none": feed(entry(description=DESCRIPTION.replace("PT1M", "a minute"))),
    "a time that is none": feed(entry(description=DESCRIPTION.replace("2026-11-21T12:00:00Z", "noon"))),
    "a list without an end": feed(entry(), more=NEXT),
    "an empty list without an end": feed(more=NEXT),
    "entities that grow": b'<!DOCTYPE x [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10 if n else b"&a;" * 10) for n in range(12))
    + b"]><feed>&a11;</feed>",
    "nested without an end": b"<a>" * 200_000,
}


class Stranger(ThreadingHTTPServer):
    """Answers every request alike."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.status, self.body, self.length, self.requests = 200, b"", None, 0
        self.stalls: threading.Event | None = None

    @property
    def connection_string(self) -> str:
        port = self.server_address[1]
        return PRIMARY.replace("127.0.0.1:1;", f"127.0.0.1:{port};")

    def says(self, body: bytes, *, status: int = 200, length: int | None = None) -> None:
        self.status, self.body, self.length, self.requests = status, body, length, 0


class Answering(BaseHTTPRequestHandler):
    server: Stranger

    def answer(self) -> None:
        server = self.server
        server.requests += 1
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(server.status)
        self.send_header("Content-Type", "application/atom+xml;type=entry;charset=utf-8")
        self.send_header("Content-Length", str(len(server.body) if server.length is None else server.length))
        self.send_header("Location", "/again")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(server.body)
        if server.stalls is not None:
            self.wfile.flush()
            server.stalls.wait(60)
        self.close_connection = True

    do_GET = do_PUT = answer

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def _stranger() -> Iterator[Stranger]:
    with Stranger() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def stranger(_stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    monkeypatch.setattr(administration, "MOST_PAGES", 5)
    yield _stranger
    if _stranger.stalls is not None:
        _stranger.stalls.set()
        _stranger.stalls = None


def asked(stranger: Stranger, ask: Callable[[ServiceBusAdministrationClient], Any]) -> Any:
    with ServiceBusAdministrationClient.from_connection_string(
        stranger.connection_string, transport=pairing.emulator_transport(), retry_total=0
    ) as client:
        return ask(client)


async def asked_in_asyncio(stranger: Stranger, ask: Callable[[Any], Any]) -> Any:
    async with AsyncAdministration.from_connection_string(
        stranger.connection_string, transport=pairing.aio.emulator_transport(), retry_total=0
    ) as client:
        return await ask(client)


@pytest.fixture(params=["sync", "asyncio"])
def opened(request: pytest.FixtureRequest, stranger: Stranger) -> Callable[[], Any]:
    """Opens a client whose secondary namespace the stranger is, and closes it."""
    world = World(request.param, SimpleNamespace(connection_string=PRIMARY), stranger)

    async def open_and_close() -> None:
        client = world.client(primary_namespace="contoso", backlog_queue_count=1)
        try:
            await world(client.open)
        finally:
            await world(client.close)

    return open_and_close


def test_what_makes_sense_is_read(stranger):
    stranger.says(GOOD)
    [queue] = asked(stranger, lambda client: administration.backlog_queues(client, "contoso"))
    assert (queue.active, queue.size_bytes, queue.max_size_bytes) == (1, 17, 5120 * 2**20)


@pytest.mark.slow
@pytest.mark.sampled("opened")
@pytest.mark.parametrize("name", HOSTILE)
async def test_opening_says_which_namespace_answers_rubbish(stranger, opened, name):
    stranger.says(HOSTILE[name])
    with pytest.raises(BacklogCreationError, match=r"secondary namespace contoso-dr: it.*answer"):
        await opened()
    assert stranger.requests <= 3 * 6


@pytest.mark.parametrize("name", HOSTILE)
def test_looking_at_the_backlog_raises_the_sdks_errors_only(stranger, name):
    stranger.says(HOSTILE[name])
    with pytest.raises(AzureError):
        asked(stranger, lambda client: administration.backlog_queues(client, "contoso"))


@pytest.mark.sampled("opened")
@pytest.mark.parametrize("status", [200, 201, 204, 302, 400, 404, 409, 429, 500, 503, "cut off"])
async def test_an_answer_without_a_body_or_its_end_is_an_error(stranger, opened, status):
    if status == "cut off":
        stranger.says(GOOD, length=len(GOOD) + 10)
    else:
        stranger.says(b"", status=status)
    with pytest.raises(BacklogCreationError, match="secondary namespace contoso-dr: "):
        await opened()


async def test_an_answer_that_stops_in_the_middle_is_not_waited_for(stranger, opened, monkeypatch):
    monkeypatch.setitem(ends._ADMINISTRATION_TIMEOUTS, "read_timeout", 0.3)
    stranger.says(GOOD[:100], length=len(GOOD))
    stranger.stalls = threading.Event()
    async with asyncio.timeout(30):
        with pytest.raises(BacklogCreationError, match="secondary namespace contoso-dr: "):
            await opened()


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """The good answer with some bytes cut out, doubled or changed."""
    at = draw(st.integers(0, len(GOOD)))
    until = draw(st.integers(at, min(len(GOOD), at + 60)))
    return GOOD[:at] + draw(st.binary(max_size=12) | st.just(GOOD[at:until] * 2)) + GOOD[until:]


@given(body=spoilt(), status=st.sampled_from([200, 200, 200, 201, 400, 404, 500]))
@settings(
    max_examples=depth(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_answer_raises_anything_but_an_error_of_the_sdk(stranger, body, status):
    async def ask(client: Any) -> None:
        await pairing.aio.administration.listed(client.list_queues())

    stranger.says(body, status=status)
    with contextlib.suppress(AzureError):
        asked(stranger, lambda client: administration.backlog_queues(client, "contoso"))
    with contextlib.suppress(AzureError):
        asyncio.run(asked_in_asyncio(stranger, ask))
