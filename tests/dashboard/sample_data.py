"""A control plane whose every page has something to show: history, charges, queues in trouble and dead letters."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import forked
from tests.dashboard import served as site
from tests.dashboard.results import result_of
from tests.dashboard.secondary import Secondary
from tests.ports import free_port

OWN = "contoso/x-servicebus-transfer/0"
DEVIATING = "contoso/x-servicebus-transfer/1"
EMPTY_ORPHAN = "contoso/x-servicebus-transfer/18"
FULL_ORPHAN = "contoso/x-servicebus-transfer/17"
LONG_PATH = "region/west-europe/customers-of-the-wholesale-branch/orders-by-day-and-by-week-2026"
SAMPLE = "from workers import connections, watchers; watchers.sample('contoso'); connections.close_all()"
ADD_SAMPLE_DATA = "from tests.dashboard.sample_data import add_sample_data; add_sample_data()"


@dataclass(frozen=True, slots=True)
class SampleSite:
    """A served control plane, and the way to its insides."""

    address: str
    secondary: Secondary
    environment: Mapping[str, str]

    def shell(self, code: str) -> str:
        """What the code prints, run in the control plane's own process environment."""
        return forked.run(("manage.py", "shell", "-v0", "-c", code), self.environment, check=True).stdout


@contextmanager
def sample_site(folder: Path, redis_url: str, **variables: str) -> Iterator[SampleSite]:
    """Served with queues of its own, a deviating one, orphans and dead letters, and a past."""
    with site.namespaces() as strings, Secondary.of(strings) as secondary:
        fill(secondary)
        environment = {**site.environment_of(folder, strings, redis_url), **variables}
        with site.serve(folder, environment, free_port(), f"{SAMPLE}\n{ADD_SAMPLE_DATA}") as address:
            yield SampleSite(address, secondary, environment)


def fill(secondary: Secondary) -> None:
    """Queues of the secondary: the pair's own with dead letters, a deviating one, and two orphans."""
    secondary.fill(secondary.make(OWN), "one", "two", "three", "four", session_id=None)
    secondary.dead_letter(OWN, 3)
    secondary.make(DEVIATING, max_delivery_count=3, dead_lettering_on_message_expiration=False)
    secondary.make(EMPTY_ORPHAN)
    secondary.fill(secondary.make(FULL_ORPHAN), "first", "second", "third")
    secondary.dead_letter(FULL_ORPHAN, 1)


def add_sample_data() -> None:
    """A past for the database: an outage with its depth, ledger and actions, and two months of charges."""
    from django.utils import timezone

    from tests.dashboard.sample_outage import add_outage
    from tests.dashboard.sample_readiness import add_readiness

    now = timezone.now()
    _entities(now)
    add_outage(now)
    _charges(now)
    add_readiness(now)
    _drill(now)


def _drill(now: datetime) -> None:
    """A drill that failed."""
    from dashboard.drills.course import Course, Step
    from dashboard.drills.report import report
    from dashboard.models import Drill, Pair

    pair, later = Pair.objects.get(name="contoso"), now + timedelta(days=1)
    course = Course(Step.COUNTING, 9, sent=9, done=7, forced_at=now, home_at=now)
    reported = report(course, now, now + timedelta(seconds=9)) | {"cost": None}
    begun = {"path": "pairing-canary", "by": "ada", "at": now, "request_id": "sample-drill", "expires_at": later}
    ended = {"step": "ended", "ended_at": now + timedelta(seconds=9), "outcome": "failed", "report": reported}
    detail = "9 of 9 messages did not arrive."
    Drill.objects.create(pk=1, pair=pair, course=course.as_json(), detail=detail, **begun, **ended)


def _entities(now: datetime) -> None:
    from dashboard.models import EntityHealth, Pair, TopicSubscription

    pair = Pair.objects.get(name="contoso")
    EntityHealth.objects.create(pair=pair, path=LONG_PATH, since=now - timedelta(days=2), state="healthy")
    for number in range(60):
        EntityHealth.objects.create(pair=pair, path=f"folder/entity-{number:02}", since=now - timedelta(hours=3))
    topic = EntityHealth.objects.get(path="shipments/eu-west")
    for name, count in (("audit", 0), ("billing", 3)):
        TopicSubscription.objects.create(topic=topic, name=name, dead_lettered=count, counted_at=now)


def _charges(now: datetime) -> None:
    from dashboard.costs.runs.storing import store
    from dashboard.models import BilledDay, Budget, ChargeRun, Statement

    month = f"{now:%Y-%m}"
    run = ChargeRun.objects.create(month=month, started_at=now, heard_at=now)
    with TemporaryDirectory() as folder:
        store(run, result_of(folder, _records(month)))
    Budget.objects.create(pair="*", cents=2000, alert_percent=80, set_by="ada", set_at=now)
    given = {"name": "october.csv", "digest": "0" * 64, "uploaded_by": "ada", "uploaded_at": now}
    statement = Statement.objects.create(month=month, rows=2, currency="USD", **given)
    BilledDay.objects.create(
        statement=statement, date=now.date(), namespace="contoso", meter="operations", quantity="1", cost="1"
    )


def _records(month: str) -> list[dict[str, Any]]:
    from tests.dashboard.costs.test_costs import RUN, invoice, line

    kinds = (("send", "orders", 560), ("send_backlog", "orders", 40), ("ping", LONG_PATH, 1), ("settle", "payments", 9))
    lines = [line(kind, cents, entity, units=cents * 1000) for kind, entity, cents in kinds]
    total = 1000 + sum(cents for *_, cents in kinds)
    counts = {"read": 12, "accepted": 12, "copies": 0, "quarantined": 0, "files": 2, "files_rejected": 0}
    price = {"meter": "Standard Messaging Operations", "unit": "1M", "from": "0", "price": "10.0", "currency": "USD"}
    reported = [RUN | {"month": month, "prices": [price], "counts": counts}, _billed_outage(month)]
    for rule in ("published", "settlements"):
        reported.append(invoice(rule, total, "contoso") | {"month": month})
        reported += [*lines, line("base", 1000, "*", "$system")]
        reported += [_day(line, f"{month}-03") for line in lines]
    return reported


def _day(line: Mapping[str, Any], date: str) -> dict[str, Any]:
    """All operations of a line on one day."""
    return {"record": "day", "date": date, **{name: line[name] for name in ("kind", "operations", "units", "exact")}}


def _billed_outage(month: str) -> dict[str, Any]:
    """Three hours of an entity whose backlog is another subscription's."""
    counts = {"published": 40_000, "settlements": 50_000, "crossing_bytes": 0}
    places = [
        {"scope": "contoso", "namespace": "contoso", **counts},
        {"scope": "dr", "namespace": "contoso-dr", **counts},
    ]
    return {
        "record": "episode",
        "pair": "contoso",
        "entity": LONG_PATH,
        "started_at": f"{month}-03T04:00:00+00:00",
        "ended_at": f"{month}-03T07:00:00+00:00",
        "cause": "failed_over",
        "reason": "no answer for 5 s",
        "down_s": 10_800,
        "units": {"send_backlog": 40_000, "ping": 40_000},
        "extra": {**counts, "published": 80_000, "settlements": 100_000, "places": places},
    }
