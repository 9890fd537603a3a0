"""Pictures of the pages for the documentation, in light and dark, kept while tests have them open anyhow.

SCREENSHOTS=docs/images .venv/bin/pytest tests/acceptance/test_browser.py -k seen_from_break
SCREENSHOTS=docs/images .venv/bin/pytest tests/dashboard/site/test_browser_accessibility.py -k kept_as_a_picture
"""

import os
from pathlib import Path

from playwright.sync_api import FloatRect, Page

MOST_BYTES = 250_000


def wanted() -> str:
    """The folder pictures are wanted in; empty: nobody wants any."""
    return os.environ.get("SCREENSHOTS", "")


def keep_picture(page: Page, name: str, height: int = 1000) -> None:
    """The page's upper part, at most as high as reported, as NAME-light.png and NAME-dark.png."""
    if not wanted():
        return
    width = page.evaluate("document.documentElement.clientWidth")
    tall = page.evaluate("document.documentElement.scrollHeight")
    clip: FloatRect = {"x": 0, "y": 0, "width": width, "height": min(height, tall)}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.screenshot(path=Path(wanted(), f"{name}-{scheme}.png"), full_page=True, clip=clip)
