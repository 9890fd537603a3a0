"""Text in files that people open with a spreadsheet."""

import re

SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""What makes a cell a formula; of full width, too."""
FORMULA = re.compile(rf"^(?=[{SIGNS}\t\r\n]| +[{SIGNS}])|(?<=[;|\t\r\n])(?= *[{SIGNS}])")
"""Where one begins: also behind a mark at which spreadsheets of some countries part cells, quoted or not."""


def cell(value: str | None) -> str:
    """Text from outside must not become a formula in somebody's spreadsheet: it gets an apostrophe in front then."""
    return FORMULA.sub("'", value or "")
