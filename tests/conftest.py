"""What every room's tests may ask for: a real Redis of their own, and a real browser."""

import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db.backends.sqlite3.creation import DatabaseCreation
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests import collected, compiled, migrated, selection, static_files
from tests.ports import free_port

TOGETHER = {
    "tests/acceptance/test_browser.py": "demo",
    "tests/acceptance/test_demo_endings.py": "demo",
    "tests/acceptance/test_drill_in_demo.py": "demo",
    "tests/acceptance/test_outage_stories.py": "demo",
    "tests/dashboard/access/test_browser_roles.py": "pages, second half",
    "tests/dashboard/backlog/test_browser_backlog.py": "pages, second half",
    "tests/dashboard/site/test_browser_outage.py": "pages, second half",
    "tests/dashboard/site/test_browser_unanswered.py": "pages, second half",
    "tests/dashboard/alerts/test_browser_alerts.py": "pages, first half",
    "tests/dashboard/site/test_browser.py": "pages, first half",
    "tests/dashboard/site/test_browser_accessibility.py": "pages, first half",
    "tests/dashboard/site/test_browser_tasks.py": "pages, first half",
    "tests/pipeline/": "spark",
    "tests/workers/test_outage_on_the_bill.py": "kept session",
    "tests/workers/test_warm_session.py": "kept session",
}
"""What one worker of a parallel run (`make test`) does alone, because it is costly or shares a browser; else a file
does."""


LONGEST_FIRST = (
    "demo",
    "tests/pairing/test_syphon.py",
    "spark",
    "tests/pairing/test_paired_sending.py",
    "tests/pairing/test_bounded_time.py",
    "pages, first half",
    "kept session",
    "tests/dashboard/access/test_signin_provider.py",
    "tests/pairing/test_syphon_fleet.py",
    "pages, second half",
    "tests/acceptance/test_fleet.py",
    "tests/dashboard/costs/test_costs_command.py",
    "tests/pairing/test_ways_to_a_namespace.py",
    "tests/acceptance/test_fleet_workers.py",
    "tests/pairing/test_classification_on_the_wire.py",
    "tests/dashboard/actions/test_every_face.py",
    "tests/acceptance/test_prometheus.py",
    "tests/pairing/test_nothing_left_behind.py",
    "tests/dashboard/fleet/test_postgres.py",
    "tests/pairing/test_contract_of_a_pair.py",
    "tests/workers/test_orphans_drained.py",
    "tests/dashboard/site/test_security_canaries.py",
    "tests/emulator/clients/test_dotnet.py",
    "tests/emulator/test_emulator_process.py",
    "tests/contract/test_session_assumptions.py",
    "tests/contract/test_session_assumptions_asyncio.py",
    "tests/contract/test_queue_assumptions_asyncio.py",
    "tests/pairing/test_session_order_sending.py",
    "tests/pairing/test_session_order_exceptions.py",
    "tests/pairing/test_syphon_settlement.py",
    "tests/pairing/test_tracing.py",
    "tests/workers/test_figures_agree.py",
)
"""What takes longest begins first: begun late, one worker would still be busy with it while all others have ended. What
waits and what computes take turns in it, so that the processors are never left to those that wait."""


WAITING = ("tests/acceptance/", "tests/contract/", "tests/emulator/", "tests/pairing/", "tests/workers/")
"""Rooms whose tests wait for processes, locks and deadlines more than they compute: five of eight workers prefer them,
so that what waits and what computes share the time, to the end. Tests with a database keep their order among
themselves."""


def _scope(nodeid: str) -> str:
    """What runs in one worker, one after another: a file, or all files of one name in TOGETHER."""
    file = nodeid.partition("::")[0]
    return next((group for start, group in TOGETHER.items() if file.startswith(start)), file)


class ByCost(LoadScopeScheduling):
    """Gives a worker whole files, and all files that share a demo, a Spark session or Chromium."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = self._longest(node) or self._of_its_kind(node)
        if chosen:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _longest(self, node: WorkerController) -> str | None:
        """None behind another of them: a worker gets its next file while it has two tests of the one before."""
        under_way = [scope for scope, tests in self.assigned_work[node].items() if not all(tests.values())]
        if not set(under_way).isdisjoint(LONGEST_FIRST):
            return None
        return next((scope for scope in LONGEST_FIRST if scope in self.workqueue), None)

    def _of_its_kind(self, node: WorkerController) -> str | None:
        waits = int(node.gateway.id.removeprefix("gw")) * 5 % 8 < 5
        return next((scope for scope in self.workqueue if scope.startswith(WAITING) is waits), None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCost:
    return ByCost(config, log)


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    compiled.compile_all(config)
    collected.collect_once(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: a quarter of that time would go into looking at what stays anyway
    selection.configure(config)
    DatabaseCreation.create_test_db = migrated.create_test_db
    static_files.search_once()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.select(config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the tests make is collected less often than usual; the million objects of the collection are not looked at
    again.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def start_redis(directory: Path, port: int) -> subprocess.Popen[bytes]:
    """A redis-server with nothing of anybody else's: own port, own folder, nothing kept. Returns once it answers."""
    program = shutil.which("redis-server")
    assert program, "no redis-server found: run the tests with `make test`, which brings one"
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if b"Ready to accept connections" in line:
            break
    else:
        pytest.fail("redis-server did not start")
    return process


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server that lives as long as this test session."""
    port = free_port()
    process = start_redis(tmp_path_factory.mktemp("redis"), port)
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(scope="session")
def kept_redis_client(redis_url: str) -> Iterator["redis.Redis"]:
    """Connected once: that takes a millisecond, which thousands of tests would spend."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def redis_client(kept_redis_client: "redis.Redis") -> "redis.Redis":
    """A client of that Redis, emptied before the test."""
    kept_redis_client.flushall()
    return kept_redis_client


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


class _Chromium:
    """The one of this process: started by the first module that needs it, and kept for those that run together with it.

    It ends before anything else runs: Playwright's event loop runs as long as the browser, and asyncio tests cannot run
    beside it. Nothing moves in it unless a test asks for that: an animation is drawn anew 60 times a second, by the
    processor.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        if self._browser is None:
            playwright = self._open.enter_context(sync_playwright())
            browser = playwright.chromium.launch(executable_path=_chromium(), args=QUIET_BROWSER)
            self._open.callback(browser.close)
            browser.new_context = partial(_patient_context, browser.new_context)  # type: ignore[method-assign]
            expect.set_options(timeout=PATIENCE_MS)
            self._browser = browser
        return self._browser

    def end(self) -> None:
        self._browser = None
        self._open.close()


_one_chromium = _Chromium()


def _chromium() -> str:
    """The machine's own; tests are skipped (or fail, with REQUIRE_BROWSER=1) where there is none."""
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        problem = "no Chromium found (apt install chromium, or set BROWSER_PATH)"
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(problem)
    return found


@pytest.fixture(scope="module")
def browser() -> Browser:
    """Chromium, the same for the modules that run together."""
    return _one_chromium.browser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After what the module of the test has opened in the browser is closed."""
    try:
        return (yield)
    finally:
        if nextitem is None or _scope(nextitem.nodeid) != _scope(item.nodeid):
            _one_chromium.end()
