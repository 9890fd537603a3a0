"""HTML of pages, as assertions read it."""

import re
from typing import Any

from django.test import Client

from dashboard.costs.views.report import TABS


def one_line(html: str) -> str:
    """The HTML with each run of spaces and line breaks as one space, as a browser shows it."""
    return re.sub(r"[ \t\r\n]+", " ", html)


def costs_of(browser: Client, **query: Any) -> str:
    """All tabs of the cost report."""
    return "".join(browser.get("/costs/", query | ({"tab": tab} if tab else {})).text for tab in TABS)
