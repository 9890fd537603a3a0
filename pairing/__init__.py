"""Send availability for Azure Service Bus: a primary namespace, paired with a secondary one."""

from typing import TYPE_CHECKING

from pairing.backlog.administration import emulator_transport
from pairing.client import PairedServiceBusClient
from pairing.errors import (
    BacklogCreationError,
    BacklogUnavailableError,
    Fault,
    PairedNamespaceFaultedError,
    PairingError,
    ScheduledInBacklogError,
    ServerBusyError,
)
from pairing.events import Event
from pairing.health.availability import State
from pairing.health.faults import classify
from pairing.health.flows import PingResult
from pairing.loading import loaded_on_use
from pairing.messages.payload import PairedMessageBatch
from pairing.messages.rewriting import is_ping
from pairing.options import SendAvailabilityOptions
from pairing.pair import EntityHealth
from pairing.sender import PairedSender

if TYPE_CHECKING:
    from pairing.syphon import Syphon
else:
    __getattr__, __dir__ = loaded_on_use(__name__, {"Syphon": "pairing.syphon"})

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
    "ServerBusyError",
    "State",
    "Syphon",
    "classify",
    "emulator_transport",
    "is_ping",
]
