"""One demo as people operate it: it tells them, lets them in through their provider, is asked and watched by programs.

Everything around it is real: who receives webhooks and mails, the OpenID provider, the browser, Prometheus. No function
of the control plane is called: what happens is done by the demo's own processes. Its secrets are looked for afterwards.
docs/alerts.md, docs/api.md, docs/observability.md, docs/security.md.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests import forked
from tests.acceptance import prometheus
from tests.acceptance.demo_client import PASSWORD, ROOT, Demo, DemoClient, eventually
from tests.conftest import PATIENCE_MS
from tests.dashboard.access.test_signin_provider import provider, sign_in
from tests.dashboard.receivers import Mailbox, Receiver, http_server, smtp_server
from tests.dashboard.site.test_security_canaries import addresses
from tests.ports import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]
IN_TIME_S = 60.0
CANARIES = {name: f"canary-{name}-of-gold-5d1be07c" for name in ("hook", "signing-key", "mail", "client", "metrics")}
SIGNING = "whsec_" + base64.b64encode(CANARIES["signing-key"].encode()).decode()
KEPT_APART = ("environment.json", "namespaces.key", "secret_key")
CHANNELS = """
[channels.on-call]
kind = "webhook"
url_env = "ONCALL_URL"
secrets_env = "ONCALL_SECRETS"

[channels.night]
kind = "email"
to = ["night@example.com"]
"""
Opened = Callable[[], Page]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with http_server() as running:
        yield running


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with smtp_server(("us", CANARIES["mail"])) as running:
        yield running


@pytest.fixture(scope="module")
def issuer_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def demo_variables(
    tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, mailbox: Mailbox, issuer_port: int
) -> dict[str, str]:
    """Whom the demo tells, and through whom it lets people in; one secret is in a file."""
    folder = tmp_path_factory.mktemp("operated")
    (folder / "channels.toml").write_text(CHANNELS)
    (folder / "client-secret").write_text(CANARIES["client"])
    return {
        "CHANNELS_FILE": str(folder / "channels.toml"),
        "ONCALL_URL": f"http://{urlsplit(receiver.url).netloc}/{CANARIES['hook']}",
        "ONCALL_SECRETS": SIGNING,
        "EMAIL_URL": f"smtp://us:{CANARIES['mail']}@{mailbox.host}:{mailbox.port}",
        "OIDC_ISSUER": f"http://127.0.0.1:{issuer_port}/o",
        "OIDC_CLIENT_ID": "control-plane",
        "OIDC_CLIENT_SECRET_FILE": str(folder / "client-secret"),
        "OIDC_OPERATORS": "platform-ops",
        "OIDC_VIEWERS": "platform-viewers",
        "OIDC_ADMINISTRATORS": "",
        "METRICS_TOKEN": CANARIES["metrics"],
    }


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory, running_demo: Demo, issuer_port: int) -> Iterator[str]:
    home = f"http://127.0.0.1:{running_demo.port}"
    with provider(tmp_path_factory.mktemp("provider"), issuer_port, home, CANARIES["client"]) as running:
        yield running


@pytest.fixture
def open_page(browser: Browser, running_demo: Demo) -> Iterator[Opened]:
    """Opens the first page as nobody yet."""
    contexts = []

    def opened() -> Page:
        context = browser.new_context(base_url=f"http://127.0.0.1:{running_demo.port}/")
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.goto("/")
        return page

    yield opened
    for context in contexts:
        context.close()


def sign_in_with_a_password(page: Page) -> None:
    page.get_by_text("With a local password").click()
    page.get_by_label("User name").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.locator(".who").wait_for()


def api(demo: Demo, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{demo.port}/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        timeout=15,
        trust_env=False,
    )


# -- alerts -----------------------------------------------------------------------------------------------------------


def make_rule(page: Page) -> None:
    page.goto("/alerts/rules/new/")
    page.get_by_label("Name").fill("Failovers")
    page.get_by_role("checkbox", name="failed over").check()
    page.get_by_role("checkbox", name="on-call").check()
    page.get_by_role("checkbox", name="night").check()
    page.get_by_label("Seconds to collect alerts for one message").fill("0")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="Failovers")).to_be_visible()


def webhook(receiver: Receiver, kind: str, entity: str) -> tuple[dict[str, str], bytes] | None:
    """The first of this kind that tells of the entity: its headers and body."""
    for _, headers, body in list(receiver.requests):
        reported = json.loads(body)
        if reported["type"] == kind and any(line["entity"] == entity for line in reported["data"]["lines"]):
            return headers, body
    return None


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """By Standard Webhooks, reckoned anew."""
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    digest = hmac.new(CANARIES["signing-key"].encode(), signed, hashlib.sha256).digest()
    return headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def subject(mailbox: Mailbox, text: str) -> str | None:
    return next((str(mail["Subject"]) for mail in list(mailbox.mails) if text in str(mail["Subject"])), None)


def test_what_breaks_is_reported_by_a_signed_webhook_and_a_mail_and_so_is_its_end(
    open_page: Opened, demo_client: DemoClient, receiver: Receiver, mailbox: Mailbox
) -> None:
    page = open_page()
    sign_in_with_a_password(page)
    make_rule(page)

    demo_client.demo_button("break", "shipments")
    headers, body = eventually(lambda: webhook(receiver, "alert.opened", "shipments"), IN_TIME_S, "a webhook")
    assert eventually(lambda: subject(mailbox, "shipments"), IN_TIME_S, "a mail") == "[critical] shipments failed over"

    assert is_signed(headers, body)
    assert receiver.requests[0][0] == f"/{CANARIES['hook']}"
    page.goto("/alerts/")
    expect(page.get_by_role("row").filter(has_text="shipments failed over")).to_be_visible()

    demo_client.demo_button("mend", "shipments")
    headers, body = eventually(lambda: webhook(receiver, "alert.resolved", "shipments"), IN_TIME_S, "its end")
    eventually(lambda: subject(mailbox, "Resolved: shipments"), IN_TIME_S, "a mail of its end")
    assert is_signed(headers, body)
    page.goto("/alerts/deliveries/?state=sent")
    for channel in ("on-call", "night"):
        expect(page.get_by_role("row").filter(has_text=channel).first).to_contain_text("Sent")


# -- people of the provider, and their programs -----------------------------------------------------------------------


def test_people_of_the_provider_land_with_the_rights_that_their_groups_give(open_page: Opened, issuer: str) -> None:
    statuses = {}
    for name in ("alice", "bob"):
        page = open_page()
        sign_in(page, name)
        page.locator(".who").wait_for()
        wanted = ("/pairs/contoso/actions/fail_over/?path=orders", "/admin/auth/user/")
        statuses[name] = tuple(answer and answer.status for answer in map(page.goto, wanted))

    assert statuses == {"alice": (200, 403), "bob": (403, 403)}


@pytest.fixture
def token(open_page: Opened, issuer: str) -> str:
    """Made on the page by somebody who came through the provider."""
    page = open_page()
    sign_in(page, "alice")
    page.locator(".who").wait_for()
    page.goto("/tokens/")
    page.get_by_label("Used by").fill("a program")
    page.get_by_label("Scope").select_option("operate")
    page.get_by_role("button", name="Create").click()
    return page.get_by_role("region", name="a program is created").locator(".path code").inner_text()


def status(demo: Demo) -> dict[str, dict[str, object]]:
    """The answer of `pairing entities --json`, by entity."""
    ran = forked.run(("manage.py", "pairing", "entities", "--json"), os.environ | demo.environment, check=True)
    return {row["path"]: row for row in json.loads(ran.stdout)["items"]}


def test_a_token_made_on_the_page_steers_and_everybody_shows_the_same(
    running_demo: Demo, demo_client: DemoClient, token: str
) -> None:
    path = "invoices/eu"

    def reported() -> dict[str, object]:
        (entity,) = program.get("/entities", params={"path": path}).raise_for_status().json()["items"]
        return dict(entity)

    with api(running_demo, token) as program:
        health = program.get("/health").raise_for_status().json()
        assert [pair["name"] for pair in health["pairs"]] == ["contoso"]
        forced = program.post(
            "/pairs/contoso/fail-over",
            json={"paths": [path], "reason": "a program wants it"},
            headers={"Idempotency-Key": "once"},
        )
        assert (forced.status_code, forced.json()["outcome"]) == (200, "done")
        assert demo_client.state_of(path) == "failed_over"
        assert reported()["status"] == "held"
        row = status(running_demo)[path]
        assert (row["status"], row["held_by"], row["reason"]) == ("held", reported()["held_by"], "a program wants it")
        assert "a program wants it" in demo_client.http.get("audit/").text

        released = program.post("/pairs/contoso/release", json={"paths": [path], "reason": "enough"})
        assert released.json()["outcome"] == "done"
        eventually(lambda: demo_client.state_of(path) == "healthy", IN_TIME_S, "a ping brings it home")
        eventually(lambda: reported()["status"] in ("healthy", "draining"), IN_TIME_S, "the API tells it")


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def watching(running_demo: Demo, tmp_path: Path) -> Iterator[prometheus.Server]:
    """Prometheus as it is delivered, but for the address and the pace."""
    deploy = ROOT / "deploy" / "prometheus"
    text = (deploy / "prometheus.yml").read_text()
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{running_demo.port}").replace("15s", "1s")
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_text((deploy / "alerts.yml").read_text())
    with prometheus.running(tmp_path / "prometheus.yml", free_port()) as server:
        yield server


def test_a_real_prometheus_sees_what_breaks(demo_client: DemoClient, watching: prometheus.Server) -> None:
    away = 'paired_entity_not_healthy_since_timestamp_seconds{entity="orders", state="failed_over"}'
    assert watching.await_value('up{job="paired-namespaces"} == 1') == 1

    demo_client.demo_button("break", "orders")
    try:
        assert watching.await_value(away, IN_TIME_S) > 1e9
        assert watching.await_value('paired_entities{pair="contoso", state="failed_over"} >= 1') >= 1
    finally:
        demo_client.demo_button("mend", "orders")

    def is_over() -> bool:
        return watching.value(away) is None and watching.value("up") == 1

    eventually(is_over, IN_TIME_S, "Prometheus sees it healthy")


# -- secrets ----------------------------------------------------------------------------------------------------------


def secrets_of(demo: Demo) -> dict[str, str]:
    """Every secret of this demo, as it would be found."""
    state = demo.folder / "state"
    keys = {
        name: demo.environment[name].partition("SharedAccessKey=")[2].partition(";")[0]
        for name in ("CONTOSO_PRIMARY", "CONTOSO_SECONDARY")
    }
    kept = {name: (state / name).read_text().strip() for name in ("namespaces.key", "secret_key")}
    return {**CANARIES, "signing": SIGNING.removeprefix("whsec_"), "password": PASSWORD, **keys, **kept}


def of_files(demo: Demo) -> Iterator[tuple[str, bytes]]:
    """Logs, the database, usage files: whatever it keeps, but for the files that are there to keep secrets."""
    for file in demo.folder.rglob("*"):
        if file.is_file() and file.name not in KEPT_APART:
            yield f"the file {file.name}", file.read_bytes()


def of_processes() -> Iterator[tuple[str, bytes]]:
    """Command lines as `ps` shows them; the provider is no part of the demo."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes()
        except OSError:
            continue
        if b"provider/site.py" not in line:
            yield f"the command line {line[:60]!r}", line


def of_redis(demo: Demo) -> Iterator[tuple[str, bytes]]:
    with demo.redis() as client:
        readers = {
            b"string": client.get,
            b"hash": client.hgetall,
            b"set": client.smembers,
            b"stream": client.xrange,
            b"list": lambda key: client.lrange(key, 0, -1),
            b"zset": lambda key: client.zrange(key, 0, -1),
        }
        for key in client.scan_iter():
            kind = client.type(key)
            if kind != b"none":
                yield f"Redis at {key!r}", repr((key, readers[kind](key))).encode()


def of_pages(demo: Demo, demo_client: DemoClient, token: str) -> Iterator[tuple[str, bytes]]:
    """Every address that needs no more than the pair and an entity, and what machines ask."""
    for address in [*addresses(), "/alerts/rules/1/", "/admin/dashboard/apitoken/", "/nothing"]:
        answer = demo_client.http.get(address.lstrip("/"), params={"path": "orders"})
        yield f"the page {address} ({answer.status_code})", f"{answer.headers}{answer.text}".encode()
    with api(demo, token) as program:
        for address in ("/health", "/entities", "/events", "/alerts", "/audit", "/workers", "/openapi.json"):
            yield f"the API's {address}", program.get(address).content


def test_no_secret_of_the_demo_is_anywhere_but_where_it_is_kept(
    running_demo: Demo, demo_client: DemoClient, token: str, mailbox: Mailbox, receiver: Receiver
) -> None:
    places = dict(of_pages(running_demo, demo_client, token))
    places |= dict(of_files(running_demo)) | dict(of_processes()) | dict(of_redis(running_demo))
    secrets = {**secrets_of(running_demo), "a token": token}

    assert len(places) > 100
    assert {"the file worker-1.log", "the file web.log", "the page /alerts/rules/ (200)"} <= places.keys()
    assert sum(where.endswith("(200)") for where in places) > 25
    for kind in ("the page", "the API", "the file control-plane", "Redis"):  # it finds what is there
        assert any(b"shipments" in said for where, said in places.items() if where.startswith(kind)), kind
    assert all(len(text) >= 16 for text in secrets.values())
    assert {
        (name, where) for name, text in secrets.items() for where, said in places.items() if text.encode() in said
    } == set()
    for name in KEPT_APART:
        assert stat.S_IMODE((running_demo.folder / "state" / name).stat().st_mode) == 0o600
    assert not re.search(rb"canary-", b"".join(receiver.bodies) + str([str(mail) for mail in mailbox.mails]).encode())
