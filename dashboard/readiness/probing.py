"""Probing one right of a credential by using it: the cheapest operation that proves it, in bounded time.

A sender's link is opened and nothing is sent; a receiver's link is opened, with one peek; a request is sent that
requires the Manage claim.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import MessagingEntityNotFoundError
from azure.servicebus.management import ServiceBusAdministrationClient

from dashboard.readiness.facts import Answer, Probe
from pairing import PairingError
from pairing.backlog.administration import is_unauthorized
from pairing.errors import Fault
from pairing.health.faults import classify, describe
from pairing.links import Link, Operation, Watchdog

OPEN_S = 5.0


def administered(administration: ServiceBusAdministrationClient) -> Probe:
    """Send a request that requires the Manage claim; one operation."""
    try:
        administration.get_namespace_properties()
    except (AzureError, OSError, ValueError) as error:
        refused = is_unauthorized(error)
        return Probe(Answer.REFUSED if refused else Answer.SILENT, datetime.now(UTC), describe(error))
    return Probe(Answer.ALLOWED, datetime.now(UTC))


def opened(watchdog: Watchdog, make: Callable[[], Any], use: Operation | None = None) -> Probe:
    """Open a link, run the operation on it, if given, and close it, in bounded time."""
    try:
        link = Link(make, watchdog)
    except PairingError as error:
        return Probe(Answer.SILENT, datetime.now(UTC), str(error))
    try:
        failure = link.attempt(use, OPEN_S) if use else link.warm(OPEN_S)
    finally:
        link.close(1.0)
    if failure is None:
        return Probe(Answer.ALLOWED, datetime.now(UTC))
    return Probe(answer_of(failure.error), datetime.now(UTC), describe(failure.error))


def answer_of(error: Exception) -> Answer:
    """Whether an error of a link is a refusal or an unreachable namespace. Pure."""
    missing = isinstance(error, MessagingEntityNotFoundError)
    return Answer.REFUSED if missing or classify(error, known=False) is Fault.CONFIGURATION else Answer.SILENT


def peek(receiver: Any, left_s: float) -> None:
    """The operation that proves Listen."""
    receiver.peek_messages(1, sequence_number=1, timeout=left_s)
