"""Which errors of azure-servicebus indicate an outage, and which are errors of the caller: one table.

docs/specification.md, section 5, defines it; docs/wire.md, section 8, describes when the SDK raises them.
"""

import errno
import re
import struct
from collections.abc import Iterator
from traceback import walk_tb

from azure.core.exceptions import AzureError, ClientAuthenticationError, ResourceNotFoundError
from azure.servicebus import exceptions as sdk
from azure.servicebus.exceptions import ServiceBusError

from pairing.clock import INTERPRETER_ENDS
from pairing.errors import Fault, PairingError

TABLE: dict[type[BaseException], Fault] = {
    PairingError: Fault.OUTAGE,  # that end is closed
    sdk.OperationTimeoutError: Fault.OUTAGE,
    sdk.ServiceBusConnectionError: Fault.OUTAGE,
    sdk.ServiceBusCommunicationError: Fault.OUTAGE,
    sdk.MessagingEntityDisabledError: Fault.OUTAGE,
    sdk.ServiceBusQuotaExceededError: Fault.OUTAGE,
    sdk.ServiceBusServerBusyError: Fault.BUSY,
    sdk.ServiceBusAuthenticationError: Fault.CONFIGURATION,
    sdk.ServiceBusAuthorizationError: Fault.CONFIGURATION,
    sdk.MessageSizeExceededError: Fault.CALLER,
    sdk.MessagingEntityAlreadyExistsError: Fault.CALLER,
    sdk.MessageAlreadySettled: Fault.CALLER,
    sdk.MessageLockLostError: Fault.CALLER,
    sdk.MessageNotFoundError: Fault.CALLER,
    sdk.SessionLockLostError: Fault.CALLER,
    sdk.SessionCannotBeLockedError: Fault.CALLER,
    sdk.AutoLockRenewFailed: Fault.CALLER,
    sdk.AutoLockRenewTimeout: Fault.CALLER,
    ClientAuthenticationError: Fault.CONFIGURATION,
    ValueError: Fault.CALLER,
    TypeError: Fault.CALLER,
    TimeoutError: Fault.OUTAGE,
    OSError: Fault.OUTAGE,  # ConnectionError is one
}
"""By class, most derived first; missing entities and unspecific errors are decided below."""

CALLERS_CONDITIONS = frozenset(
    {
        "amqp:not-allowed",
        "amqp:not-implemented",
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:precondition-failed",
        "amqp:illegal-state",
        "amqp:frame-size-too-small",
        "com.microsoft:argument-error",
        "com.microsoft:argument-out-of-range",
        "com.microsoft:precondition-failed",
    }
)
"""AMQP conditions that indicate an error of the caller, in errors without a specific class."""

_GONE = "amqp:resource-deleted"
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_NO_THREAD = frozenset(
    {"can't start new thread", INTERPRETER_ENDS, "cannot schedule new futures after interpreter shutdown"}
)
CANNOT_ENCODE = (ValueError, TypeError, struct.error)
_DECODING = frozenset({"receive_frame", "_negotiate", "_connect"})
"""The functions of the SDK in which what the peer has sent is read, decoded and compared."""
_SECRETS = re.compile(r"(?i)(SharedAccessKey|SharedAccessSignature|sig|password)=[^;&\s'\"]+")
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@")


def classify(error: BaseException, *, known: bool) -> Fault:
    """The meaning of a failed send. ``known``: the entity is known to have existed, so its absence is an outage."""
    if is_own_shortage(error):
        return Fault.CALLER
    if isinstance(error, sdk.MessagingEntityNotFoundError) or condition(error) == _GONE:
        return Fault.OUTAGE if known else Fault.CALLER
    if type(error) is ServiceBusError:
        return _nameless(error)
    for class_ in type(error).__mro__:
        if class_ in TABLE:
            return TABLE[class_]
    return Fault.CALLER if isinstance(error, ServiceBusError) else Fault.OUTAGE


def _nameless(error: ServiceBusError) -> Fault:
    if _no_token(error) is not None:
        return Fault.CONFIGURATION
    return Fault.CALLER if cannot_encode(error) or condition(error) in CALLERS_CONDITIONS else Fault.OUTAGE


def is_own_shortage(error: BaseException) -> bool:
    """Whether this process is out of memory, threads or file descriptors, which is no evidence about the entity."""
    return any(
        isinstance(cause, MemoryError)
        or (isinstance(cause, OSError) and cause.errno in _SHORTAGES)
        or (isinstance(cause, RuntimeError) and str(cause) in _NO_THREAD)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised for: the SDK keeps one in an attribute, and it has a cause of its own."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = getattr(error, "inner_exception", None) or error.__cause__


def _no_token(error: BaseException) -> BaseException | None:
    """The error of the credential for which the SDK could not open a link: on a link, no other error is an HTTP one."""
    inner = getattr(error, "inner_exception", None)
    is_http = isinstance(inner, AzureError) and not isinstance(inner, ServiceBusError)
    return inner if is_http or (inner is not None and "_asked" in _functions(inner)) else None


def _functions(error: BaseException) -> set[str]:
    """The functions through which an error was raised."""
    return {frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)}


def cannot_encode(error: BaseException) -> bool:
    """Whether the message cannot be encoded; where a torn stream cannot be decoded, the SDK raises the same classes."""
    inner = getattr(error, "inner_exception", None)
    found = inner if isinstance(inner, CANNOT_ENCODE) else error
    if not isinstance(found, CANNOT_ENCODE):
        return False
    return _DECODING.isdisjoint(_functions(found))


def is_ambiguous(error: BaseException) -> bool:
    """Whether the error hides its cause: a broken or silent link, which one attempt on a new link can resolve."""
    if type(error) is ServiceBusError:
        return condition(error) is None and not cannot_encode(error)
    torn = (sdk.ServiceBusConnectionError, sdk.ServiceBusCommunicationError, sdk.OperationTimeoutError, OSError)
    return isinstance(error, torn)


def has_expired(error: BaseException) -> bool:
    """Whether the token of an open link has expired by the clock of this process, which was set or has slept."""
    return type(getattr(error, "inner_exception", None)).__name__ == "TokenExpired"


def is_gone(error: BaseException) -> bool:
    """Whether the entity was deleted, including its messages."""
    absent = (sdk.MessagingEntityNotFoundError, ResourceNotFoundError)
    return isinstance(error, absent) or condition(error) == _GONE


def may_be_gone(error: BaseException) -> bool:
    """Whether the entity may have been deleted: the service refuses its token like a wrong key."""
    return is_gone(error) or isinstance(error, sdk.ServiceBusAuthenticationError)


def condition(error: BaseException) -> str | None:
    """The AMQP condition of an error of the SDK, if it has one."""
    found = getattr(error, "_condition", None)
    value = getattr(found, "value", found)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def describe(error: BaseException) -> str:
    """The error for an operator: its class and its text, without secrets."""
    if isinstance(error, sdk.ServiceBusAuthenticationError):
        return "refused: wrong key, or no such entity"
    if isinstance(error, sdk.ServiceBusAuthorizationError):
        return "refused: a right is missing"
    if (inner := _no_token(error)) is not None:
        return f"refused: the credential gives no token: {describe(inner)}"
    text = str(error.message if isinstance(error, AzureError) else error).strip().splitlines()
    first = text[0][:300] if text else ""
    return without_secrets(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def without_secrets(text: str) -> str:
    """The text with keys, signatures and passwords masked."""
    masked = _SECRETS.sub(lambda found: f"{found[1]}=…", text)  # a template could not be read as the interpreter ends
    return _URL_PASSWORD.sub("…@", masked)
