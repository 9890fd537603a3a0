"""One demo as people operate it: it tells them, lets them in through their provider, is asked and watched by programs.

Everything around it is real: who receives webhooks and mails, the OpenID provider, the browser. No function
of the control plane is called: what happens is done by the demo's own processes.
docs/alerts.md, docs/api.md, docs/observability.md, docs/security.md.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests import forked
from tests.acceptance.demo_client import PASSWORD, Demo, DemoClient, eventually
from tests.conftest import PATIENCE_MS
from tests.dashboard.access.test_signin_provider import provider, sign_in
from tests.dashboard.receivers import Mailbox, Receiver, http_server, smtp_server
from tests.ports import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]
IN_TIME_S = 60.0
CANARIES = {name: f"canary-{name}-of-gold-5d1be07c" for name in ("hook", "signing-key", "mail", "client", "metrics")}
SIGNING = "whsec_" + base64.b64encode(CANARIES["signing-key"].encode()).decode()
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
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="Failovers")).to_be_visible()


def webhook(receiver: Receiver, kind: str, entity: str) -> tuple[dict[str, str], bytes] | None:
    """The first of this kind that tells of the entity: its headers and body."""
    for _, headers, body in list(receiver.requests):
        reported = json.loads(body)
        if reported["type"] == kind and reported["data"]["entity"] == entity:
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
