"""How many messages an entity has in an hour: a daily rhythm, quiet weekends, and some noise. Pure."""

from datetime import datetime
from zlib import crc32

from dashboard.demo.history.scenery import Watched

RHYTHM = (34, 28, 25, 24, 27, 38, 62, 98, 134, 156, 162, 158, 149, 155, 163, 160, 148, 132, 118, 107, 92, 74, 55, 42)
"""Percent of the average by hour of the day (UTC)."""
WEEKEND = 0.58
NOISE = 0.09


def messages(seed: int, entity: Watched, hour: datetime) -> int:
    """Messages sent to the entity in the hour that contains this time."""
    drawn = crc32(f"{seed}:{entity.pair}/{entity.path}:{hour:%Y%m%d%H}".encode()) / 2**32
    weekend = WEEKEND if hour.weekday() >= 5 else 1.0
    return round(entity.per_hour * RHYTHM[hour.hour] / 100 * weekend * (1 + NOISE * (2 * drawn - 1)))
