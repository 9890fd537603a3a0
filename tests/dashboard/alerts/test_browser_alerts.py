"""Alerts in a real browser, against a control plane as it is deployed; what a worker does is called.

With SCREENSHOTS=folder the pages are kept as pictures, in light and dark, wide and narrow, empty and full.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import forked
from tests.dashboard import served as site
from tests.dashboard.receivers import Receiver, http_server
from tests.dashboard.site.test_browser import CONTRAST, WIDTHS, sign_in
from tests.dashboard.site.test_browser_accessibility import ALL, reported
from tests.ports import free_port

pytestmark = pytest.mark.browser
PAGES = ("/alerts/", "/alerts/deliveries/", "/alerts/rules/", "/alerts/rules/new/", "/alerts/rules/1/")
CHANNELS = """
[channels.on-call-hook]
kind = "webhook"
url_env = "HOOK_URL"
secrets_env = "HOOK_SECRETS"

[channels.night-mail]
kind = "email"
to = ["night@example.com"]

[channels.team-chat]
kind = "slack"
url_env = "NOBODY_SET_THIS"
"""
FULL = """
from datetime import timedelta
from django.utils import timezone
from dashboard.alerts import rounds
from dashboard.models import *
now = timezone.now()
AlertRule.objects.create(name="Everything critical", channels=["on-call-hook"],
    least_severity="critical", changed_at=now, changed_by="administrator")
AlertRule.objects.create(name="Deep backlogs of contoso", pair="contoso", kinds=["backlog", "dead_letters"],
    threshold=500,
    channels=["night-mail", "team-chat"],
    changed_at=now, changed_by="administrator")
pair = Pair.objects.get(name="contoso")
for path, minutes in (("orders", 4), ("payments", 3)):
    pair.entities.filter(path=path).update(state="failed_over", since=now - timedelta(minutes=minutes), version=9,
        reason="ServiceBusConnectionError: the primary does not answer, and has not for the whole of the interval")
pair.backlog_queues.create(path="contoso/x-servicebus-transfer/0", index=0, seen_at=now, active=1234, dead_lettered=3,
    size_bytes=4 * 2**30, max_size_bytes=5 * 2**30)
rounds.look(now - timedelta(minutes=2))
pair.entities.filter(path="payments").update(state="healthy", since=now - timedelta(minutes=1))
rounds.look(now - timedelta(seconds=30))
Notice.objects.filter(channel="team-chat").update(attempts=3, reason="Channel team-chat: set NOBODY_SET_THIS.")
"""
DELIVER = "from dashboard.alerts.sending import delivery; print(delivery.deliver('on-call-hook'))"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with http_server() as running:
        yield running


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, redis_url: str, receiver: Receiver) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("alerts")
    (folder / "channels.toml").write_text(CHANNELS)
    string = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    strings = {"CONTOSO_PRIMARY": string.replace("127.0.0.1", "contoso.example.com"), "CONTOSO_SECONDARY": string}
    return {
        **site.environment_of(folder, strings, redis_url),
        "CHANNELS_FILE": str(folder / "channels.toml"),
        "HOOK_URL": receiver.url,
        "HOOK_SECRETS": "whsec_" + "QUFB" * 8,
    }


def called(environment: dict[str, str], words: str) -> str:
    return forked.run(("manage.py", "shell", "-v0", "-c", words), environment, check=True).stdout


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    folder = Path(environment["PAIRS_FILE"]).parent
    with site.serve(folder, environment, free_port()) as there:
        yield there


@pytest.fixture(scope="module")
def full(environment: dict[str, str], address: str) -> str:
    """The site with alerts that are open and over, rules, and messages in every state."""
    called(environment, FULL)
    return address


def kept(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_pages_without_anything_say_what_to_do(browser: Browser, address: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = sign_in(context, address, "administrator")
        for path, words in (
            ("/alerts/", "No open alert is known, but alerts are not evaluated"),
            ("/alerts/rules/", "There are no rules"),
        ):
            page.goto(f"{address}{path}")
            expect(page.locator("main")).to_contain_text(words)
            kept(page, f"empty-{path.strip('/').replace('/', '-')}")


def test_an_alert_is_acknowledged_on_the_page(browser: Browser, full: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 1000}) as context:
        page = sign_in(context, full, "operator")
        page.get_by_role("link", name="Alerts").click()
        line = page.get_by_role("row").filter(has_text="orders failed over")
        line.get_by_role("button", name="Acknowledge").click()

        expect(page.get_by_role("status")).to_contain_text("Acknowledged.")
        expect(page.get_by_role("row").filter(has_text="orders failed over")).to_contain_text("operator")


def test_a_test_message_is_pressed_for_and_arrives(
    browser: Browser, full: str, environment, receiver: Receiver
) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 1000}) as context:
        page = sign_in(context, full, "operator")
        page.goto(f"{full}/alerts/rules/")
        page.get_by_role("row").filter(has_text="on-call-hook").get_by_role("button", name="Test").click()
        expect(page.get_by_role("status")).to_contain_text("A test message to")
        called(environment, DELIVER)
        page.goto(f"{full}/alerts/deliveries/?channel=on-call-hook&state=sent")

        expect(page.get_by_role("row").filter(has_text="operator is testing")).to_contain_text("Sent")
    assert any(b"operator is testing" in body for body in receiver.bodies)


def test_an_administrator_makes_a_rule_with_the_form(browser: Browser, full: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 1000}, java_script_enabled=False) as context:
        page = sign_in(context, full, "administrator")
        page.goto(f"{full}/alerts/rules/")
        page.get_by_role("link", name="New rule").click()
        page.get_by_label("Name").fill("At night")
        page.get_by_role("checkbox", name="night-mail").check()
        page.get_by_label("backlog over a threshold").check()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Enter the number of messages")
        page.get_by_label("Backlog from").fill("1000")
        page.get_by_role("button", name="Save").click()

        expect(page.get_by_role("row").filter(has_text="At night")).to_contain_text("night-mail")


@pytest.mark.sampled
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_every_page_fits_its_window_and_stands_out_in_both_themes(
    browser: Browser, full: str, width: int, theme: str
) -> None:
    with browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900}) as context:
        page = sign_in(context, full, "administrator")
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for path in PAGES:
            page.goto(f"{full}{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            kept(page, f"{theme}-{width}-{path.strip('/').replace('/', '-')}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CONTRAST) == [], path
            assert reported(page, ALL) == [], path
        assert complaints == []
