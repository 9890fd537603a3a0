"""The pictures of the documentation: there, in both themes, small, and none that no page shows."""

import re
from pathlib import Path

import pytest

from tests.pictures import MOST_BYTES

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r'(?:src|srcset)="([^"]+\.png)"|\(([^)\s]+\.png)\)')


def shown() -> set[Path]:
    return {
        (page.parent / (one[0] or one[1])).resolve()
        for page in PAGES
        for one in SHOWN.findall(page.read_text(encoding="utf-8"))
    }


def test_every_picture_a_page_shows_is_there_and_every_one_there_is_shown() -> None:
    assert shown() == set(IMAGES.glob("*.png"))


@pytest.mark.parametrize("picture", sorted(IMAGES.glob("*.png")), ids=lambda path: path.stem)
def test_a_picture_is_small_and_has_a_twin_in_the_other_theme(picture: Path) -> None:
    name, _, scheme = picture.stem.rpartition("-")

    assert picture.stat().st_size < MOST_BYTES
    assert picture.with_stem(f"{name}-{'dark' if scheme == 'light' else 'light'}").exists()
