"""Why a transfer to the primary failed, or must not begin."""

from collections.abc import Callable

from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
)

from pairing.drain.backlog_queue import Why
from pairing.errors import Fault
from pairing.health.faults import cannot_encode, classify, condition, is_own_shortage
from pairing.links.failures import LinkCrowdedError


class LeaseOverError(Exception):
    """The queue is not this process's any more: nothing was handed to the SDK."""


def require_lease(holds: Callable[[], bool]) -> None:
    """Raises LeaseOverError where the lease does not stand: to be asked after every wait, right before the SDK acts."""
    if not holds():
        raise LeaseOverError("the lease of the backlog queue is over")


def why_refused(error: Exception) -> Why:
    """Whose fault a failed send is, as the syphon sees it."""
    if isinstance(error, LeaseOverError):
        return "lease"
    if isinstance(error, MessageSizeExceededError):  # which is a ValueError, too
        return "message"
    if cannot_encode(error):
        return "ours"
    if is_own_shortage(error):
        return "shortage"
    if isinstance(error, LinkCrowdedError):
        return "busy"
    gone = condition(error) == "amqp:resource-deleted"
    if gone or isinstance(error, MessagingEntityNotFoundError | MessagingEntityDisabledError):
        return "final"
    match classify(error, known=True):
        case Fault.BUSY:
            return "busy"
        case Fault.CALLER:
            return "message"
        case _:
            return "outage"
