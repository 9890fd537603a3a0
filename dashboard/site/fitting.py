"""What the fleet reports, made to fit a column: databases refuse what is too long, NULs, and halves of characters.

One report that cannot be stored must not hold up those behind it.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Model

Row = TypeVar("Row", bound=Model)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_DIGEST = 16
LONGEST = 2000
"""Of texts that a database takes at any length: whoever tells them must not fill it, nor every page that shows them."""
KIND = 20
_MOST = 2**31 - 1


def fitted(text: str, length: int | None) -> str:
    """The text in at most so many characters (None: LONGEST). A digest tells what is cut off apart: two stay two."""
    length = LONGEST if length is None else length
    clean = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(clean) <= length:
        return clean
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{clean[: length - _DIGEST - 1]}…{digest}"[-length:]


def counted(number: int) -> int:
    """The number, as far as a column of 32 bits that takes none below zero can tell it."""
    return min(max(number, 0), _MOST)


def word(text: str) -> str:
    """The text as a kind of event: lower case letters and underscores, beginning with a letter."""
    return re.sub(r"[^a-z]+", "_", text.lower()).strip("_")[:KIND] or "unknown"


def fit(row: Row, names: Iterable[str]) -> Row:
    """The row, with these text columns made to fit."""
    for name in names:
        value: Any = getattr(row, name)
        if value is not None:
            setattr(row, name, fitted(value, getattr(row._meta.get_field(name), "max_length", None)))
    return row
