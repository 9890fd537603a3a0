"""A drill begun and watched in a real browser, with the demo running; and what readiness says there.

docs/readiness.md.
"""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from dashboard.demo.stage import QUEUES
from tests.acceptance.demo_client import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]
IN_TIME_MS = 300_000
Opened = Callable[..., Page]


def test_the_demo_is_ready_and_says_so(open_page: Opened) -> None:
    page = open_page("/readiness/")
    ready = page.locator("tr[data-entity]").filter(has_text="Ready")
    expect(ready).to_have_count(len(QUEUES), timeout=IN_TIME_MS)
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.locator("tr[data-check]")).to_have_count(11)
    expect(page.locator('tr[data-check][data-result="bad"]')).to_have_count(0)


def test_a_drill_is_watched_from_the_click_to_its_report_without_a_reload(open_page: Opened) -> None:
    page = open_page("/drills/")

    def calm() -> bool:
        page.goto("/drills/start/?pair=contoso")
        return page.get_by_role("alert").count() == 0

    eventually(calm, 60, "nothing speaks against a drill")
    page.get_by_label("Reason").fill("the monthly one")
    page.get_by_role("button", name="Start the drill").click()
    expect(page.get_by_role("heading", name="Drill on pairing-canary")).to_be_visible()
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
