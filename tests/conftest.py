"""What every room's tests may ask for: a real Redis of their own, and a real browser."""

import gc
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db.backends.sqlite3.creation import DatabaseCreation
from execnet import XSpec
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright
from xdist.scheduler.loadscope import LoadScopeScheduling

import emulator.running
from tests import forked, migrated, selection, static_files
from tests.ports import free_port

TOGETHER = {
    "tests/acceptance/test_demo_endings.py": "demo",
    "tests/acceptance/test_drill_in_demo.py": "demo",
    "tests/acceptance/test_outage_stories.py": "demo",
    "tests/pipeline/": "spark",
    "tests/dashboard/access/test_browser_roles.py": "pages, second half",
    "tests/dashboard/site/test_browser_accessibility.py": "pages, second half",
    "tests/dashboard/site/test_browser_outage.py": "pages, second half",
    "tests/dashboard/site/test_browser.py": "pages, first half",
    "tests/dashboard/site/test_browser_unanswered.py": "pages, first half",
    "tests/dashboard/access/test_signin_provider.py": "pages, first half",
    "tests/pairing/test_syphon.py": "syphon",
    "tests/pairing/test_bounded_time.py": "bounded time",
    "tests/emulator/clients/test_dotnet.py": "client for .NET",
    "tests/gateway/test_transparency.py": "clients through a gateway",
}
"""Files that one worker of a parallel run (`make test`) takes together, because they share a demo, a Spark session, a
control plane or Chromium. They and four that are as long begin first."""


def _scope(nodeid: str) -> str:
    """The tests that one worker runs one after another: a file, or all files of one name in TOGETHER."""
    file = nodeid.partition("::")[0]
    return next((group for start, group in TOGETHER.items() if file.startswith(start)), file)


def _turn(scope: str, sizes: Counter[str]) -> tuple[bool, bool, int]:
    """Groups begin; files of the dashboard end, because they compute and are short, and others mostly wait."""
    return "/" in scope, scope.startswith("tests/dashboard/"), -sizes[scope]


class ByGroup(LoadScopeScheduling):
    """Gives a worker whole files, or all files of a group."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def pytest_xdist_setupnodes(specs: Sequence[XSpec]) -> None:
    for spec in specs:
        spec.python = forked.worker()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup:
    return ByGroup(config, log)


CLASSES = Path(sys.prefix, f"pyspark-{version('pyspark')}.jsa")
"""Spark's classes as a JVM has loaded them, kept by the set-up: half of the processor time of a JVM's start."""


def _quick_java() -> str:
    """A JVM of the tests ends before code that is optimized further has paid for it."""
    kept = CLASSES.exists() and CLASSES.stat().st_size
    return "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" + (f" -XX:SharedArchiveFile={CLASSES}" if kept else "")


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: a quarter of that time would go into looking at what stays anyway
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _quick_java())
    selection.configure(config)
    if config.getoption("numprocesses", None):
        forked.share(*config.invocation_params.args)
    emulator.running.START_TIMEOUT_S = 300.0  # many start at the same time
    DatabaseCreation.create_test_db = migrated.create_test_db
    static_files.search_once()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.select(config, items)
    if hasattr(config, "workerinput"):
        sizes = Counter(_scope(item.nodeid) for item in items)
        items.sort(key=lambda item: _turn(_scope(item.nodeid), sizes))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the tests make is collected less often than usual; the million objects of the collection are not looked at
    again.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def start_redis(directory: Path, port: int, *more: str) -> subprocess.Popen[bytes]:
    """A redis-server with nothing of anybody else's: own port, own folder, nothing kept unless `more` options say so.

    Returns once it answers.
    """
    program = shutil.which("redis-server")
    assert program, "no redis-server found: run the tests with `make test`, which brings one"
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([*command, "--dir", directory, *more], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if b"accept connections" in line:  # on a port, or on a socket alone
            break
    else:
        pytest.fail("redis-server did not start")
    return process


@pytest.fixture(scope="session")
def lasting_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server that lives as long as this test session. For what several tests share: a test asks for
    `redis_url`.
    """
    port = free_port()
    process = start_redis(tmp_path_factory.mktemp("redis"), port)
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(60)
    process.stdout.close()


@pytest.fixture(scope="session")
def kept_redis_client(lasting_redis_url: str) -> Iterator["redis.Redis"]:
    """Connected once: that takes a millisecond, which thousands of tests would spend."""
    with redis.Redis.from_url(lasting_redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def redis_client(kept_redis_client: "redis.Redis") -> "redis.Redis":
    """A client of that Redis, emptied before the test."""
    kept_redis_client.flushall()
    return kept_redis_client


@pytest.fixture
def redis_url(lasting_redis_url: str, redis_client: "redis.Redis") -> str:
    """The URL of that Redis, emptied before the test."""
    return lasting_redis_url


BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
QUIET_BROWSER = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


PATIENCE_MS = 120_000
"""Only what never comes is waited for so long."""


def _patient_context(new_context: Callable[..., BrowserContext], **options: Any) -> BrowserContext:
    context = new_context(reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    return context


class OfGroup:
    """What the files of a group share: opened by the first that needs it, and ended before anything else runs."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._found: dict[str, Any] = {}

    def get(self, name: str, opened: Callable[[], AbstractContextManager[Any]]) -> Any:
        if name not in self._found:
            self._found[name] = self._open.enter_context(opened())
        return self._found[name]

    def end(self) -> None:
        self._found.clear()
        self._open.close()


_of_group = OfGroup()


@contextmanager
def _running_chromium() -> Iterator[Browser]:
    """Playwright's event loop runs as long as the browser, and asyncio tests cannot run beside it.

    Nothing moves in it unless a test asks for that: an animation is drawn anew 60 times a second, by the processor.
    """
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=_chromium(), args=QUIET_BROWSER)) as browser,
    ):
        browser.new_context = partial(_patient_context, browser.new_context)  # type: ignore[method-assign]
        expect.set_options(timeout=PATIENCE_MS)
        yield browser


def _chromium() -> str:
    """The machine's own; tests are skipped (or fail, with REQUIRE_BROWSER=1) where there is none."""
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        problem = "no Chromium found (apt install chromium, or set BROWSER_PATH)"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(problem)
    return found


@pytest.fixture(scope="session")
def of_group(django_db_setup: None) -> Iterator[OfGroup]:
    """Ended before the test database is dropped, which Django refuses while Playwright's event loop runs."""
    yield _of_group
    _of_group.end()


@pytest.fixture(scope="module")
def browser(of_group: OfGroup) -> Any:
    """Chromium, the same for the modules that run together."""
    return of_group.get("browser", _running_chromium)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After what the module of the test has opened is closed."""
    try:
        return (yield)
    finally:
        if nextitem is None or _scope(nextitem.nodeid) != _scope(item.nodeid):
            _of_group.end()
