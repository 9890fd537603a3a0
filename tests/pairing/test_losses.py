"""What a dead syphon had not reported is estimated, and never counted twice (docs/design/metering.md)."""

from datetime import UTC, datetime, timedelta

from pairing.drain.ledger import Ledger
from pairing.drain.shared.losses import estimated, messages
from pairing.telemetry.metering import UsageMeter
from pairing.testing import ManualClock

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
