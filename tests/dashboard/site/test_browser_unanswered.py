"""What a person sees who presses a button and gets no answer: that nobody knows, and that it stays to be read."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.dashboard.site.test_browser import operator, row, shared, site

__all__ = ["operator", "shared", "site"]
pytestmark = pytest.mark.browser
ACTION_URLS = "**/actions/fail_over/"


def asked(page: Page) -> Locator:
    """The open question whether to fail `orders` over."""
    row(page, "orders").get_by_role("link", name="Fail over").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("storage is down")
    return dialog


def press(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Fail over").click()


def answering(status: int) -> Callable[[Route], None]:
    return lambda route: route.fulfill(status=status, content_type="text/html", body="<html>Bad gateway</html>")


def loses_the_answer(route: Route) -> None:
    """The server does it, and its answer never arrives."""
    if route.request.method == "POST":
        route.fetch()
        route.abort("connectionreset")
    else:
        route.continue_()


def test_a_server_that_is_gone_leaves_the_question_open_and_says_that_nobody_knows(operator, shared):
    dialog = asked(operator)
    operator.context.set_offline(True)
    press(dialog)

    reported = dialog.get_by_role("alert")
    expect(reported).to_contain_text("did not answer: it is not known whether “Fail over” was carried out")

    operator.context.set_offline(False)
    press(dialog)
    expect(dialog).to_be_hidden()
    expect(operator.get_by_role("status").filter(has_text="orders is failed over")).to_be_visible()
    assert shared.health()["orders"].held_by == "operator"


def test_a_second_click_after_a_lost_answer_does_no_harm(operator, site, shared):
    operator.goto(f"{site}/audit/")
    before = operator.locator("tbody tr", has_text="Fail over").count()
    operator.goto(f"{site}/")
    dialog = asked(operator)
    operator.route(ACTION_URLS, loses_the_answer)
    press(dialog)
    expect(dialog.get_by_role("alert")).to_contain_text("repeating an action is safe")
    known = shared.health()["orders"].version

    operator.unroute(ACTION_URLS)
    press(dialog)

    expect(dialog).to_be_hidden()
    assert shared.health()["orders"].version == known
    operator.goto(f"{site}/audit/")
    expect(operator.locator("tbody tr", has_text="Fail over")).to_have_count(before + 1)


@pytest.mark.parametrize(
    ("status", "says"), [(502, "it is not known whether"), (503, "it is not known whether"), (404, "nothing was done")]
)
def test_an_answer_that_is_none_of_ours_is_reported_in_a_sentence_of_ours(operator, status, says):
    dialog = asked(operator)
    operator.route(ACTION_URLS, answering(status))
    press(dialog)

    expect(dialog.get_by_role("alert")).to_contain_text(f"error {status}: {says}")
    expect(operator.get_by_text("Bad gateway")).to_have_count(0)


def test_a_question_that_does_not_come_is_reported_until_somebody_closes_it(operator):
    operator.clock.install()
    operator.context.set_offline(True)
    row(operator, "orders").get_by_role("link", name="Fail over").click()
    reported = operator.get_by_role("alert")
    expect(reported).to_contain_text("The server did not answer: nothing was done")

    operator.clock.run_for(20_000)
    expect(reported).to_have_count(1)
    reported.get_by_role("button", name="Close").click()

    expect(reported).to_have_count(0)
    expect(row(operator, "orders").get_by_role("link", name="Fail over")).to_be_visible()


def test_a_refusal_stays_and_what_was_done_vanishes(operator, shared):
    operator.clock.install()
    press(asked(operator))
    done = operator.get_by_role("status").filter(has_text="orders is failed over")
    expect(done).to_be_visible()
    operator.clock.run_for(9_000)
    expect(done).to_be_hidden()

    row(operator, "orders").get_by_role("link", name="Release").click()
    expect(operator.get_by_role("dialog")).to_contain_text("The hold of orders ends")
    operator.evaluate("document.querySelector('dialog [name=csrfmiddlewaretoken]').value = 'x'.repeat(64)")
    operator.get_by_role("dialog").get_by_role("button", name="Release").click()
    refused = operator.get_by_role("alert")
    expect(refused).to_contain_text("The form was open for too long")
    operator.clock.run_for(20_000)

    expect(refused).to_be_visible()
    refused.get_by_role("button", name="Close").click()
    expect(refused).to_be_hidden()
