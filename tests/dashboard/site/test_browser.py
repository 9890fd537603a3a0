"""The pages in a real browser, against a control plane as it is deployed."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import redis
from playwright.sync_api import Browser, BrowserContext, Page, expect

from pairing.fleet.coordination import SharedState
from tests.dashboard.served import PASSWORD, served
from tests.ports import free_port

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(of_group, tmp_path_factory, lasting_redis_url) -> str:
    return of_group.get("site", lambda: served(tmp_path_factory.mktemp("site"), lasting_redis_url, free_port()))


@pytest.fixture
def shared(lasting_redis_url) -> Iterator[SharedState]:
    """The fleet's state, with every entity healthy."""
    with redis.Redis.from_url(lasting_redis_url, decode_responses=True) as client:
        state = SharedState(client, "contoso")
        for path in ("orders", "payments", "shipments/eu-west"):
            state.mark_healthy(path, operator="the test", process="test:1:aaaa")
        yield state


def sign_in_by_hand(context: BrowserContext, site: str, name: str) -> Page:
    page = context.new_page()
    page.goto(f"{site}/login/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page


@cache
def cookies_of(browser: Browser, site: str, name: str) -> list[Any]:
    """What a browser keeps of one sign-in by hand, for all windows of this person on this site."""
    with browser.new_context() as context:
        sign_in_by_hand(context, site, name)
        return context.cookies()


def sign_in(context: BrowserContext, site: str, name: str) -> Page:
    """The overview, as this person sees it in a window of their own."""
    assert context.browser
    context.add_cookies(cookies_of(context.browser, site, name))
    page = context.new_page()
    page.goto(f"{site}/")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page


@pytest.fixture
def operator(browser: Browser, site, shared) -> Iterator[Page]:
    """A browser on the live overview, with nothing wrong yet."""
    with browser.new_context(viewport={"width": 1280, "height": 1300}) as context:
        page = sign_in(context, site, "operator")
        expect(page.get_by_role("heading", level=1)).to_contain_text("All 3 entities healthy")
        yield page


def row(page: Page, path: str):
    return page.locator(f"tr[data-entity='{path}']")


def test_a_failover_elsewhere_is_shown_without_reload(operator, shared):
    expect(operator.locator("[data-stream]")).to_have_text("live")

    shared.fail_over("orders", "somebody else's word", operator="ada", process="far-away:1:bbbb")

    expect(row(operator, "orders")).to_contain_text("somebody else's word")
    expect(row(operator, "orders")).to_contain_text("ada")
    expect(row(operator, "payments")).to_contain_text("Healthy")
    expect(operator.get_by_role("heading", level=1)).to_contain_text("1 of 3 entities failed over")


def test_the_question_stays_open_when_the_cost_of_a_failover_has_been_reported(operator):
    with operator.expect_response("**/costs/failover/**"):
        row(operator, "orders").get_by_role("link", name="Fail over").click()
    dialog = operator.get_by_role("dialog")

    expect(dialog.locator(".cost")).not_to_contain_text("Estimate the cost")
    expect(dialog.get_by_label("Reason")).to_be_visible()
    expect(operator.locator("#toasts")).to_be_empty()


def test_typing_in_the_search_narrows_the_table_and_the_address(operator):
    operator.get_by_label("Search pairs and entities").fill("ship")

    expect(operator.locator("tr[data-entity]")).to_have_count(1)
    expect(operator).to_have_url(re.compile(r"\?q=ship"))


@pytest.mark.parametrize(("name", "found"), [("operator", "typed for a minute"), ("administrator", "")])
def test_what_was_typed_outlives_a_session_that_had_expired_for_the_same_person(operator, site, name, found):
    operator.goto(f"{site}/pairs/contoso/actions/hold/?path=orders")
    operator.get_by_label("Reason").fill("typed for a minute")
    operator.context.clear_cookies(name="sessionid")
    operator.get_by_role("button", name="Hold").click()
    operator.get_by_label("User name").fill(name)
    operator.get_by_label("Password").fill(PASSWORD)
    operator.get_by_role("button", name="Sign in").click()

    expect(operator.get_by_label("Reason")).to_have_value(found)
    assert operator.evaluate("sessionStorage.getItem('typed')") is None


def test_a_page_waits_ten_times_as_long_as_its_live_part_took(operator, site):
    operator.route("**/live/", lambda route: route.abort())
    operator.add_init_script("setInterval = () => 0")
    operator.goto(site)
    waits_ms = operator.evaluate("""() => {
      const detail = { elt: { id: "live" } };
      const tell = (name) => document.body.dispatchEvent(new CustomEvent(`htmx:${name}`, { detail }));
      let now = 0, waits;
      performance.now = () => now;
      setTimeout = (_, after) => { waits = after; };
      tell("beforeRequest");
      now = 700;
      tell("afterRequest");
      document.dispatchEvent(new Event("visibilitychange"));
      return waits;
    }""")
    assert waits_ms == 7_000


def test_the_chosen_theme_outlives_the_page(operator, site):
    switch = operator.get_by_role("button", name=re.compile("^Theme"))
    switch.click()
    switch.click()
    operator.goto(f"{site}/events/")

    expect(operator.locator("html")).to_have_attribute("data-theme", "dark")
    assert operator.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 19, 24)"


def test_a_page_is_printed_dark_on_light_whatever_theme_is_chosen(operator, site):
    ink = "getComputedStyle(document.querySelector('h1')).color"
    operator.evaluate("document.documentElement.dataset.theme = 'light'")
    on_paper = operator.evaluate(ink)

    operator.evaluate("document.documentElement.dataset.theme = 'dark'")
    on_screen = operator.evaluate(ink)
    operator.emulate_media(media="print")

    assert operator.evaluate(ink) == on_paper != on_screen


def test_what_is_ticked_stays_ticked_through_a_refresh_and_is_failed_over_together(operator, shared, site):
    for path in ("orders", "payments"):
        operator.get_by_label(f"Select {path}").check()

    shared.fail_over("shipments/eu-west", "elsewhere", operator="ada", process="far-away:1:bbbb")
    expect(row(operator, "shipments/eu-west")).to_contain_text("elsewhere")
    expect(operator.get_by_label("Select orders")).to_be_checked()

    operator.locator("form.selected").get_by_role("button", name="Fail over").click()
    expect(operator.get_by_role("heading", name="Force failover: 2 entities")).to_be_visible()
    operator.get_by_label("Reason").fill("storage")
    operator.get_by_role("button", name="Fail over 2 entities").click()

    expect(row(operator, "payments")).to_contain_text("operator")
    assert {path for path, known in shared.health().items() if known.held_by == "operator"} == {"orders", "payments"}


def test_a_slider_moves_its_number_and_the_forecast_answers_at_once(browser: Browser, site):
    with browser.new_context() as context:
        page = sign_in(context, site, "viewer")
        page.goto(f"{site}/costs/forecast/?hours=3&messages_per_hour=1000")
        slider, hours = (
            page.get_by_label("Duration in hours, as a slider"),
            page.get_by_label("Duration in hours", exact=True),
        )
        expect(page.locator("#room")).to_be_visible()
        expect(page.get_by_text("3,000 messages")).to_be_visible()
        place = slider.input_value()

        hours.fill("168")
        expect(slider).to_have_value("200")
        slider.press("Home")

        expect(hours).to_have_value("0.25")
        expect(page.get_by_text("250 messages")).to_be_visible()
        expect(page).to_have_url(re.compile("hours=0.25"))
        expect(slider).to_have_attribute("aria-valuetext", "0.25")
        assert 0 < int(place) < 200
        assert page.get_by_label("Operations used this month, as a slider").count() == 0


def test_the_forecast_has_no_dead_sliders_without_scripts(browser: Browser, site):
    with browser.new_context(java_script_enabled=False) as context:
        page = sign_in(context, site, "viewer")
        page.goto(f"{site}/costs/forecast/")

        expect(page.locator("input[type='range']").first).to_be_hidden()
        expect(page.get_by_label("Duration in hours", exact=True)).to_be_editable()


def test_a_refused_form_stays_open_with_its_text_and_the_focus_where_it_is_wrong(operator, site):
    operator.goto(f"{site}/pairs/contoso/")
    operator.get_by_role("link", name="Pace syphon").first.click()
    dialog = operator.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("gently, please")
    rate = dialog.get_by_label("At most")
    rate.evaluate("(field) => { field.form.noValidate = true; field.type = 'text'; field.value = 'slowly'; }")
    dialog.get_by_role("button", name="Set").click()

    expect(dialog.get_by_role("alert")).to_contain_text("At most: Enter a number.")
    expect(dialog.get_by_label("Reason")).to_have_value("gently, please")
    expect(dialog.locator("#wrong-rate")).to_be_visible()
    expect(dialog.locator("input[name=rate]")).to_be_focused()
