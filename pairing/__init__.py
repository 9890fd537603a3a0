"""Send availability for Azure Service Bus: a primary namespace, paired with a secondary one."""

from pairing.administration import emulator_transport
from pairing.availability import State
from pairing.client import PairedServiceBusClient
from pairing.errors import (
    BacklogCreationError,
    BacklogUnavailableError,
    Fault,
    PairedNamespaceFaultedError,
    PairingError,
    ScheduledInBacklogError,
)
from pairing.events import Event
from pairing.faults import classify
from pairing.flows import PingResult
from pairing.messages import is_ping
from pairing.options import SendAvailabilityOptions
from pairing.pair import EntityHealth
from pairing.payload import PairedMessageBatch
from pairing.sender import PairedSender
from pairing.syphon import Syphon

__all__ = [
    "BacklogCreationError",
    "BacklogUnavailableError",
    "EntityHealth",
    "Event",
    "Fault",
    "PairedMessageBatch",
    "PairedNamespaceFaultedError",
    "PairedSender",
    "PairedServiceBusClient",
    "PairingError",
    "PingResult",
    "ScheduledInBacklogError",
    "SendAvailabilityOptions",
    "State",
    "Syphon",
    "classify",
    "emulator_transport",
    "is_ping",
]
