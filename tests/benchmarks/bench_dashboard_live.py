"""Open live pages: what 200 and 2,000 of them cost while nothing happens, and how soon an event is on 200."""

import asyncio
import tempfile
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import redis

from pairing.fleet.coordination import SharedState
from pairing.fleet.shared_health import SharedHealth
from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.fleet import Namespaces, RedisServer
from tests.benchmarks.processes import cpu_s, size
from tests.ports import free_port

PAGES, MANY, QUIET_S, EVENTS = size(200, 5), size(2_000, 20), size(20, 1), size(15, 3)
ROWS = [
    ("200 open live pages", "at most 2 % of a core", "{percent_of_a_core} %"),
    ("2,000 open live pages", "", "{percent_of_many} % of a core"),
    (
        "from an event at a sender to the page",
        "within 1 s",
        "{on_the_page_ms[median]} ms, at worst {on_the_page_ms[worst]} ms",
    ),
]
SEED = """
from django.contrib.auth import login
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
request, user = HttpRequest(), User.objects.create_user("viewer")
user.groups.add(Group.objects.get(name="viewer"))
request.session = SessionStore()
login(request, user, backend="dashboard.access.visibility.GroupBackend")
request.session.save()
print(request.session.session_key)
"""


COLLECTOR = """
import threading
import django
django.setup()
from workers import collectors
collectors.pairs = lambda: {"contoso": None}
collectors.collect_health(threading.Event())
"""


class Pages(ControlPlane):
    """A web process, and the collector that wakes its pages."""

    def __init__(self, folder: Path, namespaces: Namespaces, server: RedisServer) -> None:
        self.port = free_port()
        super().__init__(folder, namespaces, server, DJANGO_SETTINGS_MODULE="dashboard.settings", LOG_LEVEL="ERROR")

    def command(self, name: str) -> list[str]:
        web = ["-m", "uvicorn", "dashboard.asgi:application", "--port", str(self.port), "--log-level", "error"]
        return web if name == "web" else ["-c", COLLECTOR]


def run() -> dict[str, Any]:
    """Percent of a core that open pages cost, compared with none; milliseconds until a change is sent and visible."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        namespaces, server = Namespaces("contoso", "orders"), RedisServer(folder)
        ending.callback(namespaces.end)
        ending.callback(server.kill)
        pages = Pages(folder, namespaces, server)
        ending.callback(pages.end)
        cookie = pages.run("manage.py", "shell", "-v0", "-c", SEED, check=True).stdout.strip()
        pages.start("web", "collector")
        return asyncio.run(_measure(pages.workers["web"].pid, pages.port, cookie, server.client()))


async def _measure(web: int, port: int, cookie: str, client: "redis.Redis") -> dict[str, Any]:
    await _until_it_answers(port)
    none_open = await _core_share(web, QUIET_S)
    streams = [await Stream.opened(port, cookie) for _ in range(PAGES)]
    await asyncio.sleep(1)  # the opening itself is not measured
    all_open = await _core_share(web, QUIET_S)
    while not client.pubsub_numpat():  # the collector listens
        await asyncio.sleep(0.05)
    shared = SharedState(client, "contoso")
    reported, read = [], []
    for number in range(EVENTS):
        first, last = await _one_event(shared, streams, port, cookie, f"outage {uuid.uuid4().hex}", number)
        reported.append(first)
        read.append(last)
    streams += [await Stream.opened(port, cookie) for _ in range(MANY - PAGES)]
    await asyncio.sleep(1)
    many_open = await _core_share(web, QUIET_S)
    for stream in streams:
        stream.writer.close()
    return {
        "pages": PAGES,
        "percent_of_a_core": round(100 * (all_open - none_open), 2),
        "percent_of_many": round(100 * (many_open - none_open), 2),
        "reported_all_ms": {"median": round(median(reported), 1), "worst": round(max(reported), 1)},
        "on_the_page_ms": {"median": round(median(read), 1), "worst": round(max(read), 1)},
    }


class Stream:
    """One open page's stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def opened(cls, port: int, cookie: str) -> "Stream":
        stream = cls(*await asyncio.open_connection("127.0.0.1", port))
        stream.writer.write(_request("/live/", cookie))
        await stream.reported()
        return stream

    async def reported(self) -> None:
        """Until the next word of a change."""
        await self.reader.readuntil(b"event: changed")


async def _one_event(
    shared: SharedState, streams: list[Stream], port: int, cookie: str, reason: str, number: int
) -> tuple[float, float]:
    """Milliseconds until all pages are reported, and until one that then looks shows the reason."""
    await asyncio.sleep(0.5)  # beyond the least gap between two words
    state = "failing" if number % 2 == 0 else "healthy"
    change = SharedHealth("orders", state, datetime.now(UTC), reason, None, None, "organic", number, "host:1:abcdef01")
    waits = [asyncio.create_task(stream.reported()) for stream in streams]
    began = perf_counter()
    await asyncio.to_thread(shared.publish, change)
    await asyncio.gather(*waits)
    all_reported = perf_counter() - began
    if state == "failing":
        page = await _page(port, cookie)
        assert reason.encode() in page, "the page that was reported a change does not show it"
    return 1000 * all_reported, 1000 * (perf_counter() - began)


async def _page(port: int, cookie: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request("/", cookie, "HX-Request: true\r\nConnection: close\r\n"))
    answer = await reader.read()
    writer.close()
    return answer


def _request(path: str, cookie: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={cookie}\r\n{more}\r\n".encode()


async def _until_it_answers(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


async def _core_share(pid: int, seconds: float) -> float:
    """How much of one core the process used over so many seconds."""
    before = cpu_s(pid)
    await asyncio.sleep(seconds)
    return (cpu_s(pid) - before) / seconds
