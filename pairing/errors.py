"""The errors of the library. Everything the SDK raises about the caller's own message passes through unchanged."""

from collections.abc import Mapping


class PairingError(Exception):
    """Root of this library's errors; the SDK's error, where there is one, is its ``__cause__``."""


class BacklogUnavailableError(PairingError):
    """The entity is failed over and no backlog queue took the message: the caller still holds it.

    ``errors`` tells, per backlog queue that was tried, what it answered.
    """

    def __init__(self, entity: str, errors: Mapping[str, BaseException]) -> None:
        tried = "; ".join(f"{path}: {error}" for path, error in errors.items()) or "no queue in the rotation"
        super().__init__(f"{entity} is failed over and no backlog queue took the message ({tried})")
        self.entity = entity
        self.errors = dict(errors)


class PairedNamespaceFaultedError(PairingError):
    """One end of the pair closed or faulted while the other stayed open: the pair is of no more use."""


class BacklogCreationError(PairingError):
    """Opening the pair found no backlog queue and could create none; the message names the namespace."""


class ScheduledInBacklogError(PairingError):
    """The scheduled message sits in a backlog queue, where it cannot be cancelled."""
