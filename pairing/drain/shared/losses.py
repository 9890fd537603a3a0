"""An estimate of the unreported usage of a syphon that died, from the ledger it stored. Pure.

An estimate has the identity of the dead process's own record, with ``seq`` 0: if that record was reported after all, it
counts, and the estimate does not.
"""

from datetime import datetime

from pairing.drain.backlog_queue import BATCH
from pairing.drain.ledger import Ledger
from pairing.telemetry.metering import UsageRecord


def estimated(ledger: Ledger, pair: str, primary: str, secondary: str) -> list[UsageRecord]:
    """The usage of the last two minutes in which this ledger was stored; a message counts as one of at most 64 KB."""
    return [
        record
        for minute, counts in ledger.recent.items()
        for path, messages in counts.items()
        for record in _moved(ledger.reporter, pair, (primary, secondary), minute, path, messages)
    ]


def messages(ledger: Ledger) -> int:
    """The number of messages in that estimate."""
    return sum(sum(counts.values()) for counts in ledger.recent.values())


def _moved(reporter: str, pair: str, ends: tuple[str, str], minute: str, path: str, messages: int) -> list[UsageRecord]:
    primary, secondary = ends
    began = datetime.fromisoformat(minute)
    return [
        UsageRecord(
            f"{pair}/{reporter}/{began:%Y%m%dT%H%M}/{kind}/{namespace}/{path}",
            *(began, pair, pair, namespace, path, kind, reporter),
            *(0, operations, messages, 0, messages),
        )
        for kind, namespace, operations in (
            ("syphon_receive", secondary, messages),
            ("syphon_send", primary, -(-messages // BATCH)),
            ("syphon_settle", secondary, messages),
        )
    ]
