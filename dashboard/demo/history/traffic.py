"""How many messages an entity has in an hour: a daily rhythm, quiet weekends, better and worse days. Pure."""

from datetime import datetime
from zlib import crc32

from dashboard.demo.history.scenery import Watched

RHYTHM = (34, 28, 25, 24, 27, 38, 62, 98, 134, 156, 162, 158, 149, 155, 163, 160, 148, 132, 118, 107, 92, 74, 55, 42)
"""Percent of the average by hour of the day (UTC)."""
WEEKEND = 0.58
OF_AN_HOUR, OF_A_DAY, OF_ALL = 0.09, 0.14, 0.11
"""How much an hour and a day of an entity, and a day of all together, differ from the rhythm at most."""


def messages(seed: int, entity: Watched, hour: datetime) -> int:
    """Messages sent to the entity in the hour that contains this time."""
    place = f"{entity.pair}/{entity.path}"
    weekend = WEEKEND if hour.weekday() >= 5 else 1.0
    share = RHYTHM[hour.hour] / 100 * weekend
    share *= _drawn(f"{seed}:{place}:{hour:%Y%m%d%H}", OF_AN_HOUR)
    share *= _drawn(f"{seed}:{place}:{hour:%Y%m%d}", OF_A_DAY)
    share *= _drawn(f"{seed}:{hour:%Y%m%d}", OF_ALL)
    return round(entity.per_hour * share)


def _drawn(text: str, most: float) -> float:
    """A factor near 1, always the same for the same text."""
    return 1 + most * (2 * crc32(text.encode()) / 2**32 - 1)
