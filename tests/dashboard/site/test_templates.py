"""The layout of templates: lines of at most 120 columns, one block-level element a line, indentation by nesting."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.dashboard.served import ROOT

TEMPLATES = ROOT / "templates"
PATHS = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html"))
COLUMNS = 120
BLOCK_LEVEL = (
    "article|aside|body|datalist|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|head|header"
    "|html|legend|li|main|nav|ol|p|pre|section|summary|table|tbody|td|tfoot|th|thead|tr|ul"
)
OPENED = re.compile(rf"<(?:{BLOCK_LEVEL})\b")
NESTS = re.compile(
    rf"<(?P<close>/)?(?P<element>{BLOCK_LEVEL})\b|{{%\s*(?P<end>end)?(?P<tag>if|for|with|partialdef|block)\b"
)
INDENTED = re.compile(r"( *)\S")


def lines(path: str) -> list[str]:
    return Path(TEMPLATES, path).read_text().splitlines()


def nesting(line: str) -> Iterator[tuple[str, bool]]:
    """The block-level elements and template blocks that a line opens (True) and closes, in their order."""
    for found in NESTS.finditer(line):
        yield found["element"] or found["tag"], not (found["close"] or found["end"])


def misplaced(path: str) -> list[int]:
    """The lines that close an element or block at another indentation than that of the line that opened it."""
    opened: list[tuple[str, int, bool]] = []
    wrong = []
    for number, line in enumerate(lines(path), 1):
        indentation = INDENTED.match(line)
        column = len(indentation[1]) if indentation else 0
        for place, (name, is_opening) in enumerate(nesting(line)):
            starts = place == 0 and bool(NESTS.match(line, column))
            if is_opening:
                opened.append((name, column, starts))
                continue
            opener, opened_at, opener_starts = opened.pop()
            if opener != name or (starts and opener_starts and opened_at != column):
                wrong.append(number)
    return wrong if not opened else [*wrong, len(lines(path))]


def wrong(is_wrong: Callable[[str], object]) -> list[str]:
    """The lines of all templates of which this is true, with their places."""
    return [
        f"{path}:{number}: {line}" for path in PATHS for number, line in enumerate(lines(path), 1) if is_wrong(line)
    ]


def test_a_line_of_a_template_has_at_most_120_columns() -> None:
    assert wrong(lambda line: len(line) > COLUMNS) == []


def test_a_line_of_a_template_opens_at_most_one_block_level_element() -> None:
    assert wrong(lambda line: len(OPENED.findall(line)) > 1) == []


def test_what_a_template_opens_is_closed_at_the_same_indentation() -> None:
    assert {path: found for path in PATHS if (found := misplaced(path))} == {}


def test_a_template_is_indented_by_spaces_and_has_no_blanks_at_the_end_of_a_line() -> None:
    assert wrong(lambda line: "\t" in line or line != line.rstrip()) == []
