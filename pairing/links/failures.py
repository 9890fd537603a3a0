"""Any link of the library, why an operation on one failed, and whether the link is still usable."""

from collections.abc import Callable
from traceback import walk_tb
from typing import Any, NamedTuple, Protocol

from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusConnectionError, ServiceBusError

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

    @property
    def sender(self) -> Any: ...

    def send(self, message: Any, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def attempt(self, operation: Callable[[Any, float], Any], timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def warm(self, timeout_s: float) -> Eventually[LinkFailure | None]: ...

    def maintain(self, now: float) -> Eventually[bool]: ...

    def close(self, timeout_s: float) -> Eventually[None]: ...


def opening_error(error: Exception) -> Exception:
    """An error of opening a link, converted so that it does not look like an error of the message, which was not sent
    yet.

    The SDK raises such errors if a peer behind a WebSocket does not answer.
    """
    inner = getattr(error, "inner_exception", None)
    if type(error) is not ServiceBusError or not isinstance(inner, TypeError) or is_of_credential(inner):
        return error
    torn = ServiceBusConnectionError(message=f"The link did not open: {error.message}")
    torn.__cause__ = error
    return torn


def is_of_credential(error: BaseException) -> bool:
    """Whether the credential raised it, or its SDK, instead of giving a token."""
    return any(frame.f_code.co_name == "get_token" for frame, _ in walk_tb(error.__traceback__))


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
