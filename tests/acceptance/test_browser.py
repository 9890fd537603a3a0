"""What a user sees in a real browser, with the demo running: without scripts and by keyboard."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = [pytest.mark.acceptance, pytest.mark.browser, pytest.mark.timeout(900)]

IN_TIME_MS = 120_000
WIDE = {"width": 1280, "height": 1000}

Opened = Callable[..., Page]


def row_of(page: Page, entity: str) -> Locator:
    return page.locator(f'tr[data-entity="{entity}"]')


def in_state(page: Page, entity: str, state: str) -> None:
    expect(row_of(page, entity)).to_have_attribute("data-status", state, timeout=IN_TIME_MS)


def test_everything_works_without_scripts(open_page: Opened) -> None:
    page = open_page(viewport=WIDE, java_script_enabled=False)
    row_of(page, "shipments").get_by_role("link", name="Fail over").click()
    expect(page.get_by_role("heading", name="shipments")).to_be_visible()
    page.get_by_label("Reason").fill("a browser without scripts")
    page.get_by_role("button", name="Fail over").click()
    page.goto("/pairs/contoso/entities/shipments/")
    expect(page.get_by_text("operator").first).to_be_visible()
    expect(page.get_by_text("a browser without scripts").first).to_be_visible()


def test_the_syphon_is_paused_and_resumed_by_keyboard(open_page: Opened) -> None:
    page = open_page(viewport=WIDE)
    page.get_by_role("link", name="Pause syphon").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("maintenance")
    dialog.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The syphon has been paused")).to_be_visible(timeout=IN_TIME_MS)
    page.get_by_role("link", name="Resume syphon").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Resume").press("Enter")
    expect(page.get_by_text("The syphon has been paused")).to_be_hidden(timeout=IN_TIME_MS)
