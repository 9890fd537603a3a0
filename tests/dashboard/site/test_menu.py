"""The menu of every page: what the rooms declare, in order, with the current page marked."""

import re

import pytest
from django.urls import URLPattern, get_resolver

from dashboard.urls import MENU

LINK = re.compile(r'<a href="([^"]*)"\s*(aria-current="page")?\s*>\s*(\w+)')
HEADINGS = ["Overview", "Events", "Alerts", "Backlog", "Costs", "Readiness", "Audit", "Workers"]


def links(text: str) -> list[tuple[str, str, str]]:
    return LINK.findall(text[text.index('<nav aria-label="Pages">') : text.index("</nav>")])


def test_the_menu_has_the_entries_that_rooms_declare_in_their_order(pair, redis_here, as_role):
    found = links(as_role("viewer").get("/workers/").text)

    assert [label for _, _, label in found] == [entry.label for entry in MENU] == HEADINGS


@pytest.mark.parametrize(
    ("page", "label"),
    [
        ("/", "Overview"),
        ("/pairs/contoso/", "Overview"),
        ("/events/", "Events"),
        ("/alerts/rules/", "Alerts"),
        ("/backlog/contoso/messages/", "Backlog"),
        ("/costs/forecast/", "Costs"),
        ("/drills/", "Readiness"),
        ("/audit/", "Audit"),
        ("/tokens/", ""),
    ],
)
def test_the_entry_of_the_current_page_is_marked(pair, redis_here, as_role, page, label):
    found = links(as_role("viewer").get(page).text)

    assert [name for _, mark, name in found if mark] == ([label] if label else [])


def test_each_name_in_the_menu_is_that_of_a_page_and_stands_once():
    names = [name for entry in MENU for name in entry.names]
    known = {pattern.name for pattern in get_resolver().url_patterns if isinstance(pattern, URLPattern)}

    assert len(names) == len(set(names))
    assert set(names) <= known
