"""A drill begun, watched and called off in a real browser, with the demo running; and what readiness says there.

docs/readiness.md.
"""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.demo_client import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]
IN_TIME_MS = 300_000
CANARY = "pairing-canary"
Opened = Callable[..., Page]


def calm(page: Page) -> None:
    """Nothing speaks against a drill any more: what earlier stories broke has come home."""

    def asked() -> bool:
        page.goto("/drills/start/?pair=contoso")
        return page.get_by_role("alert").count() == 0

    eventually(asked, 60, "nothing speaks against a drill")


def begin(page: Page, reason: str) -> None:
    calm(page)
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Start the drill").click()
    expect(page.get_by_role("heading", name=f"Drill on {CANARY}")).to_be_visible()


def test_the_demo_is_ready_and_says_so(open_page: Opened) -> None:
    page = open_page("/readiness/")

    def ready() -> bool:
        page.goto(page.url)
        rows = page.locator("tr[data-entity]")
        return rows.count() >= 4 and rows.filter(has_text="Ready").count() == rows.count()

    eventually(ready, 120, "every entity is ready")
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.locator("tr[data-check]")).to_have_count(11)
    expect(page.locator('tr[data-check][data-result="bad"]')).to_have_count(0)


def test_a_drill_is_watched_from_the_click_to_its_report_without_a_reload(open_page: Opened) -> None:
    page = open_page("/drills/")
    begin(page, "the monthly one")
    page.evaluate("window.neverReloaded = true")

    expect(page.locator("[data-outcome='passed']")).to_be_visible(timeout=IN_TIME_MS)

    assert page.evaluate("window.neverReloaded") is True
    expect(page.locator("main")).to_contain_text("All 30 messages arrived; 10 went through the backlog.")
    expect(page.locator(".drill-steps [data-state='done']")).to_have_count(8)
    with page.expect_request("**/drills/*.json"):
        page.get_by_role("link", name="JSON").click()
    reported = json.loads(page.locator("body").inner_text())
    assert reported["report"]["messages"]["lost"] == []
    assert reported["report"]["operations"]["send_backlog"] == 10
    assert reported["report"]["cost"]["billable_operations"] > 60
    page.goto("/audit/")
    expect(page.get_by_text("the monthly one").first).to_be_visible()


def test_a_drill_is_begun_and_called_off_without_scripts(open_page: Opened) -> None:
    page = open_page("/drills/", java_script_enabled=False)
    begin(page, "a browser without scripts")

    page.get_by_role("button", name="Abort and roll back").click()

    def over() -> bool:
        page.goto(page.url)
        return page.locator("[data-outcome='aborted'], [data-outcome='passed']").count() == 1

    eventually(over, 90, "the drill is rolled back")
    page.goto(f"/pairs/contoso/entities/{CANARY}/")
    expect(page.locator("header.headline")).to_contain_text("Healthy")
