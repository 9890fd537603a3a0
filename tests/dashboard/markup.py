"""HTML of pages, as assertions read it."""

import re


def one_line(html: str) -> str:
    """The HTML with each run of spaces and line breaks as one space, as a browser shows it."""
    return re.sub(r"[ \t\r\n]+", " ", html)
