"""Colours of what charts show: an entity has the same one in every chart. Pure."""

from collections.abc import Iterable
from zlib import crc32

HUES = 5
"""`hue-1` to `hue-5` of the stylesheet; none of them is the colour of a state."""
TOTAL = "total"
"""The class of a line that is no entity's, in the colour of text."""
DASHES = ("", " dashed", " dotted", " dash-dotted")


def hue(name: str) -> str:
    """The CSS class of a name's colour, the same in all charts, processes and installations."""
    return f"hue-{crc32(name.casefold().encode()) % HUES + 1}"


def looks(names: Iterable[str]) -> list[str]:
    """The CSS classes of lines of one chart: names that share a colour have different dashes."""
    found: list[str] = []
    for name in names:
        tone = hue(name)
        found.append(tone + DASHES[sum(one.split()[0] == tone for one in found) % len(DASHES)])
    return found
