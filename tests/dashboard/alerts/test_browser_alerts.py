"""Alerts in a real browser, against a control plane as it is deployed; what a worker does is called."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests import forked
from tests.dashboard import served as site
from tests.dashboard.receivers import Receiver, http_server
from tests.dashboard.site.test_browser import sign_in
from tests.ports import free_port

pytestmark = pytest.mark.browser
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


def test_a_test_message_is_pressed_for_and_arrives(
    browser: Browser, address: str, environment, receiver: Receiver
) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 1000}) as context:
        page = sign_in(context, address, "operator")
        page.goto(f"{address}/alerts/rules/")
        page.get_by_role("row").filter(has_text="on-call-hook").get_by_role("button", name="Test").click()
        expect(page.get_by_role("status")).to_contain_text("A test message to")
        called(environment, DELIVER)
        page.goto(f"{address}/alerts/deliveries/?channel=on-call-hook&state=sent")

        expect(page.get_by_role("row").filter(has_text="operator is testing")).to_contain_text("Sent")
    assert any(b"operator is testing" in body for body in receiver.bodies)


def test_an_administrator_makes_a_rule_with_the_form(browser: Browser, address: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 1000}, java_script_enabled=False) as context:
        page = sign_in(context, address, "administrator")
        page.goto(f"{address}/alerts/rules/")
        page.get_by_role("link", name="New rule").click()
        page.get_by_label("Name").fill("At night")
        page.get_by_role("checkbox", name="night-mail").check()
        page.get_by_label("backlog over a threshold").check()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Enter the number of messages")
        page.get_by_label("Backlog from").fill("1000")
        page.get_by_role("button", name="Save").click()

        expect(page.get_by_role("row").filter(has_text="At night")).to_contain_text("night-mail")
