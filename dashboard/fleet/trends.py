"""Where the backlog of each pair is going, from its last depths in the database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dashboard.fleet.outlook import Outlook
from dashboard.fleet.trend import OVER, Trend, trend
from dashboard.models import Pair, PairDepth
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point


def is_paused(pair: Pair) -> bool:
    """Whether the syphon of the whole pair is paused."""
    return any(pause.queue == WHOLE_PAIR for pause in pair.pauses.all())


def trend_of(pair: Pair, depths: Sequence[Point], outlook: Outlook, now: datetime) -> Trend:
    """The trend of a pair with these depths, the newest last."""
    return trend(depths, outlook.room, now, is_paused=is_paused(pair))


def trends(pairs: Iterable[Pair], ahead: Mapping[int, Outlook], now: datetime) -> Mapping[int, Trend]:
    """The trends of pairs with these outlooks, by key, in one query."""
    known = list(pairs)
    rows = PairDepth.objects.filter(pair__in=known, at__gte=now - OVER).order_by("at")
    depths: dict[int, list[Point]] = defaultdict(list)
    for key, at, messages in rows.values_list("pair_id", "at", "messages"):
        depths[key].append((at, messages))
    return {pair.pk: trend_of(pair, depths[pair.pk], ahead[pair.pk], now) for pair in known}
