"""The colours of both themes can be distinguished, as WCAG 2.2 AA measures it (1.4.3 for text, 1.4.11 for shapes)."""

import math
import re
from pathlib import Path

import pytest

STYLE = Path(__file__).resolve().parents[3] / "dashboard/static/dashboard/style.css"
TOKEN = re.compile(r"--([\w-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)")
LITERAL = re.compile(r"(?<![-\w])(?:color|fill):\s*(?:light-dark\()?#")
THEMES = {"light": 0, "dark": 1}
TEXT, SHAPE = 4.5, 3.0

GROUNDS = ("page", "surface", "raised")
STATES = ("healthy", "draining", "failing", "failed-over", "held", "unknown")
HUES = tuple(f"hue-{number}" for number in range(1, 6))
WASHES = tuple(f"{state}-wash" for state in STATES)
DECORATION = ("line", "line-strong")  # rules between rows, edges of buttons: what they say, words say too


def tokens(css: str) -> dict[str, tuple[str, str]]:
    """Every colour token with its value in the light and in the dark theme."""
    return {name: (light, dark) for name, light, dark in TOKEN.findall(css)}


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, from 0 (black) to 1 (white)."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours, from 1 to 21."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def pairs() -> list[tuple[str, str, float]]:
    """(what is drawn, what it is drawn on, the ratio it needs): every combination that a page can show."""
    words = [(text, ground, TEXT) for text in ("ink", "quiet", "accent", *STATES) for ground in GROUNDS]
    badges = [(state, f"{state}-wash", TEXT) for state in STATES]
    notes = [(text, wash, TEXT) for text in ("ink", "quiet", "accent") for wash in WASHES]
    buttons = [("accent-ink", "accent", TEXT), ("severe-ink", "failed-over", TEXT)]
    charts = [(line, "surface", TEXT) for line in HUES]
    fields = [("field", ground, SHAPE) for ground in GROUNDS]
    return words + badges + notes + buttons + charts + fields


@pytest.fixture(scope="module")
def palette() -> dict[str, tuple[str, str]]:
    return tokens(STYLE.read_text())


def test_the_measure_gives_the_ratios_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#ffffff") == pytest.approx(1)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the best known near miss


@pytest.mark.parametrize("theme", THEMES)
def test_everything_drawn_can_be_distinguished_from_its_ground(palette, theme):
    side = THEMES[theme]
    measured = [(a, b, contrast(palette[a][side], palette[b][side]), least) for a, b, least in pairs()]

    too_faint = [f"{a} on {b}: {ratio:.2f} of {least}" for a, b, ratio, least in measured if ratio < least]

    assert too_faint == []


def lab(colour: str) -> tuple[float, float, float]:
    """The colour in CIELAB, where distances are about as large as they look."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    white = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.0888))
    linear = ((i * r + j * g + k * b) / whole for i, j, k, whole in white)
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in linear)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", THEMES)
def test_a_line_of_a_chart_has_the_colour_of_no_state_and_of_no_other_line(palette, theme):
    side = THEMES[theme]
    others = dict.fromkeys(STATES, 24.0) | dict.fromkeys(HUES, 44.0)

    alike = [
        (one, other)
        for one in HUES
        for other, least in others.items()
        if one != other and math.dist(lab(palette[one][side]), lab(palette[other][side])) < least
    ]

    assert alike == []


def test_no_colour_of_the_palette_is_left_unmeasured(palette):
    measured = {name for a, b, _ in pairs() for name in (a, b)}

    assert set(palette) - measured - set(DECORATION) == set()


def test_text_takes_its_colour_from_the_palette_alone():
    sheets = STYLE.parent.glob("*.css")

    strays = [
        f"{sheet.name}: {line.strip()}"
        for sheet in sheets
        for line in sheet.read_text().splitlines()
        if LITERAL.search(line)
    ]

    assert strays == []
