"""ISO 8601 durations and times, in the format of the service."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache

from emulator.broker.descriptions import DescriptionError

FOREVER = "P10675199DT2H48M5.4775807S"
_FOREVER_S = 10675199 * 86400.0

_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `PT1M`; `math.inf` from 10675199 days on. Raise DescriptionError for other text."""
    found = _DURATION.fullmatch(text.strip())
    if not found or not any(found.groups()):
        raise DescriptionError(f"{text!r} is not a duration such as PT30S or P1DT12H.")
    days, hours, minutes = (int(found[part] or 0) for part in ("days", "hours", "minutes"))
    seconds = days * 86400 + hours * 3600 + minutes * 60 + float(found["seconds"] or 0)
    return math.inf if seconds >= _FOREVER_S else seconds


@lru_cache(maxsize=1024)
def format_duration(seconds: float) -> str:
    """The duration as the service writes it; `math.inf` is its longest."""
    if math.isinf(seconds):
        return FOREVER
    whole, ticks = divmod(round(seconds * 10_000_000), 10_000_000)
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    fraction = f".{ticks:07d}".rstrip("0") if ticks else ""
    date = f"{days}D" if days else ""
    time = "".join((f"{h}H" if h else "", f"{m}M" if m else "", f"{s}{fraction}S" if s or ticks else ""))
    return f"P{date}{'T' + time if time else ''}" if date or time else "PT0S"


@lru_cache(maxsize=4096)
def format_time(seconds: float) -> str:
    """A time in seconds since the epoch as `2026-01-01T00:00:00.000000Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
