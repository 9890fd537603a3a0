"""Any link of the library, why an operation on one failed, and whether the link is still usable."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from pairing.drive import Eventually


class LinkCrowdedError(OperationTimeoutError):
    """Other operations occupied the link all the time: nothing was sent, which is no evidence about the entity."""

    def __init__(self) -> None:
        super().__init__(message="Other sends on the same link used up the time of this one; it was not sent.")


class LinkFailure(NamedTuple):
    """Why an operation on a link failed."""

    error: Exception
    reused: bool
    """Whether the link was open before."""

    @property
    def is_crowded(self) -> bool:
        """Whether the operation never had its turn on the link."""
        return isinstance(self.error, LinkCrowdedError)


class AnyLink(Protocol):
    """A link to one entity, of ``pairing.links.link`` or ``pairing.aio.links``; its calls are awaited in asyncio."""

    used_at: float
    """When it was last dropped or lent; whoever lends a link that closes when idle sets it."""

    @property
    def sender(self) -> Any: ...

    @property
    def is_in_use(self) -> bool:
        """Whether an operation is under way."""
        ...

    def send(self, message: Any, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def attempt(self, operation: Callable[[Any, float], Any], timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def warm(self, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def maintain(self, now: float) -> Eventually[bool]: ...

    def close(self, timeout_s: float) -> Eventually[None]: ...


def raise_interruption(error: Exception, handled: BaseException | None) -> None:
    """Raise the KeyboardInterrupt, say, in whose handling the error occurred.

    One that comes just after ``Condition.wait`` has released its lock makes the condition release it again, which is a
    RuntimeError: no evidence about the entity. ``handled``: what was being handled before the operation, which belongs
    to the caller.
    """
    cause = error.__context__
    while cause is not None and cause is not handled:
        if not isinstance(cause, Exception):
            raise cause
        cause = cause.__context__


def keeps_link(error: Exception) -> bool:
    """Whether the link is still usable after the server's refusal."""
    if isinstance(error, OperationTimeoutError):
        return False
    if isinstance(error, ServiceBusError):
        return not getattr(error, "_shutdown_handler", True)
    return isinstance(error, ValueError | TypeError)
