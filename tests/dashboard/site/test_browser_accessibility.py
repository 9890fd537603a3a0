"""Every page for people who see little, hear the page, or use no mouse: WCAG 2.2 A and AA as far as a program tells."""

from collections.abc import Collection, Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.access.test_browser_roles import PARTS, opened, place, sample
from tests.dashboard.access.test_browser_roles import pages as pages_and_parts
from tests.dashboard.sample_data import DEVIATING, EMPTY_ORPHAN, FULL_ORPHAN, LONG_PATH, OWN, SampleSite
from tests.dashboard.sample_outage import INCIDENT
from tests.dashboard.site.test_browser import sign_in
from tests.pictures import keep_picture, wanted
from tests.selection import nightly

__all__ = ["place", "sample"]
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL = {"runOnly": {"type": "tag", "values": STANDARD}, "resultTypes": ["violations"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ZOOMED = {"width": 720, "height": 450}
"""1,440 pixels at 200 %."""
BILLING = "shipments/eu-west/Subscriptions/billing"
STATES = {
    "an entity with a long name": f"/pairs/contoso/entities/{LONG_PATH}/",
    "nothing found": "/?q=no-such-entity",
    "no events": "/events/?entity=no-such-entity",
    "messages": "/backlog/contoso/messages/",
    "the question before a deletion": f"/pairs/contoso/actions/delete_queue/?path={EMPTY_ORPHAN}",
    "the question before a deletion with messages": f"/pairs/contoso/actions/delete_queue/?path={FULL_ORPHAN}",
    "a comparison": f"/pairs/contoso/actions/repair_queue/?path={DEVIATING}",
    "a pace": "/pairs/contoso/actions/pace_syphon/?path=*",
    "a discard": f"/backlog/contoso/dead-letters/?queue={OWN}&verb=discard&which=all",
    "a topic": "/pairs/contoso/entities/shipments/eu-west/",
    "a question about a subscription": f"/backlog/contoso/dead-letters/?queue={BILLING}&verb=resubmit&which=all",
    "a month without charges": "/costs/?month=2024-01",
    "a month that is none": "/costs/?month=2026-13",
    **{f"costs, {tab}": f"/costs/?tab={tab}" for tab in ("pairs", "entities", "outages", "rows", "terms")},
    "an address that is none": "/no-such-page/",
    "the address of a button": "/alerts/acknowledge/",
}
PICTURED = {
    "incident": f"/pairs/contoso/incidents/{INCIDENT}/",
    "backlog": "/backlog/",
    "costs": "/costs/",
    "readiness": "/readiness/",
}
"""Pages whose pictures are in docs/images/, beside those of the overview."""


CUT_OFF = """() => {
  const wide = document.documentElement.clientWidth;
  const cut = [...document.querySelectorAll("header.top nav a, header.top .person *, main h1")]
    .filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > wide + 1)
    .map((each) => each.textContent.trim());
  return document.documentElement.scrollWidth > wide ? [...cut, "the page is wider than its window"] : cut;
}"""
"""The menu's entries, and the page itself, that do not fit into the window."""
EXPLANATIONS_CUT_OFF = """() => [...document.querySelectorAll("table.invoice .why")]
  .filter((each) => each.checkVisibility())
  .filter((each) => each.getBoundingClientRect().right > each.closest(".scroll").getBoundingClientRect().right + 1)
  .map((each) => each.textContent.trim())"""


@pytest.fixture(scope="module")
def page(browser: Browser, place: SampleSite) -> Iterator[Page]:
    """A page whose scripts complain of nothing; that an address is none, the browser says too."""
    complaints: list[str] = []
    with browser.new_context(base_url=place.address, viewport=WIDE) as context:
        page = sign_in(context, place.address, "administrator")
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    assert [said for said in complaints if "Failed to load resource" not in said] == []


def reported(page: Page, options: dict[str, Any]) -> list[str]:
    """What the tool finds wrong: the rule, and where. It is brought to a page once."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("async (options) => (await axe.run(options)).violations", options)
    return [
        f"{one['id']}: {one['help']} at {'; '.join(str(node['target']) for node in one['nodes'][:4])}" for one in found
    ]


def pages() -> dict[str, str]:
    return {name: address for name, address in pages_and_parts().items() if name not in PARTS} | STATES


REPRESENTATIVES = {"overview", "entity-detail", "backlog", "costs", "alerts", "readiness", "drills", "pair-action"}
"""A page of each room: what `make test` looks at; `make nightly` looks at all."""


def in_the_suite(names: Collection[str]) -> list[Any]:
    """The names as parameters, all but the representatives for the nightly run."""
    return [name for name in names if name in REPRESENTATIVES] + nightly(*sorted(set(names) - REPRESENTATIVES))


@pytest.mark.parametrize("name", in_the_suite(pages()))
def test_a_page_is_accessible_in_both_themes_wide_and_on_a_phone(page: Page, name: str) -> None:
    page.set_viewport_size(WIDE)
    answer = opened(page, pages()[name])
    if answer is None or is_only_a_button(answer.status, name):
        pytest.skip("no page")
    wrong = []
    for size, options in ((WIDE, ALL), (PHONE, ALL)):
        page.set_viewport_size(size)
        assert page.evaluate(CUT_OFF) == []
        page.emulate_media(color_scheme="light")
        wrong += reported(page, options)
        page.emulate_media(color_scheme="dark")
        wrong += [f"dark: {one}" for one in reported(page, COLOURS)]
    assert wrong == []


def is_only_a_button(status: int, name: str) -> bool:
    """Their addresses all answer with the same page, so one is enough."""
    return status == 405 and name not in STATES


@pytest.mark.skipif(not wanted(), reason="pictures are taken when they are wanted: SCREENSHOTS=docs/images")
@pytest.mark.parametrize("name", PICTURED)
def test_a_page_is_kept_as_a_picture(page: Page, name: str) -> None:
    page.set_viewport_size(WIDE)
    page.goto(PICTURED[name])
    expect(page.locator("main h1")).to_be_visible()
    keep_picture(page, name)


FOCUS = """() => {
  const at = document.activeElement, drawn = at.matches(".segments input") ? at.nextElementSibling : at;
  const { outlineStyle, outlineWidth } = getComputedStyle(drawn);
  const text = at.getAttribute("aria-label") || at.textContent || at.name || "";
  return { tag: at.tagName, text: text.trim().slice(0, 40),
           isSeen: outlineStyle !== "none" && parseFloat(outlineWidth) > 0, inDialog: !!at.closest("dialog") };
}"""


@pytest.fixture
def overview(browser: Browser, place: SampleSite) -> Iterator[Page]:
    with browser.new_context(base_url=place.address, viewport=WIDE) as context:
        page = sign_in(context, place.address, "operator")
        page.goto("/?q=ments")
        expect(page.locator("[data-stream]")).to_have_text("live")
        yield page


def test_the_first_stop_of_the_keyboard_leads_past_the_menu(overview: Page) -> None:
    overview.keyboard.press("Tab")
    expect(overview.get_by_role("link", name="Skip to content")).to_be_focused()
    overview.keyboard.press("Enter")
    expect(overview.locator("main")).to_be_focused()
    overview.keyboard.press("Tab")
    expect(overview.get_by_label("Search pairs and entities")).to_be_focused()


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_explanation_of_a_charge_is_read_without_scrolling_sideways(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/costs/?tab=rows")
    page.evaluate("document.querySelectorAll('.stages').forEach((each) => each.open = true)")
    expect(page.locator(".why").first).to_be_visible()
    assert page.evaluate(EXPLANATIONS_CUT_OFF) == []


@pytest.mark.parametrize(
    "address", ["/", "/costs/", *nightly("/backlog/", "/events/", "/pairs/contoso/entities/orders/")]
)
def test_every_stop_of_the_keyboard_is_seen_and_comes_in_the_order_of_the_page(page: Page, address: str) -> None:
    page.set_viewport_size(WIDE)
    page.goto(address)
    stops = []
    for _ in range(45):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        if stop["tag"] == "BODY":
            break
        stops.append(stop)
    assert [stop["text"] for stop in stops if not stop["isSeen"]] == []
    assert [stop["text"] for stop in stops[:3]] == ["Skip to content", "Paired namespaces", "Overview"]


def test_a_failover_is_forced_with_the_keyboard_alone_and_one_stays_where_one_was(overview: Page) -> None:
    row = overview.locator("tr[data-entity='payments']")
    row.get_by_role("link", name="Fail over").focus()
    overview.keyboard.press("Enter")
    expect(overview.get_by_label("Reason")).to_be_focused()
    stops = []
    for _ in range(8):
        overview.keyboard.press("Tab")
        stops.append(overview.evaluate(FOCUS))
    assert all(stop["inDialog"] or stop["tag"] == "BODY" for stop in stops), stops
    overview.keyboard.press("Escape")
    expect(overview.get_by_role("dialog")).to_be_hidden()
    expect(row.get_by_role("link", name="Fail over")).to_be_focused()

    overview.keyboard.press("Enter")
    expect(overview.get_by_label("Reason")).to_be_focused()
    overview.keyboard.type("by keyboard")
    for _ in range(3):
        overview.keyboard.press("Tab")
    expect(overview.get_by_role("dialog").get_by_role("button", name="Fail over")).to_be_focused()
    overview.keyboard.press("Enter")

    expect(row).to_contain_text("by keyboard")
    expect(row.get_by_role("link", name="Release")).to_be_focused()
    expect(overview.locator("#news")).to_contain_text("failed over")
    overview.keyboard.press("Enter")
    overview.get_by_role("dialog").get_by_role("button", name="Release").press("Enter")
    expect(overview.get_by_role("status").filter(has_text="is released")).to_be_visible()


def test_refreshes_say_nothing_but_what_is_new(overview: Page) -> None:
    assert overview.locator("#live [role=alert], #live [role=status], #live [aria-live]").count() == 0
    overview.evaluate("document.body.dispatchEvent(new CustomEvent('refresh'))")
    with overview.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true"):
        overview.evaluate("document.body.dispatchEvent(new CustomEvent('refresh'))")
    expect(overview.locator("#news")).to_be_empty()


def test_every_page_fits_and_every_table_names_its_columns_and_every_part_its_heading(page: Page) -> None:
    for name, address in pages().items():
        answer = opened(page, address)
        if answer is None or answer.status == 405:
            continue
        assert page.locator("main table:not(:has(th[scope=col]))").count() == 0, name
        assert page.locator("main h1").count() == 1, name
        assert page.locator("body > header, body > main").count() == 2, name
        for size in (PHONE, ZOOMED, WIDE):
            page.set_viewport_size(size)
            assert page.evaluate(CUT_OFF) == [], name
