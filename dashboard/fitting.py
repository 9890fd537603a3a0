"""What the fleet reports, made to fit a column: PostgreSQL refuses what is too long, and text with a NUL in it.

One report that cannot be stored must not hold up those behind it.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Model

Row = TypeVar("Row", bound=Model)
_DIGEST = 16
KIND = 20


def fitted(text: str, length: int | None) -> str:
    """The text in at most so many characters. What is cut off is told apart by a digest, so that two stay two."""
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if length is None or len(clean) <= length:
        return clean
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{clean[: length - _DIGEST - 1]}…{digest}"[-length:]


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
