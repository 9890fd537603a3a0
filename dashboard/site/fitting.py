"""Truncates reported values to their columns: databases reject long texts, NULs and lone surrogates.

One report that cannot be stored must not block those behind it.
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
"""The limit of texts in columns without one, so that a reporter cannot fill the database or the pages."""
KIND = 20
_MOST = 2**31 - 1


def fitted(text: str, length: int | None) -> str:
    """The text, at most this long (None: LONGEST). A truncated text ends in a digest, which keeps texts distinct."""
    length = LONGEST if length is None else length
    clean = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(clean) <= length:
        return clean
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{clean[: length - _DIGEST - 1]}…{digest}"[-length:]


def counted(number: int) -> int:
    """The number, limited to the range of a non-negative 32-bit column."""
    return min(max(number, 0), _MOST)


def word(text: str) -> str:
    """The text as a kind of event: lower-case letters and underscores, starting with a letter."""
    return re.sub(r"[^a-z]+", "_", text.lower()).strip("_")[:KIND] or "unknown"


def fit(row: Row, names: Iterable[str]) -> Row:
    """The row, with these text columns truncated."""
    for name in names:
        value: Any = getattr(row, name)
        if value is not None:
            setattr(row, name, fitted(value, getattr(row._meta.get_field(name), "max_length", None)))
    return row
