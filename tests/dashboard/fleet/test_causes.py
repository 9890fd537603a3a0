"""What is said first of a failure: its plain cause, as reasons of the SDK and of this library are understood."""

from datetime import timedelta

import pytest
from azure.servicebus import exceptions as sdk

from dashboard.fleet.state.event_lines import plain_cause, together
from dashboard.models import FailoverEvent
from pairing.health.faults import describe
from tests.dashboard.conftest import NOW

SILENT, RESET = "the primary does not answer", "the primary resets connections"
REJECTED = "rejects sends: internal error"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ServiceBusError: Fault 0a6acd66e8f9: reject. Error condition: amqp:internal-error.", REJECTED),
        ("amqp:internal-error for 5 s", REJECTED),
        ("OperationTimeoutError: No answer within 10.0 s.", SILENT),
        ("OperationTimeoutError: The link did not open within the timeout of this send.", SILENT),
        ("the primary does not answer: no connection within 30 s", SILENT),
        ("TimeoutError", SILENT),
        ("fleet/positions refuses sends: quota reached (amqp:resource-limit-exceeded)", "quota reached"),
        ("ServiceBusQuotaExceededError: The entity is full.", "quota reached"),
        ("ServiceBusServerBusyError: com.microsoft:server-busy", "rejects sends: server busy"),
        ("MessagingEntityDisabledError: com.microsoft:entity-disabled", "the entity is disabled"),
        ("refused: wrong key, or no such entity", "refused: wrong key, or no such entity"),
        ("refused: a right is missing", "refused: a right is missing"),
        ("ServiceBusConnectionError: amqp:connection:forced", RESET),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", RESET),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "the primary refuses connections"),
        ("gaierror: [Errno -2] Name or service not known", "the primary's name cannot be resolved"),
        ("moving payments to partitioned entities, change 4711", ""),
        ("storage of the region is down, ticket 4711", ""),
        ("", ""),
    ],
)
def test_a_reason_has_a_plain_cause(reason: str, words: str) -> None:
    assert plain_cause(reason) == words
    assert plain_cause(reason, "queue_pulled") == words.replace("the primary", "the secondary")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (sdk.OperationTimeoutError(), SILENT),
        (sdk.ServiceBusConnectionError(), RESET),
        (sdk.ServiceBusQuotaExceededError(), "quota reached"),
        (sdk.ServiceBusServerBusyError(), "rejects sends: server busy"),
        (sdk.MessagingEntityDisabledError(), "the entity is disabled"),
        (sdk.MessagingEntityNotFoundError(), "the entity does not exist"),
        (sdk.ServiceBusAuthenticationError(), "refused: wrong key, or no such entity"),
        (sdk.ServiceBusAuthorizationError(), "refused: a right is missing"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_the_sdk_that_start_a_failover_are_understood_as_this_library_describes_them(
    error: BaseException, words: str
) -> None:
    assert plain_cause(describe(error)) == words


def reported(*processes: str, kind: str = "dead_lettered") -> list[FailoverEvent]:
    """Events a second apart, newest first."""
    return [
        FailoverEvent(
            time=NOW - timedelta(seconds=n), pair="contoso", entity="orders", kind=kind, reason=f"{n}", process=name
        )
        for n, name in enumerate(processes)
    ]


@pytest.mark.parametrize(
    ("processes", "often"),
    [(("a",), ""), (("a", "a"), "2 times"), (("a", "b"), "in 2 processes"), (("a", "b", "a", "b"), "in 2 processes")],
)
def test_a_line_says_in_how_many_processes_or_how_often_it_happened(processes, often):
    (line,) = together(reported(*processes))

    assert (line.often, line.times, line.event.reason) == (often, len(processes), "0")
