"""Metered operations of the present, as collectors store and pages read them."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.costs.forecasts.current_month import traffic
from dashboard.fleet.usage import metered
from dashboard.fleet.usage.metered import OF_A_FAILOVER
from dashboard.fleet.usage.rates import HOUR, MINUTE
from dashboard.models import BacklogQueue, ChargeRun, MeteredRecord, MeteredUsage
from dashboard.templatetags.dashboard import roughly
from pairing.telemetry.metering import UsageRecord
from tests.dashboard.markup import one_line

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
NOW = datetime(2026, 11, 22, 10, 20, 40, tzinfo=UTC)


def record(minute: datetime, messages: int, *, seq: int = 1, **changes: str) -> UsageRecord:
    known = {"scope": "north", "pair": "contoso", "namespace": "contoso", "entity": "orders", "kind": "send"}
    place = {**known, "reporter": "host:1:aaaa", **changes}
    identity = "/".join(["contoso", minute.isoformat(), *place.values()])
    return UsageRecord(identity, minute, **place, seq=seq, operations=messages, messages=messages,
                       bytes=messages * 300, billing_units=messages)  # fmt: skip


def flowing(until: datetime, minutes: int, messages: int, **changes: str) -> None:
    last = until.replace(second=0)
    metered.store((record(last - MINUTE * back, messages, **changes) for back in range(1, minutes + 1)), until)


def test_of_the_reports_of_a_minute_the_latest_counts_however_they_arrive():
    minute = NOW.replace(second=0)
    assert metered.store([record(minute, 5, seq=2), record(minute, 3)], NOW) == 1
    assert metered.store([record(minute, 3)], NOW) == 0
    assert metered.store([record(minute, 9, seq=3)], NOW) == 1
    assert MeteredRecord.objects.get().messages == 9


def test_sums_of_hours_have_what_the_records_had_and_each_once():
    flowing(NOW, 100, 7)
    flowing(NOW, 100, 2, kind="send_backlog")
    begin = NOW.replace(hour=8, minute=0, second=0)
    before = metered.since(begin, NOW)
    later = NOW + HOUR * 4
    while metered.roll_up(later):
        pass
    assert metered.since(begin, NOW) == before
    assert not MeteredRecord.objects.exists()
    assert set(MeteredUsage.objects.filter(kind="send").values_list("begins_at__hour", flat=True)) == {8, 9, 10}
    assert MeteredUsage.objects.filter(kind__in=OF_A_FAILOVER).count() == 100
    assert metered.store([record(NOW - MINUTE, 7)], later) == 0  # it is delivered again, much later


def test_an_hour_is_divided_where_a_run_of_the_charges_began():
    ChargeRun.objects.create(month="2026-11", started_at=NOW - MINUTE * 10, heard_at=NOW)
    flowing(NOW, 20, 1)
    metered.roll_up(NOW + HOUR * 4)
    (row,) = metered.since(metered.minute_of(NOW - MINUTE * 10), NOW)
    assert row["messages"] == 10


def test_the_traffic_of_a_pair_is_that_of_the_last_minutes_and_says_so():
    flowing(NOW, 60, 228)
    flowing(NOW, 60, 100, pair="fabrikam")
    found = traffic("contoso", NOW)
    assert (found.messages_per_hour, found.message_bytes) == (13_680, 300)
    assert found.words == "in the last 15 minutes"
    assert traffic("", NOW).messages_per_hour == 13_680 + 6_000
    assert traffic("contoso", NOW, "payments").expected is None


def test_while_nothing_flows_it_is_that_of_the_same_time_of_earlier_days():
    midnight = NOW.replace(hour=0, minute=0, second=0)
    place = {"scope": "north", "pair": "contoso", "namespace": "contoso", "entity": "orders", "kind": "send"}
    for hours_ago, messages in ((48, 1), (38, 600), (14, 1200), (13, 1200), (37, 600)):
        numbers = {"operations": messages, "messages": messages, "bytes": 0, "billing_units": 0}
        MeteredUsage.objects.create(**place, **numbers, begins_at=midnight - HOUR * hours_ago)
    found = metered.sent(NOW, "contoso").traffic.expected(NOW)
    assert (found.words, found.per_hour) == ("at this time of the last 2 days", 900)
    assert (found.low, found.high) == (600, 1200)


def test_of_a_time_that_is_expected_nobody_needs_the_hours_after_a_year():
    assert roughly(timedelta(days=76, hours=14)) == "about 77\N{NO-BREAK SPACE}d"
    assert roughly(timedelta(days=1159)) == "more than a year"


def test_overview_dialog_forecast_and_api_show_the_same_traffic(pair, redis_here, alive, as_role, monkeypatch):
    now = datetime.now(UTC)
    flowing(now, 60, 228)
    queue = BacklogQueue(pair=pair, path="contoso/x-servicebus-transfer/0", index=0, seen_at=now)
    queue.size_bytes, queue.max_size_bytes = 0, 13_680 * 24 * 80 * 300
    queue.save()
    viewer = as_role("viewer")

    (reported,) = viewer.get("/api/v1/pairs").json()
    assert reported["traffic"]["messages_per_hour"] == pytest.approx(13_680, rel=0.1)
    assert reported["traffic"]["full_in_s"] / 86_400 == pytest.approx(80, rel=0.1)
    rate = f"{round(reported['traffic']['messages_per_hour'], -2):,}"
    overview = one_line(viewer.get("/").text)
    assert f"<dt>Traffic</dt> <dd> {rate}" in overview
    assert "as in the last 15 minutes" in overview
    assert "as in the last 15 minutes" in one_line(viewer.get("/costs/forecast/?pair=contoso").text)
