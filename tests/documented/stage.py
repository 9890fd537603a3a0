"""What a control plane that somebody sets up by a page needs beside itself: namespaces, Redis, PostgreSQL, a pair."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.acceptance.deployment import DurableRedis
from tests.acceptance.fleet import Namespaces
from tests.documented.terminal import Terminal, until_that
from tests.ports import free_port
from tests.postgres import cluster

PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
failover_interval_s = 1
ping_primary_interval_s = 1
entities = ["orders"]
"""
USER, PASSWORD = "ada", "correct horse battery staple"
ANSWERS = {"Username": USER, "Email address": "ada@example.com", "Password:": PASSWORD, "Password (again)": PASSWORD}
"""To the questions of createsuperuser."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`variables`: the settings that name all of it; `port`: where the web process is to listen."""

    namespaces: Namespaces
    variables: dict[str, str]
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def instead(self) -> dict[str, str]:
        """What a page says about the web process's address, and where it is here."""
        return {"--port 8000": f"--port {self.port}", "127.0.0.1:8000": f"127.0.0.1:{self.port}"}

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.address}/readyz", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    @contextmanager
    def signed_in(self) -> Iterator[httpx.Client]:
        """A browser of the person whom createsuperuser has made."""
        with httpx.Client(base_url=self.address, follow_redirects=True, timeout=60) as browser:
            form = browser.get("/login/").text
            token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            assert token
            given = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
            answer = browser.post("/login/", data=given, headers={"Referer": f"{self.address}/login/"})
            assert answer.status_code == 200
            assert answer.url.path != "/login/"
            yield browser


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """All of them, until the block ends."""
    folder.mkdir(parents=True)
    (folder / "pairs.toml").write_text(PAIRS, encoding="utf-8")
    namespaces, server = Namespaces("contoso", "orders"), DurableRedis(folder)
    try:
        with cluster() as database:
            primary, secondary = namespaces.strings
            variables = {
                "DATABASE_URL": database,
                "REDIS_URL": server.url,
                "CONTOSO_PRIMARY": primary,
                "CONTOSO_SECONDARY": secondary,
                "PAIRS_FILE": str(folder / "pairs.toml"),
            }
            yield Stage(namespaces, variables, free_port())
    finally:
        server.kill()
        namespaces.end()


APPLICATION = """
import itertools, os, time
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from datetime import timedelta
from pairing import PairedServiceBusClient, SendAvailabilityOptions

options = SendAvailabilityOptions(
    primary_namespace="contoso", secondary_namespace="contoso-dr", coordination=os.environ["REDIS_URL"],
    failover_interval=timedelta(seconds=1),
)
strings = os.environ["CONTOSO_PRIMARY"], os.environ["CONTOSO_SECONDARY"]
with PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
    with client.get_queue_sender("orders") as sender:
        for number in itertools.count():
            try:
                sender.send_messages(ServiceBusMessage(str(number)))
                print("sent", number, flush=True)
            except ServiceBusError as error:
                print("refused", type(error).__name__, flush=True)
            time.sleep(0.2)
"""
"""An application of the fleet, as docs/production.md says: it names the same Redis."""


def tell_of_a_failover(here: Stage, terminal: Terminal, python: str, status: str) -> None:
    """An entity fails over under an application, the control plane shows it, and workers bring all messages home."""

    def sent() -> int:
        return application.text.count("sent ")

    (terminal.folder / "application.py").write_text(APPLICATION, encoding="utf-8")
    application = terminal.serve(f"{python} application.py")
    application.until(lambda text: "sent " in text, "the first message")
    here.namespaces.break_("orders")
    until_that(lambda: "failed-over" in terminal.run(status).text, "the status names the failover")
    with here.signed_in() as browser:
        assert "Failed over" in browser.get("/pairs/contoso/").text
    before = sent()
    until_that(lambda: sent() >= before + 5, "sends go on")
    assert here.namespaces.stats("orders")["active"] < sent()

    here.namespaces.mend()
    until_that(lambda: here.namespaces.stats("orders")["active"] > before, "the backlog comes home")
    application.end()
    until_that(lambda: here.namespaces.stats("orders")["active"] == sent(), "every message is in the primary")
