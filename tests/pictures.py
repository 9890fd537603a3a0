"""Pictures of the pages for the documentation, in light and dark, kept while tests have them open anyhow.

SCREENSHOTS=docs/images .venv/bin/pytest tests/acceptance/test_outage_stories.py -k seen_without
SCREENSHOTS=docs/images .venv/bin/pytest tests/dashboard/site/test_browser_accessibility.py -k kept_as_a_picture

All pages in all states, to be looked at side by side:

CONTACT_SHEET=folder .venv/bin/pytest --nightly tests/dashboard/site/test_browser_outage.py -k contact_sheet
"""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from playwright.sync_api import FloatRect, Page

MOST_BYTES = 250_000
TALLEST = 4000
"""Pixels of a page that a contact sheet shows."""


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


def sheet_folder(otherwise: Path) -> Path:
    """Where the contact sheet is wanted, or this folder."""
    folder = Path(os.environ.get("CONTACT_SHEET") or otherwise)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep_for_sheet(page: Page, folder: Path, name: str, looks: Sequence[str]) -> None:
    """The open page as NAME--LOOK.png for each look, `1440-light` for example."""
    for look in looks:
        width, scheme = look.split("-")
        page.set_viewport_size({"width": int(width), "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        tall = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
        clip: FloatRect = {"x": 0, "y": 0, "width": int(width), "height": tall}
        page.screenshot(path=folder / f"{name}--{look}.png", full_page=True, clip=clip)


def write_sheet(folder: Path, looks: Sequence[str]) -> Path:
    """The page that shows all kept pictures: a line for each page and state, a column for each look."""
    names = sorted({path.name.split("--" + looks[0])[0] for path in folder.glob(f"*--{looks[0]}.png")})
    lines = [
        f"<h2>{escape(name)}</h2>"
        + "".join(f'<img loading="lazy" height="420" src="{escape(name)}--{look}.png" alt="{look}">' for look in looks)
        for name in names
    ]
    sheet = folder / "index.html"
    sheet.write_text(f"<!doctype html><meta charset=utf-8><title>Contact sheet</title>{''.join(lines)}")
    return sheet
