"""The errors of the library. Errors of the SDK about the caller's own message pass through unchanged."""

from collections.abc import Mapping
from enum import Enum

RETRY_AFTER_S = 10.0
"""How long a busy server wants to be left alone."""


class Fault(Enum):
    """What a failed send means, and so what happens next."""

    OUTAGE = "outage"
    """It qualifies: the entity is failing, and fails over when the failover interval passes."""
    BUSY = "busy"
    """The server asks to be left alone for 10 s; it does not qualify."""
    CALLER = "caller"
    """The message or the call is at fault: a backlog queue would not take it either."""
    CONFIGURATION = "configuration"
    """Wrong key, missing right: somebody must change the configuration."""


class PairingError(Exception):
    """Root of this library's errors; the SDK's error, where there is one, is its ``__cause__``."""


TOO_LITTLE_TIME = "the timeout left no time to try a queue"


class BacklogUnavailableError(PairingError):
    """The entity is failed over and no backlog queue took the message: the caller still holds it.

    ``errors`` maps each backlog queue that was tried to its error.
    """

    def __init__(
        self, entity: str, errors: Mapping[str, BaseException], reason: str = "no queue in the rotation"
    ) -> None:
        tried = "; ".join(f"{path}: {error}" for path, error in errors.items()) or reason
        super().__init__(f"{entity} is failed over and no backlog queue took the message ({tried})")
        self.entity = entity
        self.errors = dict(errors)


class PairedNamespaceFaultedError(PairingError):
    """One end of the pair closed or faulted while the other stayed open: the pair is of no more use."""


class BacklogCreationError(PairingError):
    """Opening the pair found no backlog queue and could create none; the message names the namespace."""


class ScheduledInBacklogError(PairingError):
    """The scheduled message sits in a backlog queue, where it cannot be cancelled."""
