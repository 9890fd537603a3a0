"""The pages of an outage in a real browser: charts that are read by pointer and keyboard, and what stands first."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.dashboard.access.test_browser_roles import PARTS, pages, sample
from tests.dashboard.fitting import CLIPPED, unfit
from tests.dashboard.outage_states import ENTER, STATES
from tests.dashboard.sample_data import OWN, SampleSite
from tests.dashboard.site.test_browser import sign_in
from tests.pictures import keep_for_sheet, sheet_folder, write_sheet
from tests.selection import nightly

__all__ = ["sample"]
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

ORDERS = "/pairs/contoso/entities/orders/"
LOOKS = tuple(f"{width}-{scheme}" for width in (1440, 1024, 390) for scheme in ("light", "dark"))
WIDTHS = (1024, 1100, 1280, 1440, 1920)
RENAME = """
from dashboard.models import Alert, Charge, EntityHealth, FailoverEvent, Readiness
EntityHealth.objects.filter(path='{0}').update(path='{1}')
for table in (Alert, Charge, FailoverEvent, Readiness):
    table.objects.filter(entity='{0}').update(entity='{1}')
"""
MARKED = [
    "Failed over: orders, payments",
    "Recovered: orders, payments",
    "Syphon paused by ada",
    "Syphon resumed by ada",
]


@pytest.fixture(scope="module")
def place(sample: SampleSite) -> SampleSite:
    sample.shell(ENTER.format("draining"))
    return sample


@pytest.fixture(scope="module")
def page(browser: Browser, place: SampleSite) -> Iterator[Page]:
    """A page whose content security policy is kept: nothing is complained of."""
    complaints: list[str] = []
    with browser.new_context(base_url=place.address, viewport={"width": 1440, "height": 1000}) as context:
        page = sign_in(context, place.address, "operator")
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    assert complaints == []


@pytest.fixture(scope="module")
def failed_over(place: SampleSite) -> None:
    place.shell(ENTER.format("failed-over"))


def plot(page: Page) -> Locator:
    return page.get_by_role("slider", name=re.compile("in the backlog"))


def spoken(page: Page) -> str:
    return plot(page).get_attribute("aria-valuetext") or ""


def test_a_chart_is_read_by_pointer_with_time_unit_and_every_line(page: Page) -> None:
    page.goto("/pairs/contoso/")
    box = plot(page).locator("svg.chart").bounding_box()
    assert box

    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    tip = plot(page).locator(".tip")
    expect(tip).to_contain_text(re.compile(r"^\d\d:\d\d:\d\d UTC"))
    for name in ("total", "orders", "payments"):
        expect(tip.locator("p", has_text=name).first).to_contain_text(re.compile(r"\d messages$"))
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)


def test_a_chart_is_read_by_keyboard_and_stops_at_every_mark(page: Page) -> None:
    page.goto("/pairs/contoso/")
    chart = plot(page)
    chart.focus()
    expect(chart).to_have_attribute("aria-valuenow", chart.get_attribute("aria-valuemax") or "")
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"UTC: total [\d,]+, orders [\d,]+, payments"))
    now = spoken(page)

    page.keyboard.press("ArrowLeft")
    assert spoken(page) != now
    page.keyboard.press("ArrowRight")
    assert spoken(page) == now
    page.keyboard.press("Home")
    expect(chart).to_have_attribute("aria-valuenow", "0")
    heard = ""
    while chart.get_attribute("aria-valuenow") != chart.get_attribute("aria-valuemax"):
        page.keyboard.press("ArrowRight")
        heard += spoken(page)
    for words in MARKED:
        assert words in heard, words
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).to_have_count(0)


def test_what_is_read_outlives_a_refresh(page: Page) -> None:
    page.goto("/pairs/contoso/")
    plot(page).focus()
    for _ in range(4):
        page.keyboard.press("PageDown")
    before = spoken(page)
    page.evaluate("document.querySelector('#live').dataset.isOld = 'yes'")

    page.evaluate("document.body.dispatchEvent(new CustomEvent('refresh'))")

    expect(page.locator("#live:not([data-is-old])")).to_be_visible()
    expect(plot(page)).to_be_focused()
    expect(plot(page).locator(".tip")).to_be_visible()
    assert spoken(page)[:5] == before[:5]  # the same minute: the window has moved on by a moment


def test_an_entity_has_the_same_colour_in_every_chart(page: Page) -> None:
    colours = set()
    for address, line in (
        ("/", ".chart-names [data-name=orders]"),
        ("/pairs/contoso/", ".chart-names [data-name=orders]"),
        (ORDERS, ".chart-names [data-name=orders]"),
        ("/", "tr[data-entity=orders] .spark"),
    ):
        page.goto(address)
        page.locator(line).wait_for(state="attached")
        # Found and measured in one step: a live update may put another element in its place at any time.
        tone = "at => getComputedStyle(document.querySelector(at)).getPropertyValue('--tone').trim()"
        colours.add(page.evaluate(tone, line))
    assert len(colours) == 1, colours


def test_marks_stand_in_the_drawing_and_are_named_beside_it(page: Page) -> None:
    page.goto("/pairs/contoso/")

    named = page.locator(".chart-marks li")

    assert named.locator("span").all_inner_texts() == MARKED
    assert page.locator("svg.chart .happening text").all_text_contents() == named.locator("b").all_text_contents()


def test_a_chart_is_read_without_scripts(browser: Browser, place: SampleSite) -> None:
    with browser.new_context(base_url=place.address, java_script_enabled=False) as context:
        page = sign_in(context, place.address, "viewer")
        page.goto("/pairs/contoso/")
        expect(page.get_by_role("slider")).to_have_count(0)
        expect(page.locator(".chart-names [data-name=total]")).to_contain_text(re.compile(r"total\s+[\d,]+"))
        page.get_by_text("Numbers").click()
        heads = page.locator(".numbers thead th").all_inner_texts()
        assert heads == ["Time (UTC)", "total", "orders", "payments"]
        assert page.locator(".numbers tbody tr").count() >= 10


def test_buttons_for_several_entities_appear_with_the_first_that_is_ticked(page: Page) -> None:
    page.goto("/")
    several = page.locator("form.selected")
    expect(several).to_be_hidden()

    page.get_by_label("Select orders", exact=True).check()
    expect(several).to_be_visible()
    page.get_by_label("Select orders", exact=True).uncheck()
    expect(several).to_be_hidden()


def test_a_long_name_of_a_pair_is_broken_on_a_phone_before_the_page_is_wider(page: Page, place: SampleSite) -> None:
    name = "unbroken" * 7
    place.shell(f"from dashboard.models import Pair; Pair.objects.filter(name='contoso').update(name='{name}')")
    page.set_viewport_size({"width": 390, "height": 900})
    widths = {}
    for address in ("/", f"/pairs/{name}/", f"/pairs/{name}/actions/fail_over/?path=*", "/backlog/"):
        page.goto(address)
        widths[address] = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1440, "height": 1000})
    place.shell(f"from dashboard.models import Pair; Pair.objects.filter(name='{name}').update(name='contoso')")
    assert set(widths.values()) == {390}


@pytest.mark.usefixtures("failed_over")
@pytest.mark.parametrize("name", ["ContosoOrderingApplicationIntegrationEventsOrderStatusChangedToAwaiting", "a" * 82])
def test_a_long_name_of_an_entity_leaves_what_can_be_pressed_in_sight(page: Page, place: SampleSite, name: str) -> None:
    place.shell(RENAME.format("payments", name))
    cut = {}
    lists = ("/incidents/", "/events/", "/alerts/", "/costs/?tab=rows", "/costs/?tab=outages", "/readiness/")
    for address in ("/", "/pairs/contoso/", f"/pairs/contoso/entities/{name}/", *lists):
        page.goto(address)
        for width in (*WIDTHS, 390):
            page.set_viewport_size({"width": width, "height": 900})
            cut[address, width] = unfit(page)
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto("/")  # an open page would refresh the entity's old address
    place.shell(RENAME.format(name, "payments"))
    assert {where: what for where, what in cut.items() if what} == {}


TASKS = (
    ("/", "Mark healthy: orders", "Mark healthy"),
    ("/", "Hold: orders", "Hold"),
    ("/", "Fail over all", re.compile(r"^Fail over \d+ entities")),
    ("/", "Pause syphon", "Pause"),
    ("/", "Pace syphon", "Set the pace"),
    ("/", "incident", "Markdown"),
    ("/", "Costs", "CSV"),
    ("/costs/", "Outages", "orders"),
    (f"/backlog/contoso/messages/?show=dead&queue={OWN}", "Resubmit all", "Resubmit"),
    ("/drills/", "Drill …", "Start the drill"),
)
"""Where a task begins, its first click, and its last, which is there: `test_browser_roles` does what it does."""
UNFILLED = "() => [...document.querySelectorAll(':is(dialog, .narrow) :invalid:not(form)')].map((each) => each.name)"


def pressed(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("link", name=name, exact=True).or_(page.get_by_role("button", name=name, exact=True))


@pytest.mark.usefixtures("failed_over")
@pytest.mark.parametrize(("start", "first", "last"), TASKS, ids=lambda value: str(value))
def test_a_task_takes_two_clicks_and_at_most_a_reason(
    page: Page, start: str, first: str, last: str | re.Pattern[str]
) -> None:
    page.goto(start)
    pressed(page, first).first.click()
    expect(pressed(page, last).last).to_be_visible()
    if address := pressed(page, last).last.evaluate("each => each.href"):
        assert page.request.get(address).ok
    assert set(page.evaluate(UNFILLED)) <= {"reason", "rate"}
    page.goto("/")  # an open incident would be fetched again when its events are no more


@pytest.mark.parametrize("state", nightly(*STATES))
def test_every_page_fits_in_every_state_and_is_on_the_contact_sheet(
    browser: Browser, place: SampleSite, tmp_path: Path, state: str
) -> None:
    place.shell(ENTER.format(state))
    folder, wrong = sheet_folder(tmp_path), []
    with browser.new_context(base_url=place.address) as context:
        page = sign_in(context, place.address, "administrator")
        for name, address in pages().items():
            if name in PARTS:
                continue
            page.goto(address)
            keep_for_sheet(page, folder, f"{name}--{state}", LOOKS)
            for width in (*WIDTHS, 390):
                page.set_viewport_size({"width": width, "height": 900})
                wrong += [f"{what} on {name} at {width}" for what in unfit(page)]
    assert wrong == []
    assert len(list(folder.glob(f"*--{state}--*.png"))) == write_sheet(folder, LOOKS).read_text().count(f"--{state}--")


def heights(page: Page, width: int) -> int:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/")
    height: int = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": 1440, "height": 1000})
    return height


@pytest.mark.parametrize("state", ["failed-over", *nightly(*(state for state in STATES if state != "failed-over"))])
def test_nothing_to_press_is_cut_off_and_the_overview_is_short_in_every_state(
    page: Page, place: SampleSite, state: str
) -> None:
    place.shell(ENTER.format(state))
    cut = {}
    for address in ("/", "/pairs/contoso/", ORDERS, "/backlog/"):
        page.goto(address)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            cut[address, width] = page.evaluate(CLIPPED)
    assert {where: what for where, what in cut.items() if what} == {}
    assert heights(page, 390) < 2500
    assert heights(page, 1440) < 1500
