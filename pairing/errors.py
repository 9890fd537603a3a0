"""The errors of the library. Errors of the SDK about the caller's own message pass through unchanged."""

import copy
import pickle
from collections.abc import Mapping
from enum import Enum
from typing import Any, Self

from azure.servicebus.exceptions import ServiceBusError, ServiceBusServerBusyError

TOO_LITTLE_TIME = "the timeout left no time to try a queue"
RETRY_AFTER_S = 10.0
"""How long to wait before the next request to a busy server."""


class Fault(Enum):
    """The meaning of a failed send, which determines the reaction."""

    OUTAGE = "outage"
    """It qualifies: the entity is failing, and fails over after the failover interval."""
    BUSY = "busy"
    """The server requests a pause of 10 s; it does not qualify."""
    CALLER = "caller"
    """The message or the call is invalid: a backlog queue would reject it as well."""
    CONFIGURATION = "configuration"
    """Wrong key or missing right: the configuration must be changed."""


class PairingError(ServiceBusError):
    """Base of this library's errors; the error of the SDK, if any, is its ``__cause__``, in other processes too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _Portable(self).__reduce__()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)


class _Portable:
    """Pickles an error with its cause: those of the SDK cannot be unpickled, and their tracebacks not be pickled."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        error = self.error
        if _portable(type(error)) is None:
            return PairingError, (repr(error),)
        state = _portable({**vars(error), "__cause__": error.__cause__})
        return type(error).__new__, (type(error), *map(_portable, error.args)), state


def _portable(value: Any) -> Any:
    """What can be pickled of a value; None if nothing can."""
    if isinstance(value, BaseException):
        return _Portable(value)
    if isinstance(value, dict):
        return {key: _portable(one) for key, one in value.items()}
    try:
        pickle.dumps(value)
    except Exception:
        return None
    return value


class ServerBusyError(ServiceBusServerBusyError, PairingError):
    """The server is busy: send again after ``retry_after`` seconds. The SDK's error is the ``__cause__``."""

    retry_after = RETRY_AFTER_S


class BacklogUnavailableError(PairingError):
    """The entity is failed over and no backlog queue accepted the message: the caller still holds it.

    ``errors`` maps each attempted backlog queue to its error.
    """

    def __init__(
        self, entity: str, errors: Mapping[str, BaseException], reason: str = "no queue in the rotation"
    ) -> None:
        tried = "; ".join(f"{path}: {error}" for path, error in errors.items()) or reason
        super().__init__(f"{entity} is failed over and no backlog queue accepted the message ({tried})")
        self.entity = entity
        self.errors = dict(errors)


class PairedNamespaceFaultedError(PairingError):
    """One end of the pair was closed or faulted while the other stayed open: the pair is unusable."""


class BacklogCreationError(PairingError):
    """Opening the pair found no backlog queue and could not create one; the message names the namespace."""


class ScheduledInBacklogError(PairingError):
    """The scheduled message is in a backlog queue, where it cannot be cancelled."""
