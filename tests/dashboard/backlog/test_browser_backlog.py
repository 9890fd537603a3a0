"""Orphans and dead letters in a real browser, against a control plane as it is deployed; a worker's part is called."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import forked
from tests.dashboard import served as site
from tests.dashboard.secondary import Secondary
from tests.dashboard.site.test_browser import CONTRAST, WIDTHS, sign_in
from tests.ports import free_port

pytestmark = pytest.mark.browser
ORPHAN = "contoso/x-servicebus-transfer/19"
BEYOND = "contoso/x-servicebus-transfer/17"
EMPTY = "contoso/x-servicebus-transfer/18"
MESSAGES = "/backlog/contoso/messages/"
PAGES = (
    "/backlog/",
    MESSAGES,
    f"{MESSAGES}?queue={BEYOND}",
    f"{MESSAGES}?show=dead",
    f"{MESSAGES}?show=dead&queue={BEYOND}",
    f"{MESSAGES}?show=dead&queue={ORPHAN}",
    f"/pairs/contoso/actions/delete_queue/?path={BEYOND}",
    f"/backlog/contoso/dead-letters/?queue={BEYOND}&verb=resubmit&which=all",
)


@pytest.fixture(scope="module")
def strings() -> Iterator[dict[str, str]]:
    with site.namespaces() as reported:
        yield reported


@pytest.fixture(scope="module")
def address(strings: dict[str, str], tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[str]:
    """A site whose secondary holds an empty orphan, and one with a message and two dead letters."""
    folder: Path = tmp_path_factory.mktemp("backlog")
    environment = site.environment_of(folder, strings, redis_url)
    with Secondary.of(strings) as secondary:
        secondary.make(ORPHAN)
        secondary.make(EMPTY)
        secondary.fill(secondary.make(BEYOND), "first <script>", "second", "third")
        secondary.dead_letter(BEYOND, 2)
        with site.serve(folder, environment, free_port()) as there:
            sample = "from workers import connections, watchers; watchers.sample('contoso'); connections.close_all()"
            forked.run(("manage.py", "shell", "-v0", "-c", sample), environment, check=True)
            yield there


@pytest.fixture
def operator(browser: Browser, address: str) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1280, "height": 1000}) as context:
        page = sign_in(context, address, "operator")
        page.goto(f"{address}/backlog/")
        yield page


def row(page: Page, path: str):
    return page.locator("tr", has=page.get_by_role("rowheader", name=path, exact=True))


def test_an_empty_orphan_is_deleted_and_taken_back(operator: Page) -> None:
    row(operator, EMPTY).get_by_role("link", name="Delete").click()
    dialog = operator.get_by_role("dialog")
    expect(dialog).to_contain_text("a peek found neither a message nor a dead letter")
    dialog.get_by_label("Reason").fill("the count was lowered")
    dialog.get_by_role("button", name="Quarantine and delete").click()
    expect(row(operator, EMPTY)).to_contain_text("To be deleted")

    row(operator, EMPTY).get_by_role("link", name="Cancel deletion").click()
    operator.get_by_role("dialog").get_by_role("button", name="Cancel deletion").click()

    expect(operator.get_by_role("status").filter(has_text="is kept in its previous state")).to_be_visible()
    expect(row(operator, EMPTY)).not_to_contain_text("To be deleted")


def test_chosen_dead_letters_are_resubmitted_from_the_page(operator: Page) -> None:
    row(operator, BEYOND).get_by_role("link", name="2", exact=True).click()
    operator.get_by_label(re.compile("^Choose message")).first.check()
    operator.get_by_role("button", name="Resubmit chosen").click()
    dialog = operator.get_by_role("dialog")
    expect(dialog).to_contain_text("Resubmit 1 dead letter")
    dialog.get_by_label("Send to").fill("payments")
    dialog.get_by_role("button", name="Resubmit").click()
    expect(operator.locator("#jobs")).to_contain_text("0 of 1")

    operator.locator("#jobs").get_by_role("link", name="Stop").click()
    operator.get_by_role("dialog").get_by_role("button", name="Stop").click()

    expect(operator.locator("#jobs")).to_contain_text("Stopped by operator")


def test_all_of_it_works_without_scripts(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = sign_in(context, address, "operator")
        page.goto(f"{address}/backlog/")
        row(page, ORPHAN).get_by_role("link", name="Quarantine", exact=True).click()
        page.get_by_role("button", name="Quarantine").click()
        expect(page.get_by_role("status")).to_contain_text("is in quarantine")

        row(page, BEYOND).get_by_role("link", name="2", exact=True).click()
        page.get_by_label(re.compile("^Choose message")).first.check()
        page.get_by_role("button", name="Resubmit chosen").click()

        expect(page.get_by_role("heading", name="Resubmit 1 dead letter")).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_no_page_is_wider_than_its_window_or_complains(browser: Browser, address: str, width: int) -> None:
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = sign_in(context, address, "administrator")
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for path in PAGES:
            page.goto(f"{address}{path}")
            expect(page.locator("main")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_stands_out_enough_in_both_themes(browser: Browser, address: str, theme: str) -> None:
    with browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900}) as context:
        page = sign_in(context, address, "administrator")
        for path in PAGES:
            page.goto(f"{address}{path}")
            assert page.evaluate(CONTRAST) == [], path
