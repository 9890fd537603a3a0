"""Send availability for Azure Service Bus: a primary namespace, paired with a secondary one."""

from pairing.errors import (
    BacklogCreationError,
    BacklogUnavailableError,
    PairedNamespaceFaultedError,
    PairingError,
    ScheduledInBacklogError,
)
from pairing.events import Event
from pairing.options import SendAvailabilityOptions

__all__ = [
    "BacklogCreationError",
    "BacklogUnavailableError",
    "Event",
    "PairedNamespaceFaultedError",
    "PairingError",
    "ScheduledInBacklogError",
    "SendAvailabilityOptions",
]
