"""Outages: folded from events, clipped to the month, and the operations each one took."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dashboard.fleet.state.outages import outages
from dashboard.models import FailoverEvent
from pipeline.outages import Episode, Place
from pipeline.results import Outcome
from pipeline.schemas import USAGE
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import OCTOBER, computed, record

pytestmark = pytest.mark.spark
START = OCTOBER.start


def at(**after: float) -> datetime:
    return START + timedelta(**after)


def event(number: int, entity: str, kind: str, time: datetime, reason: str = "") -> dict[str, Any]:
    moment = time.isoformat()
    return {"id": str(number), "time": moment, "pair": "contoso", "entity": entity, "kind": kind, "reason": reason}


EVENTS = [
    # orders: twice within one hour, the first with repeated words from several processes, redelivered
    event(1, "orders", "failing", at(days=3)),
    event(2, "orders", "failed_over", at(days=3, minutes=1), "timeouts"),
    event(2, "orders", "failed_over", at(days=3, minutes=1), "timeouts"),
    event(3, "orders", "failed_over", at(days=3, minutes=2), "timeouts too"),
    event(4, "orders", "recovered", at(days=3, minutes=11)),
    event(5, "orders", "recovered", at(days=3, minutes=12)),
    event(6, "orders", "forced", at(days=3, minutes=20, microseconds=5), "maintenance"),
    event(7, "orders", "recovered", at(days=3, minutes=50, microseconds=5)),
    # payments: down when the month began; invoices: still down when it ended; archive: another month's
    event(8, "payments", "failed_over", at(hours=-5)),
    event(9, "payments", "recovered", at(hours=1)),
    event(10, "invoices", "failed_over", OCTOBER.end - timedelta(hours=2)),
    event(11, "archive", "failed_over", at(days=-9)),
    event(12, "archive", "recovered", at(days=-8)),
    event(13, "archive", "failed_over", OCTOBER.end + timedelta(days=1)),
    event(14, "shipments", "recovered", at(days=4)),
]


def folded(folder: Path, events: list[dict[str, Any]]) -> Path:
    """The file of outages that the control plane makes of these events."""
    path, lines = folder / "outages.jsonl", []
    for entity in {each["entity"] for each in events}:
        known = {each["id"]: each for each in events if each["entity"] == entity}
        reported = [
            FailoverEvent(time=datetime.fromisoformat(one["time"]), kind=one["kind"], reason=one["reason"])
            for one in known.values()
        ]
        for one in outages(sorted(reported, key=lambda each: each.time)):
            span = {"started": one.began.time.isoformat(), "ended": one.ended and one.ended.time.isoformat()}
            lines.append(
                {"pair": "contoso", "entity": entity, "cause": one.began.kind, "reason": one.began.reason} | span
            )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


ENTITIES = ("orders", "payments", "invoices", "archive", "shipments")


@pytest.fixture
def outcome(spark: SparkSession, usage: Path, write: Write) -> Outcome:
    """A month with usage of two episodes, and of a time before any."""
    backlog = {"scope": "sub-dr", "namespace": "contoso-dr"}
    rows = [
        record("before", at(days=2), entity="orders", kind="send_backlog", units=9, **backlog),
        record("a", at(days=3, minutes=1), entity="orders", kind="send_backlog", units=100, bytes=900, **backlog),
        record("b", at(days=3, minutes=5), entity="orders", kind="ping", units=3),
        record("c", at(days=3, minutes=12), entity="orders", kind="syphon_receive", units=100, bytes=900, **backlog),
        record("d", at(days=3, minutes=12), entity="orders", kind="syphon_send", units=100, bytes=900),
        record("e", at(days=3, minutes=12), entity="orders", kind="syphon_settle", units=100, **backlog),
        record("f", at(days=3, minutes=20), entity="orders", kind="send_backlog", units=7, **backlog),
        record("g", at(days=3, minutes=5), entity="orders", kind="receive", units=50),
    ]
    # polls are of a backlog queue: those while something of the pair is down count for what went down first
    empty = {"entity": "contoso/x-servicebus-transfer/0", "kind": "syphon_receive_empty"} | backlog
    polls = [
        record("p", at(days=3), units=1, **empty),
        record("q", at(days=3, minutes=1), units=2, **empty),
        record("r", at(days=3, minutes=10), units=3, **empty),
        record("s", at(days=3, minutes=11), units=4, **empty),
        record("t", at(minutes=30), units=5, **empty),
    ]
    write([*rows, rows[1], *polls], USAGE)
    path = folded(usage, EVENTS)
    inventory = tuple(("contoso", entity) for entity in ENTITIES)
    return computed(spark, usage, outages=path, inventory=inventory)


def test_episodes_availability_and_the_operations_of_each(outcome: Outcome) -> None:
    described = [(each.entity, each.cause, each.reason, each.started, each.down_s) for each in outcome.episodes]
    assert described == [
        ("payments", "failed_over", "", at(hours=-5), 3_600),
        ("orders", "failed_over", "timeouts", at(days=3, minutes=1), 600),
        ("orders", "forced", "maintenance", at(days=3, minutes=20, microseconds=5), 1_800),
        ("invoices", "failed_over", "", OCTOBER.end - timedelta(hours=2), 7_200),
    ]
    first, second = outcome.episodes[1:3]
    assert first.units == {
        "send_backlog": 100,
        "ping": 3,
        "syphon_receive": 100,
        "syphon_send": 100,
        "syphon_settle": 100,
        "syphon_receive_empty": 5,
    }
    assert (first.extra("published"), first.extra("settlements")) == (208, 308)
    assert outcome.episodes[0].units == {"syphon_receive_empty": 5}
    assert second.units == {"send_backlog": 7}
    # each operation is on the bill of the namespace it was made in: pings and sends home on the primary's
    assert [
        (place.scope, place.namespace, place.added("settlements"), place.crossing_bytes) for place in first.places
    ] == [("sub", "contoso", 3, 0), ("sub-dr", "contoso-dr", 305, 1_800)]

    known = {each.entity: (each.episodes, each.down_s, each.repair_s) for each in outcome.availability}
    assert known == {
        "orders": (2, 2_400, 1_200),
        "payments": (1, 3_600, 6 * 3_600),
        "invoices": (1, 7_200, None),
        "archive": (0, 0, None),
        "shipments": (0, 0, None),
    }
    shares = {each.entity: each.share for each in outcome.availability}
    assert shares["archive"] == 1
    assert shares["payments"] == pytest.approx(1 - 1 / 744)


def test_extra_counts_what_had_not_been_without_the_outage() -> None:
    # docs/pricing.md, section 9: one message of 70 KB; of 8 (10 with settlements) operations 4 (5) are extra
    units = {"send_backlog": 2, "syphon_receive": 2, "syphon_settle": 1, "syphon_send": 2}
    episode = Episode(
        pair="contoso",
        entity="orders",
        started=START,
        ended=None,
        cause="failed_over",
        reason="",
        down_s=0,
        places=(Place(scope="sub", namespace="contoso", units=units),),
    )
    assert (episode.extra("published"), episode.extra("settlements")) == (4, 5)


def test_what_comes_home_after_midnight_on_the_first_is_of_the_outage_before_the_month(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    described = [
        event(1, "orders", "failed_over", at(hours=-9)),
        event(2, "orders", "recovered", at(hours=-8)),
        event(3, "orders", "failed_over", at(hours=-2)),
        event(4, "orders", "recovered", at(minutes=-10)),
        event(5, "payments", "failed_over", at(hours=-2)),
        event(6, "payments", "recovered", at(minutes=-10)),  # whose backlog was home by midnight
    ]
    write([record("a", at(minutes=20), kind="syphon_receive", units=100)], USAGE)
    path = folded(usage, described)
    outcome = computed(spark, usage, outages=path, inventory=(("contoso", "orders"),))
    assert [(each.entity, each.started, each.down_s, each.units) for each in outcome.episodes] == [
        ("orders", at(hours=-2), 0, {"syphon_receive": 100})
    ]
    assert [(each.episodes, each.down_s, each.repair_s) for each in outcome.availability] == [(0, 0, None)]
