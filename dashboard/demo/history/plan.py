"""What happened in the simulated past: incidents, and drills. A pure function of a seed and the present time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.demo.history.scenery import ENTITIES, LIVE_PAIR, OTHER_PAIR, Watched, of_pair
from dashboard.demo.history.traffic import messages

DAYS = 60
SEED = 20_110
MARK = "(simulated)"
SIMULATION = "simulation"
"""Name of the process that has reported, and of the client that has requested, whatever is simulated."""
FAILOVER_INTERVAL = timedelta(minutes=1)
LEAST_WAITING = 3


@dataclass(frozen=True, slots=True)
class Scene:
    """An incident: when, where, why, and how it went."""

    title: str
    days_ago: float
    pair: str
    paths: tuple[str, ...]
    lasted: timedelta
    reason: str
    drain_s_per_thousand: float = 45.0
    forced_by: str = ""
    held: timedelta | None = None
    paused: timedelta | None = None
    """How long an operator paused the syphon after the recovery."""
    fills_up: bool = False
    dead_letters: int = 0
    stagger: timedelta = timedelta(seconds=7)
    """Time between the failovers of two entities."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One entity's part of an incident."""

    scene: Scene
    entity: Watched
    failing_at: datetime
    failed_over_at: datetime
    recovered_at: datetime
    resumed_at: datetime
    """When the drain began: the recovery, or the end of an operator's pause."""
    drained_at: datetime
    diverted: int

    @property
    def dead_letters(self) -> int:
        """Those of the incident are of its first entity."""
        return self.scene.dead_letters if self.entity.path == self.scene.paths[0] else 0

    @property
    def home(self) -> int:
        """The messages that reached the primary in the end."""
        return self.diverted - self.dead_letters

    def waiting(self, at: datetime) -> int:
        """Messages for the entity in the backlog at this time."""
        if not self.failed_over_at <= at < self.drained_at:
            return 0
        if at < self.recovered_at:
            return round(self.diverted * ((at - self.failed_over_at) / (self.recovered_at - self.failed_over_at)))
        if at < self.resumed_at:
            return self.diverted
        return round(self.diverted * ((self.drained_at - at) / (self.drained_at - self.resumed_at)))


@dataclass(frozen=True, slots=True)
class DrillRun:
    """A drill of the canary of a pair."""

    pair: str
    at: datetime
    by: str
    is_scheduled: bool
    failure: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The simulated past: from `begin` to `end`."""

    seed: int
    begin: datetime
    end: datetime
    outages: tuple[Outage, ...]
    drills: tuple[DrillRun, ...]

    @property
    def scenes(self) -> list[Scene]:
        """The incidents, oldest first."""
        return list(dict.fromkeys(outage.scene for outage in self.outages))


def _everything(pair: str) -> tuple[str, ...]:
    return tuple(one.path for one in of_pair(pair))


SCENES = (
    Scene(
        title="a queue rejects sends",
        days_ago=51.4,
        pair=LIVE_PAIR,
        paths=("orders",),
        lasted=timedelta(minutes=38),
        reason="orders rejects sends: internal error (amqp:internal-error)",
    ),
    Scene(
        title="the whole primary does not answer",
        days_ago=36.6,
        pair=LIVE_PAIR,
        paths=_everything(LIVE_PAIR),
        lasted=timedelta(hours=1, minutes=52),
        reason="the primary does not answer: no connection within 30 s",
        drain_s_per_thousand=28.0,
        fills_up=True,
    ),
    Scene(
        title="a quota is reached, and an operator pauses the syphon",
        days_ago=22.7,
        pair=OTHER_PAIR,
        paths=("fleet/positions",),
        lasted=timedelta(hours=3, minutes=20),
        reason="fleet/positions refuses sends: quota reached (amqp:resource-limit-exceeded)",
        drain_s_per_thousand=80.0,
        paused=timedelta(minutes=50),
        fills_up=True,
    ),
    Scene(
        title="an operator forces a failover for maintenance",
        days_ago=10.3,
        pair=LIVE_PAIR,
        paths=("payments",),
        lasted=timedelta(minutes=55),
        reason="moving payments to partitioned entities, change 4711",
        forced_by="anna",
        held=timedelta(minutes=25),
    ),
    Scene(
        title="connections of a folder are reset",
        days_ago=2.6,
        pair=LIVE_PAIR,
        paths=("invoices/apac", "invoices/eu", "invoices/us"),
        lasted=timedelta(minutes=17),
        reason="the primary resets connections (amqp:connection:forced)",
        dead_letters=2,
        stagger=timedelta(minutes=2),
    ),
)


def history(now: datetime, seed: int = SEED) -> History:
    """The past as seen at `now`; the same for the same minute."""
    end = now.replace(second=0, microsecond=0)
    begin = (end - timedelta(days=DAYS)).replace(hour=0, minute=0)
    outages = [outage for scene in SCENES for outage in _outages(scene, end, seed)]
    return History(seed, begin, end, tuple(outages), tuple(_drills(end)))


def _outages(scene: Scene, end: datetime, seed: int) -> list[Outage]:
    began = end - timedelta(days=scene.days_ago)
    known = {one.path: one for one in ENTITIES if one.pair == scene.pair}
    return [_outage(scene, known[path], began + scene.stagger * n, seed) for n, path in enumerate(scene.paths)]


def _outage(scene: Scene, entity: Watched, failing_at: datetime, seed: int) -> Outage:
    failed_over_at = failing_at if scene.forced_by else failing_at + FAILOVER_INTERVAL
    recovered_at = failed_over_at + scene.lasted
    diverted = max(LEAST_WAITING, sum(count for _, count in by_hour(entity, failed_over_at, recovered_at, seed)))
    resumed_at = recovered_at + (scene.paused or timedelta())
    drain = timedelta(seconds=20 + round(scene.drain_s_per_thousand * diverted / 1000))
    return Outage(scene, entity, failing_at, failed_over_at, recovered_at, resumed_at, resumed_at + drain, diverted)


def by_hour(entity: Watched, since: datetime, until: datetime, seed: int) -> list[tuple[datetime, int]]:
    """The messages of each hour between two times, by the start of the part of the hour."""
    found, at = [], since
    while at < until:
        following = min(until, at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1))
        found.append((at, round(messages(seed, entity, at) * ((following - at) / timedelta(hours=1)))))
        at = following
    return found


def _drills(end: datetime) -> list[DrillRun]:
    at = [end - timedelta(days=days, hours=4) for days in (56, 42, 28, 14)]
    failure = "sending took longer than 90 s"
    return [
        DrillRun(LIVE_PAIR, at[0], "ben", is_scheduled=False),
        DrillRun(LIVE_PAIR, at[1], "schedule", is_scheduled=True),
        DrillRun(LIVE_PAIR, at[2], "schedule", is_scheduled=True, failure=failure),
        DrillRun(LIVE_PAIR, at[2] + timedelta(hours=3), "anna", is_scheduled=False),
        DrillRun(LIVE_PAIR, at[3], "schedule", is_scheduled=True),
    ]
