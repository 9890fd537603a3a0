"""HTML of pages, as assertions read it."""


def one_line(html: str) -> str:
    """The HTML with each run of blanks and line breaks as one space, as a browser shows it."""
    return " ".join(html.split())
