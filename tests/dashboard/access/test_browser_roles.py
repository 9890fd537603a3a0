"""Every page and every action in a real browser, by role, with scripts and without.

Who may not, sees no button and reads what is missing; who may, reads what will happen, gives a reason, reads that
it is done, and finds it in the audit trail.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import redis
from django.urls import URLPattern, get_resolver, reverse
from playwright.sync_api import Browser, Locator, Page, Response, expect

from pairing.fleet.coordination import SharedState
from tests.dashboard.access.test_access_walk import OPEN, PARTS
from tests.dashboard.sample_data import OWN, SampleSite, sample_site
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


def pages() -> dict[str, str]:
    """Those of pages and their parts: the names of files have a dot."""
    return {name: address for name, address in addresses().items() if "." not in address}


def opened(page: Page, address: str) -> Response | None:
    """Goes there. Returns the answer, unless it led to another address."""
    answer = page.goto(address)
    return None if answer is None or answer.request.redirected_from else answer


@pytest.fixture(scope="module")
def sample(of_group, tmp_path_factory, lasting_redis_url) -> SampleSite:
    """The same for the files of this group. The roles come first: they know how many dead letters there are."""
    return of_group.get("sample", lambda: sample_site(tmp_path_factory.mktemp("sample"), lasting_redis_url))


@pytest.fixture(scope="module")
def place(sample) -> SampleSite:
    return sample


@pytest.fixture
def shared(lasting_redis_url) -> Iterator[SharedState]:
    with redis.Redis.from_url(lasting_redis_url, decode_responses=True) as client:
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


DEAD = f"/backlog/contoso/messages/?show=dead&queue={OWN}"


def test_only_an_administrator_is_offered_to_discard(operator):
    operator.goto(DEAD)

    expect(operator.get_by_role("button", name="Resubmit chosen")).to_be_visible()
    expect(operator.get_by_role("button", name="Discard chosen")).to_have_count(0)


@pytest.mark.parametrize(
    "scripts", [pytest.param(True, id="scripts"), pytest.param(False, id="no scripts", marks=pytest.mark.nightly)]
)
def test_a_viewer_sees_every_page_and_no_button_that_changes_anything(browser: Browser, place, scripts):
    with browser.new_context(java_script_enabled=scripts, base_url=place.address) as context:
        page = sign_in(context, place.address, "viewer")
        for name, address in pages().items():
            answer = opened(page, address)
            if answer is None or answer.status != 200:
                continue
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
