"""Usage is counted cheaply and reported exactly once after deduplication (docs/specification.md, section 10)."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pairing.drain.ledger import Ledger
from pairing.drain.shared.losses import estimated, messages
from pairing.telemetry.metering import KINDS, SETTLEMENT_KINDS, UsageMeter, UsageRecord, billing_units
from pairing.testing import ManualClock
from pipeline import schemas


class SetBack(ManualClock):
    """A clock that somebody may set back."""

    set_back = timedelta(0)

    def utc(self, at: float) -> datetime:
        return super().utc(at) - self.set_back


@pytest.fixture
def clock():
    return SetBack(24 * 3600 - 30)  # half a minute before midnight


@pytest.fixture
def meter(clock):
    return UsageMeter("contoso", "host:1:abc", clock)


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1, 1), (65536, 1), (65537, 2), (131072, 2), (262144, 4)], ids=str)
def test_a_billing_unit_is_64_kb_and_at_least_one(size, units):
    assert billing_units(size) == units


def test_a_minute_is_reported_once_when_it_is_over(meter, clock):
    for _ in range(3):
        meter.count("send", "contoso", "orders", messages=2, bytes=100, billing_units=2)
    meter.count("send", "contoso", "orders")  # attempted, not accepted
    assert meter.drain(clock.now()) == []
    clock.advance(31)
    [record] = meter.drain(clock.now())
    assert record == UsageRecord(
        record_id="contoso/host:1:abc/20260101T2359/send/contoso/orders",
        minute=datetime(2026, 1, 1, 23, 59, tzinfo=UTC),
        scope="contoso",
        pair="contoso",
        namespace="contoso",
        entity="orders",
        kind="send",
        reporter="host:1:abc",
        seq=1,
        operations=4,
        messages=6,
        bytes=300,
        billing_units=6,
    )
    assert meter.drain(clock.now(), everything=True) == []


def test_the_running_minute_can_be_reported_early_and_comes_again_with_a_higher_seq_only_if_it_grew(meter, clock):
    meter.count("ping", "contoso", "orders")
    [early] = meter.drain(clock.now(), everything=True)
    assert meter.drain(clock.now(), everything=True) == []
    meter.count("ping", "contoso", "orders")
    clock.advance(60)
    [late] = meter.drain(clock.now())
    assert late.record_id == early.record_id
    assert (early.seq, early.operations, late.seq, late.operations) == (1, 1, 2, 2)


def test_memory_stays_bounded_and_no_number_is_lost_where_nobody_drains(clock):
    meter = UsageMeter("contoso", "host:1:abc", clock, most_pending=100)
    for minute in range(200):
        for entity in range(10):
            meter.count("send", "contoso", f"entity-{entity}", messages=minute)
        clock.advance(60)
    records = meter.drain(clock.now())
    assert len(records) <= 110
    assert sum(record.operations for record in records) == 2000
    assert sum(record.messages for record in records) == 10 * sum(range(200))


STEPS = st.lists(
    st.tuples(st.sampled_from(["count", "turn", "drain", "early", "set back"]), st.integers(1, 3)), max_size=60
)


@given(STEPS)
@example([("count", 1), ("turn", 3), ("drain", 1), ("count", 1), ("set back", 2), ("turn", 3), ("count", 1)])
def test_after_deduplication_every_operation_is_reported_exactly_once_for_what_it_was(steps):
    clock = SetBack()
    meter = UsageMeter("contoso", "host:1:abc", clock, most_pending=2)
    counted, reported = Counter(), []
    for step, number in steps:
        match step:
            case "count":
                for key in (("send", "contoso", f"{number}"), ("receive", "contoso", "1"), ("send", "dr", "1")):
                    meter.count(*key, operations=number)
                    counted[key] += number
            case "turn":
                clock.advance(20 * number)
            case "drain":
                reported += meter.drain(clock.now())
            case "early":
                reported += meter.drain(clock.now(), everything=True)
            case "set back":
                clock.set_back += timedelta(minutes=number)
    reported += meter.drain(clock.now(), everything=True)
    latest = {record.record_id: record for record in sorted(reported, key=lambda record: record.seq)}
    found = Counter()
    for record in latest.values():
        found[record.kind, record.namespace, record.entity] += record.operations
    assert found == counted


def peaks(records):
    return [(f"{record.minute:%d %H:%M}", record.namespace, record.operations, record.seq) for record in records]


def test_of_connections_the_peak_of_each_hour_is_reported_and_once_more_when_it_rises(meter, clock):
    for number in (2, 5, 3):
        meter.connections("contoso", number)
    meter.connections("contoso-dr", 0)  # nothing was open: nothing to tell
    first = meter.drain(clock.now())
    assert peaks(first) == [("01 23:00", "contoso", 5, 1)]
    assert (first[0].kind, first[0].entity, first[0].billing_units) == ("connections", "*", 0)
    meter.connections("contoso", 4)
    assert meter.drain(clock.now()) == []
    meter.connections("contoso", 6)
    again = meter.drain(clock.now())
    assert peaks(again) == [("01 23:00", "contoso", 6, 2)]
    assert again[0].record_id == first[0].record_id
    clock.advance(60)
    meter.connections("contoso", 1)
    assert peaks(meter.drain(clock.now())) == [("02 00:00", "contoso", 1, 1)]


def test_peaks_of_hours_nobody_fetches_take_no_room_without_end(meter, clock):
    for _ in range(1000):
        clock.advance(3600)
        meter.connections("contoso", 1)
    assert len(meter.drain(clock.now())) == 72


def test_nothing_that_many_threads_count_is_lost_while_it_is_folded(meter, clock):
    threads = [
        threading.Thread(target=lambda: [meter.count("send", "contoso", "orders", bytes=1) for _ in range(20_000)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        meter.fold()
    [record] = meter.drain(clock.now(), everything=True)
    assert (record.operations, record.bytes) == (80_000, 80_000)


def test_the_pipeline_prices_every_kind_that_is_counted_and_no_other():
    assert set(schemas.KINDS) == set(KINDS)
    assert set(schemas.SETTLEMENTS) == set(SETTLEMENT_KINDS)


def test_each_kind_has_a_label_of_its_own():
    assert len({kind.label for kind in KINDS.values()}) == len(KINDS)


# What a dead syphon had not reported is estimated, and never counted twice

NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)


def kept(*moved: tuple[str, int, datetime]) -> Ledger:
    ledger = Ledger("queue-0")
    ledger.reporter = "host:1:abc"
    for path, count, at in moved:
        ledger.used([path] * count, at)
    return ledger


def test_each_message_is_estimated_as_received_sent_and_settled():
    ledger = kept(("orders", 150, NOON), ("payments", 2, NOON))
    described = {
        (one.kind, one.namespace, one.entity): one for one in estimated(ledger, "contoso", "contoso", "contoso-dr")
    }
    assert messages(ledger) == 152
    assert {key: (one.operations, one.messages, one.billing_units) for key, one in described.items()} == {
        ("syphon_receive", "contoso-dr", "orders"): (150, 150, 150),
        ("syphon_send", "contoso", "orders"): (2, 150, 150),
        ("syphon_settle", "contoso-dr", "orders"): (150, 150, 150),
        ("syphon_receive", "contoso-dr", "payments"): (2, 2, 2),
        ("syphon_send", "contoso", "payments"): (1, 2, 2),
        ("syphon_settle", "contoso-dr", "payments"): (2, 2, 2),
    }
    assert {one.minute for one in described.values()} == {NOON.replace(second=0)}


def test_an_estimate_gives_way_to_what_the_dead_process_reported_after_all():
    clock = ManualClock()
    meter = UsageMeter("contoso", "host:1:abc", clock)
    meter.count("syphon_send", "contoso", "orders", messages=3, billing_units=3)
    [reported] = meter.drain(clock.now(), everything=True)
    ledger = kept(("orders", 3, clock.utc(clock.now())))
    [estimate] = [one for one in estimated(ledger, "contoso", "contoso", "contoso-dr") if one.kind == "syphon_send"]
    assert estimate.record_id == reported.record_id
    assert estimate.seq < reported.seq


def test_only_the_last_two_minutes_may_have_gone_unreported():
    ledger = kept(*(("orders", 1, NOON + timedelta(minutes=minute)) for minute in range(5)))
    assert messages(ledger) == 2
    assert max(ledger.recent) == "2026-11-21T12:04:00+00:00"


def test_ledgers_that_were_closed_properly_estimate_nothing():
    assert estimated(Ledger("queue-0"), "contoso", "contoso", "contoso-dr") == []
