"""What an operator does at three in the morning, in a real browser with the demo's history: with few clicks.

And what they look at: pages that fit, a form that keeps what was typed, an entity that is chosen instead of spelled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import redis
from playwright.sync_api import Browser, Locator, Page, expect

from pairing.fleet.coordination import SharedState
from tests.dashboard import served
from tests.dashboard.history_data import ADD_HISTORY
from tests.dashboard.sample_data import EMPTY_ORPHAN, OWN, SAMPLE, SampleSite, fill
from tests.dashboard.secondary import Secondary
from tests.dashboard.site.test_browser import row, sign_in
from tests.ports import free_port
from tests.selection import nightly

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LONGEST = {
    "/costs/": (3_500, 4_500),
    "/incidents/": (3_500, 3_500),
    "/events/": (2_500, 3_000),
    "/alerts/": (3_500, 5_500),
}
"""How tall a page may be, in pixels: on a wide screen, and on a phone."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[SampleSite]:
    folder = tmp_path_factory.mktemp("tasks")
    with served.namespaces() as strings, Secondary.of(strings) as secondary:
        fill(secondary)
        secondary.primary_administration.create_queue("returns")
        environment = served.environment_of(folder, strings, redis_url)
        with served.serve(folder, environment, free_port(), f"{SAMPLE}\n{ADD_HISTORY}") as address:
            yield SampleSite(address, secondary, environment)


@pytest.fixture
def shared(redis_url: str) -> Iterator[SharedState]:
    """The fleet's state, with every entity healthy and no syphon paused."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        state = SharedState(client, "contoso")
        for path in ("orders", "payments"):
            state.mark_healthy(path, operator="the test", process="test:1:aaaa")
        yield state


@pytest.fixture(scope="module")
def window(browser: Browser, place: SampleSite) -> Iterator[Page]:
    with browser.new_context(base_url=place.address, viewport=WIDE) as context:
        yield sign_in(context, place.address, "operator")


@pytest.fixture
def page(window: Page, shared: SharedState) -> Page:
    """An operator on the live overview, in the window that all tests use one after another."""
    window.set_viewport_size(WIDE)
    window.goto("/")
    expect(window.locator("[data-stream]")).to_have_text("live")
    return window


@dataclass
class Clicks:
    """A person's clicks, counted."""

    page: Page
    count: int = 0

    def __call__(self, wanted: Locator) -> None:
        wanted.click()
        self.count += 1

    def confirm(self, button: str, reason: str = "ticket 4711") -> None:
        """The question of an action: a reason if it asks for one, and the button, which is not counted."""
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill(reason)
        dialog.get_by_role("button", name=button).click()


@pytest.fixture
def click(page: Page) -> Clicks:
    return Clicks(page)


def menu(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)


def says(page: Page, sentence: str) -> None:
    expect(page.get_by_role("status").filter(has_text=sentence).first).to_be_visible()


def break_orders(page: Page, shared: SharedState) -> None:
    shared.fail_over("orders", "no answer for 5 s", operator="ada", process="far-away:1:bbbb")
    expect(row(page, "orders")).to_contain_text("no answer for 5 s")


def test_an_outage_is_seen_and_its_cause_read_without_a_click(page, shared, click):
    break_orders(page, shared)

    expect(page.get_by_role("heading", level=1)).to_contain_text("failed over")
    expect(page.get_by_text("no answer for 5 s").first).to_be_visible()
    assert click.count == 0


def test_why_it_happened_takes_two_clicks_to_the_post_mortem(page, click):
    click(menu(page, "Incidents"))
    click(page.locator("tr", has_text="the primary resets connections").first.get_by_role("link"))

    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.locator("table.timeline")).to_contain_text("the primary resets connections")
    assert click.count == 2


def test_a_failover_is_forced_priced_and_released_within_two_clicks(page, click):
    click(page.locator("details:has(tr[data-entity='payments']) > summary"))  # the healthy entities of a large pair
    click(row(page, "payments").get_by_role("link", name="Fail over"))
    expect(page.get_by_role("dialog").locator(".cost")).not_to_contain_text("Estimate the cost")
    click.confirm("Fail over")
    says(page, "payments is failed over")
    assert click.count == 2

    click.count = 0
    click(row(page, "payments").get_by_role("link", name="Release"))
    click.confirm("Release")
    says(page, "payments is released")
    assert click.count == 1


def test_a_syphon_is_paused_and_paced_within_two_clicks(page, click, shared):
    contoso = page.locator("section", has=page.get_by_role("link", name="contoso", exact=True)).first
    click(contoso.get_by_role("link", name="Pause syphon"))
    click.confirm("Pause")
    expect(page.get_by_text("The syphon has been paused by")).to_be_visible()
    assert click.count == 1
    shared.resume_syphon(None)

    click.count = 0
    click(contoso.get_by_role("link", name="contoso", exact=True))
    click(page.get_by_role("link", name="Pace syphon").first)
    page.get_by_role("dialog").get_by_label("At most").fill("5")
    click.confirm("Set")
    says(page, "at most 5")
    assert click.count == 2
    shared.pace_syphon(None, None, "the test", "")


def test_what_the_month_costs_is_one_click_away_with_todays_bar_in_sight(page, click):
    click(menu(page, "Costs"))

    expect(page.locator("#days-plot rect.bar").last).to_be_in_viewport()
    assert click.count == 1


def test_messages_are_browsed_within_two_clicks(page, click):
    click(menu(page, "Backlog"))
    click(page.get_by_role("link", name="Browse messages").first)

    expect(page.locator("table.messages tbody tr").first).to_be_visible()
    assert click.count == 2


def test_an_orphan_is_cleaned_up_within_two_clicks(page, click):
    click(menu(page, "Backlog"))
    orphan = page.locator("tr", has=page.get_by_role("rowheader", name=EMPTY_ORPHAN))
    click(orphan.get_by_role("link", name="Delete"))
    click.confirm("Quarantine and delete")

    expect(orphan).to_contain_text("To be deleted")
    assert click.count == 2
    orphan.get_by_role("link", name="Cancel deletion").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel deletion").click()
    expect(orphan).not_to_contain_text("To be deleted")


def test_dead_letters_are_resubmitted_to_another_entity_within_two_clicks_without_spelling_it(page, click):
    click(menu(page, "Backlog"))
    queue = page.locator("tr", has=page.get_by_role("rowheader", name=OWN, exact=True))
    click(queue.get_by_role("link", name="Resubmit"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Send to")).to_be_visible()
    offered = dialog.locator("datalist option").evaluate_all("all => all.map((each) => each.value)")
    assert {"returns", "orders", "payments"} <= set(offered)

    dialog.get_by_label("Send to").fill("retruns")
    click.confirm("Resubmit", "the queue exists now")
    expect(dialog.get_by_role("alert")).to_contain_text("has neither a queue nor a topic retruns")
    expect(dialog.get_by_label("Send to")).to_have_value("retruns")
    expect(dialog.get_by_label("Reason")).to_have_value("the queue exists now")

    dialog.get_by_label("Send to").fill("returns")
    dialog.get_by_role("button", name="Resubmit").click()
    expect(dialog).to_be_hidden()
    assert click.count == 2


def test_a_refused_form_stays_open_with_its_text_and_the_focus_where_it_is_wrong(page):
    page.goto("/pairs/contoso/")
    page.get_by_role("link", name="Pace syphon").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("gently, please")
    rate = dialog.get_by_label("At most")
    rate.evaluate("(field) => { field.form.noValidate = true; field.type = 'text'; field.value = 'slowly'; }")
    dialog.get_by_role("button", name="Set").click()

    expect(dialog.get_by_role("alert")).to_contain_text("At most: Enter a number.")
    expect(dialog.get_by_label("Reason")).to_have_value("gently, please")
    expect(dialog.locator("#wrong-rate")).to_be_visible()
    expect(dialog.locator("input[name=rate]")).to_be_focused()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_page_with_a_past_is_longer_than_it_has_to_be_or_wider_than_its_window(page, size):
    page.set_viewport_size(size)
    for address, most in LONGEST.items():
        page.goto(address)
        tall, wide = page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]")
        assert tall < most[size is PHONE], (address, tall)
        assert wide <= size["width"], (address, wide)


@pytest.mark.parametrize("width", [1024, *nightly(1280, 1440)])
def test_no_button_of_a_backlog_queue_is_cut_off(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/backlog/")
    page.locator("table.queues a.button").first.wait_for()
    # Both in one step: a live update may put other elements in their place at any time.
    edge, ends = page.evaluate("""() => {
        const right = (one) => one.getBoundingClientRect().right;
        return [right(document.querySelector("section.card .scroll")),
                [...document.querySelectorAll("table.queues a.button")].map(right)];
    }""")

    assert ends
    assert max(ends) <= edge + 1


def test_todays_bar_is_in_sight_on_a_phone(page):
    page.set_viewport_size(PHONE)
    page.goto("/costs/")
    bar = page.locator("#days-plot rect.bar").last
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()

    assert box is not None
    assert 0 <= box["x"] < box["x"] + box["width"] <= PHONE["width"]
