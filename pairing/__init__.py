"""Send availability for Azure Service Bus: a primary namespace, paired with a secondary one."""

from typing import TYPE_CHECKING, Any

from pairing.backlog.administration import emulator_transport
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
from pairing.health.availability import State
from pairing.health.faults import classify
from pairing.health.flows import PingResult
from pairing.messages.payload import PairedMessageBatch
from pairing.messages.rewriting import is_ping
from pairing.options import SendAvailabilityOptions
from pairing.pair import EntityHealth
from pairing.sender import PairedSender

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """The syphon is loaded when it is first asked for: most applications send only."""
    if name == "Syphon":
        from pairing.syphon import Syphon

        return Syphon
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
