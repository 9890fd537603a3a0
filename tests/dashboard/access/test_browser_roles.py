"""Every page and every action in a real browser, by role, with scripts and without.

Who may not, sees no button and reads what is missing; who may, reads what will happen, gives a reason, reads that
it is done, and finds it in the audit trail.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
import redis
from django.urls import URLPattern, get_resolver, reverse
from playwright.sync_api import Browser, Locator, Page, expect

from pairing.fleet.coordination import SharedState
from tests.dashboard.access.test_access_walk import OPEN, PARTS
from tests.dashboard.sample_data import DEVIATING, EMPTY_ORPHAN, FULL_ORPHAN, OWN, SampleSite, sample_site
from tests.dashboard.sample_outage import INCIDENT
from tests.dashboard.site.test_browser import sign_in

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900), pytest.mark.sampled("operator", "administrator")]

FILLED = {"pair": "contoso", "path": "orders", "event_id": INCIDENT, "verb": "fail_over", "drill": 1}
QUERY = {
    "pair-action": "?path=orders",
    "backlog-messages": f"?show=dead&queue={OWN}",
    "backlog-jobs": f"?queue={OWN}",
    "dead-letters": f"?queue={OWN}&verb=resubmit&which=all",
}
ORDERS = "/pairs/contoso/entities/orders/"
OWN_FORMS = "form[action='/logout/'], form[action='/login/'], form[action^='/tokens/']"
"""What a viewer may send: to come, to leave, and what concerns nobody else."""
CONTROLS = "a[href*='/actions/'], a[href*='/dead-letters/?'], [formaction], [hx-post]"


def addresses() -> dict[str, str]:
    """Every address that can be made of what the test knows, by its name."""
    found = {}
    for pattern in get_resolver().url_patterns:
        if isinstance(pattern, URLPattern) and pattern.name and pattern.name not in OPEN | {"live"}:
            wanted = pattern.pattern.converters
            if set(wanted) <= set(FILLED):
                address = reverse(pattern.name, kwargs={key: FILLED[key] for key in wanted})
                found[pattern.name] = address + QUERY.get(pattern.name, "")
    return found


@pytest.fixture(scope="module")
def sample(of_group, tmp_path_factory, redis_url) -> SampleSite:
    """The same for the files of this group. The roles come first: they know how many dead letters there are."""
    return of_group.get("sample", lambda: sample_site(tmp_path_factory.mktemp("sample"), redis_url))


@pytest.fixture(scope="module")
def place(sample) -> SampleSite:
    return sample


@pytest.fixture
def shared(redis_url) -> Iterator[SharedState]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield SharedState(client, "contoso")


@pytest.fixture(scope="module")
def watcher(browser: Browser, place: SampleSite) -> Iterator[Page]:
    """Somebody else's browser, open on the overview all the time, so that the pages learn what Redis is reported."""
    with browser.new_context() as watching:
        page = sign_in(watching, place.address, "viewer")
        expect(page.locator("[data-stream]")).to_have_text("live")
        yield page


@pytest.fixture(params=["scripts", "no scripts"])
def operator(request, browser: Browser, place: SampleSite, watcher: Page) -> Iterator[Page]:
    """An operator's browser, while somebody watches."""
    with browser.new_context(
        java_script_enabled=request.param == "scripts", viewport={"width": 1280, "height": 900}, base_url=place.address
    ) as context:
        page = sign_in(context, place.address, "operator")
        expect(watcher.locator("[data-stream]")).to_have_text("live")
        yield page


@pytest.fixture(params=["scripts", "no scripts"])
def administrator(request, browser: Browser, place: SampleSite) -> Iterator[Page]:
    with browser.new_context(java_script_enabled=request.param == "scripts", base_url=place.address) as context:
        yield sign_in(context, place.address, "administrator")


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One action as a person meets it."""

    page: str
    control: Callable[[Page], Locator]
    preview: str
    press: str
    says: str
    audit: str
    """The word for it in the trail."""
    fills: dict[str, str] = field(default_factory=dict)
    chooses: dict[str, str] = field(default_factory=dict)
    about: str = "orders"


def do(page: Page, action: OperatorAction) -> None:
    """Through the button, the question and the answer to the line in the audit trail."""
    page.goto(action.page)
    action.control(page).click()
    asked = page.locator("dialog[open], main section.narrow").first
    expect(asked).to_contain_text(action.preview)
    for label, text in action.fills.items():
        asked.get_by_label(label).fill(text)
    for label, word in action.chooses.items():
        asked.get_by_label(label).select_option(label=word)
    asked.get_by_role("button", name=action.press).click()
    expect(page.get_by_role("status").filter(has_text=action.says).first).to_be_visible()
    page.goto("/audit/")
    line = page.locator("tbody tr", has_text=action.audit).first
    for word in (action.audit, action.about, "operator", action.fills.get("Reason", ""), "Done"):
        expect(line).to_contain_text(word)


def of_row(text: str, name: str) -> Callable[[Page], Locator]:
    """A link in the row of an entity or a queue."""
    return lambda page: page.locator("tr", has=page.get_by_role("rowheader", name=text)).get_by_role(
        "link", name=re.compile(f"^{name}"), exact=True
    )


def link(name: str) -> Callable[[Page], Locator]:
    return lambda page: page.get_by_role("link", name=name, exact=True)


def test_an_entity_is_failed_over_held_for_a_while_released_and_marked_healthy(operator, shared):
    shared.mark_healthy("orders", operator="the test", process="test:1:aaaa")
    why, hour, night = {"Reason": "storage is down, ticket 1"}, {"Hold it": "1 hour"}, {"Hold it": "4 hours"}
    steps = (
        (
            "Fail over",
            "stops sending to orders in the primary",
            "orders is failed over",
            why,
            hour,
            r"operator, ends\s+in 5",
        ),
        ("Release", "The hold of orders ends", "orders is released", {"Reason": "is it back?"}, {}, "Failed over"),
        ("Hold", "orders stays failed over even if a ping", "orders is held", why, night, r"operator, ends\s+in 3 h"),
        ("Mark healthy", "Hold and failover of orders end", "orders is marked healthy", why, {}, "Draining"),
    )
    for verb, preview, says, fills, chooses, state in steps:
        do(operator, OperatorAction(ORDERS, link(verb), preview, verb, says, verb, fills, chooses))
        operator.goto("/?q=orders")
        expect(operator.locator("tr[data-entity='orders']")).to_contain_text(re.compile(state))
    assert shared.health()["orders"].state == "healthy"


def all_healthy(shared):
    """Redis is that of other files of tests too, and may tell of entities that they have failed over."""
    for path in shared.health():
        shared.mark_healthy(path, operator="the test", process="test:1:aaaa")


@pytest.mark.nightly
def test_several_entities_and_a_whole_pair_are_failed_over_and_brought_back(operator, shared):
    all_healthy(shared)

    def chosen(name: str) -> Callable[[Page], Locator]:
        def control(page: Page) -> Locator:
            for path in ("payments", "shipments/eu-west"):
                page.get_by_label(f"Select {path}").check()
            return page.locator("form.selected").get_by_role("button", name=name)

        return control

    several, pair, every = "/?q=ments", "/pairs/contoso/", "all 64 entities of contoso"
    reason = {"Reason": "the region is going down"}
    steps = (
        (several, chosen("Fail over"), "Force failover: 2 entities", "2 entities", "Fail over", "payments"),
        (several, chosen("Release"), "The hold of 2 entities ends", "Release", "Release", "payments"),
        (several, chosen("Mark healthy"), "failover of 2 entities", "Mark healthy", "Mark healthy", "payments"),
        (pair, link("Fail over all"), every, "Fail over", "Fail over", "contoso"),
        (pair, link("Release all"), every, "Release", "Release", "contoso"),
    )
    for page, control, preview, press, word, about in steps:
        do(operator, OperatorAction(page, control, preview, press, "entities are", word, reason, about=about))
    assert {one.held_by for one in shared.health().values()} == {None}
    all_healthy(shared)


@pytest.mark.nightly
def test_syphons_of_a_pair_a_queue_and_a_destination_are_paused_resumed_and_paced(operator, shared):
    pair, backlog, all_of_it = "/pairs/contoso/", "/backlog/", "all of contoso"
    why, pace, free = {"Reason": "the primary is busy"}, {"Reason": "gently", "At most": "5"}, {"At most": ""}
    of_pair, of_queue = (pair, link, " syphon", all_of_it, "contoso"), (backlog, partial(of_row, OWN), "", OWN, OWN)
    for page, control, ending, what, about in (of_pair, of_queue):
        for name, preview, press, says, word, fills in (
            (f"Pause{ending}", f"Draining of {what} stops", "Pause", "is paused", "Pause syphon", why),
            (f"Resume{ending}", f"Draining of {what} resumes", "Resume", "resumes", "Resume syphon", {}),
        ):
            do(operator, OperatorAction(page, control(name), preview, press, says, word, fills, about=about))
    pacing = (
        (pair, link("Pace syphon"), all_of_it, "contoso"),
        (backlog, of_row(OWN, "Pace"), OWN, OWN),
        (ORDERS, lambda page: page.get_by_label("Pace the syphon to orders"), "orders", "orders"),
    )
    for page, control, what, about in pacing:
        for preview, says, fills in (
            (f"this many messages of {what}", "at most 5", pace),
            ("Now 5 a second, set by operator", "without a rate limit", free),
        ):
            do(operator, OperatorAction(page, control, preview, "Set", says, "Pace", fills, about=about))
    assert (shared.paused(), shared.paces()) == ({}, {})


@pytest.mark.nightly
def test_orphans_are_quarantined_drained_deleted_and_taken_back_and_a_queue_repaired(operator, place):
    why = {"Reason": "the count was lowered"}
    full, empty = FULL_ORPHAN, EMPTY_ORPHAN
    steps = (
        (full, "Quarantine", "Sends to it fail", "Quarantine", "is in quarantine", "Quarantine", why),
        (full, "End quarantine", "It accepts messages again", "End", "out of quarantine", "End quarantine", {}),
        (full, "Drain queue", "A worker drains it", "Drain", "each to its entity", "Drain queue", why),
        (full, "Stop drain", "The drain stops within seconds", "Stop", "ends within seconds", "Stop drain", {}),
        (empty, "Delete", "neither a message nor a dead letter", "Quarantine and delete", "deleted", "Delete", why),
        (empty, "Cancel deletion", "The queue is not deleted", "Cancel deletion", "is kept", "Cancel deletion", {}),
        (DEVIATING, "Compare and repair", "max_delivery_count", "Repair", "is repaired", "Repair", why),
    )
    for queue, name, preview, press, says, word, fills in steps:
        do(operator, OperatorAction("/backlog/", of_row(queue, name), preview, press, says, word, fills, about=queue))
    deviating = place.secondary.administration.get_queue(DEVIATING)
    assert deviating.max_delivery_count > 3
    deviating.max_delivery_count = 3
    place.secondary.administration.update_queue(deviating)
    place.shell("from workers import connections, watchers; watchers.sample('contoso'); connections.close_all()")


def test_an_operator_cannot_delete_an_orphan_with_messages_and_is_informed_who_can(operator):
    operator.goto("/backlog/")
    of_row(FULL_ORPHAN, "Delete")(operator).click()

    asked = operator.locator("dialog[open], main section.narrow").first
    expect(asked.get_by_role("alert")).to_contain_text("ask an administrator to delete it with its messages")
    expect(asked.get_by_role("button")).to_have_count(0)


DEAD = f"/backlog/contoso/messages/?show=dead&queue={OWN}"


def choose(count: int, button: str) -> Callable[[Page], Locator]:
    """That button, with so many dead letters ticked."""

    def control(page: Page) -> Locator:
        boxes = page.get_by_label(re.compile("^Choose message"))
        expect(boxes).to_have_count(3)
        for number in range(count):
            boxes.nth(number).check()
        return page.get_by_role("button", name=button)

    return control


def stopped(page: Page) -> None:
    """No worker runs here, so what was wanted is taken back; the page tells who did."""
    page.goto(DEAD)
    page.locator("#jobs").get_by_role("link", name="Stop").click()
    page.locator("dialog[open], main section.narrow").first.get_by_role("button", name="Stop").click()
    expect(page.locator("#jobs")).to_contain_text("Stopped by")
    expect(page.locator("#jobs").get_by_role("link", name="Stop")).to_have_count(0)  # not an older one


@pytest.mark.nightly
def test_dead_letters_are_resubmitted_one_some_all_and_elsewhere(operator):
    why = {"Reason": "the schema was mended"}
    steps = (
        (choose(1, "Resubmit chosen"), "Resubmit 1 dead letter", why),
        (choose(2, "Resubmit chosen"), "Resubmit 2 dead letters", why | {"Send to": "payments"}),
        (link("Resubmit all"), "Resubmit all 3 dead letters", why),
    )
    for control, preview, fills in steps:
        do(operator, OperatorAction(DEAD, control, preview, "Resubmit", "dead letter", "Resubmit", fills, about=OWN))
        stopped(operator)


def test_chosen_dead_letters_are_downloaded_and_that_is_on_record(operator):
    operator.goto(DEAD)
    with operator.expect_download() as reported:
        choose(2, "Download chosen")(operator).click()

    assert reported.value.suggested_filename == "contoso-messages.json"
    operator.goto("/audit/")
    expect(operator.locator("tbody tr").first).to_contain_text("Download")


def test_only_an_administrator_is_offered_to_discard(operator):
    operator.goto(DEAD)

    expect(operator.get_by_role("button", name="Resubmit chosen")).to_be_visible()
    expect(operator.get_by_role("button", name="Discard chosen")).to_have_count(0)


def test_an_administrator_discards_dead_letters_on_record(administrator):
    administrator.goto(DEAD)
    choose(1, "Discard chosen")(administrator).click()
    asked = administrator.locator("dialog[open], main section.narrow").first
    expect(asked).to_contain_text("The control plane keeps their number, message id, destination")
    asked.get_by_label("Reason").fill("a test message of mine")
    asked.get_by_role("button", name="Discard").click()
    stopped(administrator)
    administrator.goto("/audit/")
    expect(administrator.locator("tbody tr").nth(1)).to_contain_text("a test message of mine")


def test_an_administrator_deletes_an_orphan_with_its_messages_by_typing_its_path(administrator):
    administrator.goto("/backlog/")
    of_row(FULL_ORPHAN, "Delete")(administrator).click()
    asked = administrator.locator("dialog[open], main section.narrow").first
    expect(asked).to_contain_text("its messages are deleted too")
    asked.get_by_label("Type its path").fill(FULL_ORPHAN)
    asked.get_by_label("Reason").fill("messages of a rehearsal")
    asked.get_by_role("button", name="Quarantine and delete").click()
    expect(administrator.get_by_text("To be deleted").first).to_be_visible()

    of_row(FULL_ORPHAN, "Cancel deletion")(administrator).click()
    asked = administrator.locator("dialog[open], main section.narrow").first
    asked.get_by_role("button", name="Cancel deletion").click()

    expect(administrator.get_by_role("status").filter(has_text="is kept").first).to_be_visible()


def test_a_month_is_computed_budgeted_and_compared_with_its_bill(operator, tmp_path):
    operator.goto("/costs/")
    operator.get_by_role("button", name="Compute now").click()
    expect(operator.get_by_text("waiting for a worker")).to_be_visible()

    operator.get_by_text("Set a budget").click()
    operator.get_by_label("Monthly budget").fill("123.45")
    operator.get_by_role("button", name="Set", exact=True).click()
    expect(operator.locator("section", has=operator.get_by_role("heading", name="Budgets"))).to_contain_text("123.45")

    bill = tmp_path / "bill.csv"
    bill.write_text("this is no export\n")
    operator.goto("/costs/reconcile/")
    operator.get_by_label("Azure cost export (CSV)").set_input_files(bill)
    operator.get_by_role("button", name="Compare").click()
    expect(operator.get_by_role("alert").or_(operator.get_by_role("status")).first).to_be_visible()


@pytest.mark.parametrize(
    "scripts", [pytest.param(True, id="scripts"), pytest.param(False, id="no scripts", marks=pytest.mark.nightly)]
)
def test_a_viewer_sees_every_page_and_no_button_that_changes_anything(browser: Browser, place, scripts):
    with browser.new_context(java_script_enabled=scripts, base_url=place.address) as context:
        page = sign_in(context, place.address, "viewer")
        for name, address in addresses().items():
            answer = context.request.get(address, max_redirects=0)
            if answer.status != 200 or "text/html" not in answer.headers["content-type"]:
                continue
            page.goto(address)
            expect(page.locator("main"), name).to_have_count(int(name not in PARTS))
            assert page.locator(CONTROLS).count() == 0, name
            posting = page.locator("form[method=post]")
            assert posting.count() == page.locator(OWN_FORMS).count(), name


def test_operators_find_their_buttons_on_every_page_that_acts(browser: Browser, place):
    with browser.new_context(base_url=place.address) as context:
        page = sign_in(context, place.address, "operator")
        for address in ("/", "/pairs/contoso/", "/pairs/contoso/entities/orders/", "/backlog/", DEAD):
            page.goto(address)
            assert page.locator(CONTROLS).count() > 0, address


def test_a_stranger_is_led_to_the_login_and_back_again(browser: Browser, place):
    with browser.new_context(base_url=place.address) as context:
        page = context.new_page()
        page.goto(f"/pairs/contoso/incidents/{INCIDENT}/")
        page.get_by_label("User name").fill("viewer")
        page.get_by_label("Password").fill("a-password-for-this-test")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
