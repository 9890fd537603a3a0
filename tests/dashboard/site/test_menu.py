"""The menu of every page: one heading a task, its pages as tabs, with the current page marked."""

import re

import pytest
from django.urls import URLPattern, get_resolver, reverse

from dashboard.site.menu import Entry, tabs_on
from dashboard.urls import MENU

LINK = re.compile(r'<a href="([^"]*)"\s*(aria-current="page")?\s*>\s*([\w? ]*\w\??)')
HEADINGS = ["Overview", "Incidents", "Backlog", "Costs", "Readiness", "Alerts", "Audit", "Settings"]
TABS = {
    "/incidents/": ["Incidents", "All events"],
    "/costs/": ["Month", "What would an outage cost?", "Comparison with the bill"],
    "/drills/": ["Score and checks", "Drills"],
    "/alerts/": ["Open and past", "Deliveries", "Rules and channels"],
    "/tokens/": ["Tokens", "API", "Workers"],
}


def links(text: str, label: str = "Pages") -> list[tuple[str, str, str]]:
    """Address, mark and label of the links of one navigation; empty if the page has none of that name."""
    begin = text.find(f'aria-label="{label}"')
    return LINK.findall(text[begin : text.index("</nav>", begin)]) if begin >= 0 else []


def test_the_menu_has_the_entries_that_rooms_declare_in_their_order(pair, redis_here, as_role):
    found = links(as_role("viewer").get("/workers/").text)

    assert [label for _, _, label in found] == [entry.label for entry in MENU] == HEADINGS


MARKED = {
    "/": "Overview",
    "/pairs/contoso/entities/orders/": "Overview",
    "/events/": "Incidents",
    "/alerts/rules/": "Alerts",
    "/backlog/contoso/messages/": "Backlog",
    "/costs/forecast/": "Costs",
    "/drills/": "Readiness",
    "/audit/": "Audit",
    "/tokens/": "Settings",
    "/settings/api/": "Settings",
    "/workers/": "Settings",
}


def test_the_entry_of_the_current_page_is_marked(pair, redis_here, as_role):
    viewer = as_role("viewer")
    found = {page: [name for _, mark, name in links(viewer.get(page).text) if mark] for page in MARKED}

    assert found == {page: [label] for page, label in MARKED.items()}


@pytest.mark.parametrize("page", TABS)
def test_the_pages_of_a_task_are_its_tabs(pair, redis_here, as_role, page):
    client = as_role("viewer")
    found = links(client.get(page).text, "This task")

    assert [label for _, _, label in found] == TABS[page]
    assert [address for address, mark, _ in found if mark] == [page]
    assert {client.get(address).status_code for address, _, _ in found} == {200}


def test_administrators_find_the_administration_among_the_settings_and_a_page_of_one_thing_has_no_tabs(
    pair, redis_here, as_role
):
    client = as_role("administrator")

    assert links(client.get("/tokens/").text, "This task")[-1][0::2] == ("/admin/", "Administration")
    assert links(client.get("/pairs/contoso/entities/orders/").text, "This task") == []


def test_a_single_tab_is_not_shown():
    heading = Entry("Tasks", "a", 1, tabs=(Entry("A", "a", 2), Entry("B", "b", 3, is_for_administrators=True)))

    assert tabs_on([heading], "a", is_administrator=False) == ()
    assert len(tabs_on([heading], "a", is_administrator=True)) == 2


def test_each_name_in_the_menu_is_that_of_a_page_and_stands_once():
    names = [name for entry in MENU for name in entry.names]
    known = {pattern.name for pattern in get_resolver().url_patterns if isinstance(pattern, URLPattern)}

    assert len(names) == len(set(names))
    assert set(names) - {"admin:index"} <= known
    assert all(reverse(tab.page) for entry in MENU for tab in entry.tabs)
