"""Text cells of files that people open with a spreadsheet."""

import re

SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""Characters that start a formula, including full-width ones."""
FORMULA = re.compile(rf"^(?=[{SIGNS}\t\r\n]| +[{SIGNS}])|(?<=[;|\t\r\n])(?= *[{SIGNS}])")
"""The start of a cell, also after a separator that some locales use, quoted or not."""


def cell(value: str | None) -> str:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe."""
    return FORMULA.sub("'", value or "")
