"""Calendar months as addresses and commands write them."""

import re

MONTH_PATTERN = "(?:19[7-9][0-9]|2[0-9]{3})-(?:0[1-9]|1[0-2])"
"""From 1970-01 to 2999-12: what the cost pipeline can compute."""


def is_month(text: str) -> bool:
    """Whether the text is a month, written YYYY-MM."""
    return re.fullmatch(MONTH_PATTERN, text) is not None
