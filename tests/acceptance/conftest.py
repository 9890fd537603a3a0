"""One demo at a time, for all stories that do not end it."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.demo_client import NO_JAVA, PASSWORD, Demo, DemoClient
from tests.acceptance.fleet import Fleet, RedisServer, SpawnServer
from tests.emulator.clients.installed import node_packages


def with_gateway(folder: Path) -> dict[str, str]:
    """What starts a demo with a gateway, too, where npm is: with the packages that tests of JavaScript have."""
    if shutil.which("npm") is None:
        return {}
    folder.mkdir()
    (folder / "demo.lock").touch()
    (folder / "javascript").symlink_to(node_packages())
    return {"DEMO_GATEWAY": "1"}


class Stage:
    """Where one demo runs at a time. Files that want the same share one: to start it takes as long as many a story."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._demo: Demo | None = None

    def demo(self, variables: Mapping[str, str]) -> Demo:
        """A demo that is ready; with variables of one's own, a new one."""
        if self._demo is not None and not variables:
            return self._demo
        self.end()
        self._count += 1
        folder = self._folder / str(self._count)
        demo = self._demo = Demo(folder, DEMO_PASSWORD=PASSWORD, **(variables or NO_JAVA | with_gateway(folder)))
        try:
            demo.await_ready()
        except BaseException:
            with suppress(AssertionError):  # why it did not start says more
                self.end()
            raise
        return demo

    def give_away(self) -> None:
        """The demo that runs is another's to end: the next who asks gets a new one."""
        self._demo = None

    def end(self) -> None:
        """It ends cleanly, and leaves nothing behind that would slow down what follows."""
        demo, self._demo = self._demo, None
        if demo is None:
            return
        try:
            code = demo.end()
        finally:
            print(demo.last_words())
        assert code == 0
        assert not demo.processes()
        assert demo.redis_is_gone()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("demo"))
    yield stage
    stage.end()


@pytest.fixture(scope="module")
def demo_variables() -> dict[str, str]:
    """What the demo is reported beside its password; a file that wants one of its own has a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def running_demo(stage: Stage, demo_variables: dict[str, str]) -> Iterator[Demo]:
    """A demo that is ready."""
    yield stage.demo(demo_variables)
    if demo_variables:
        stage.end()


@pytest.fixture(scope="module")
def demo_client(running_demo: Demo) -> Iterator[DemoClient]:
    """The operator at the browser."""
    demo_client = DemoClient(running_demo, f"http://127.0.0.1:{running_demo.port}/", PASSWORD)
    yield demo_client
    demo_client.http.close()


@pytest.fixture(scope="module")
def spawn_server() -> Iterator[SpawnServer]:
    """Bears the applications of all fleets of a file."""
    spawn_server = SpawnServer()
    yield spawn_server
    spawn_server.end()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for all stories of a file, which may kill it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def fleet(
    plane: ControlPlane, redis_server: RedisServer, spawn_server: SpawnServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """No application yet, but all they need, beside the workers of the file."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), plane.namespaces, redis_server, "contoso", spawn_server)
    yield fleet
    fleet.shared.mark_healthy("orders", operator="ada", process="web")
    fleet.end()


@pytest.fixture
def open_page(browser: Browser, running_demo: Demo, demo_client: DemoClient) -> Iterator[Callable[..., Page]]:
    """Opens a page of the demo, signed in, when all is whole; whatever the browser complains of fails the test."""
    complaints: list[str] = []
    contexts = []
    demo_client.demo_button("mend", "*")
    demo_client.act("mark_healthy", path="*", reason="begun anew")
    demo_client.act("resume_syphon", path="*")

    def opened(path: str = "/", **options: object) -> Page:
        context = browser.new_context(base_url=f"http://127.0.0.1:{running_demo.port}/", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path)
        page.get_by_label("User name").fill("operator")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that share the demo come before those that end it."""
    items.sort(key=lambda item: item.path.name == "test_demo_endings.py" and item.path.parent.name == "acceptance")
