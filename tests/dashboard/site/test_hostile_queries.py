"""Hostile values in every query of every page and list: sizes, numbers, patterns, bytes (docs/security.md)."""

import pytest

from tests.dashboard.access.test_access_walk import NAMES, address, place
from tests.dashboard.conftest import program_of
from tests.selection import nightly

__all__ = ["place"]
pytestmark = pytest.mark.slow

WORDS = (
    "page", "page_size", "limit", "after", "since", "until", "q", "kind", "state", "entity", "session", "queue", "show",
    "month", "rule", "older_min", "larger_kb", "days", "hours", "most", "cursor", "name", "pair", "sort", "group",
    "path", "seen", "number", "user", "verb", "result", "region", "scope",
)  # fmt: skip
"""The parameters of all pages, and some that none has."""
VALUES = [
    "1000000000",
    "(a+)+$" + "a" * 3000 + "!",
    *nightly("-1", "0", "1e999", "NaN", "9" * 5000, "١٢", "\x00", "\ud800x", "' OR 1=1 --", "%00", "../../etc/passwd"),
    *nightly("<script>alert(1)</script>", "a\r\nSet-Cookie: x=y", "*a" * 500 + "*b", "(.*)*" * 300, "[" * 5000),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda text: ascii(text[:20]))
def test_no_value_of_a_query_breaks_a_page_or_becomes_a_part_of_it(place, as_role, value):
    client, query = as_role("administrator"), dict.fromkeys(WORDS, value.encode("utf-8", "surrogatepass"))
    for name in sorted(set(NAMES) - {"live", "favicon.ico"}):
        answer = client.get(address(name), query)
        assert answer.status_code < 500, (name, answer.status_code)
        if not answer.streaming:
            assert "<script>alert(1)" not in answer.text, name
        assert "x=y" not in str(answer.cookies), name


LISTS = ("events", "entities", "alerts", "alerts/rules", "alerts/deliveries")


@pytest.mark.parametrize("path", LISTS)
def test_no_list_of_the_api_is_longer_than_its_most(place, people, path):
    program = program_of(people["viewer"], "read")

    assert program.get(f"/api/v1/{path}", {"limit": 500}).status_code == 200
    for limit in ("501", "1000000000", "0", "-1", "x", "1e3", "NaN", "9" * 5000, "\x00", ""):
        assert program.get(f"/api/v1/{path}", {"limit": limit}).status_code in (400, 422), limit
