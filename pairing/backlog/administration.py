"""The backlog queues of a secondary namespace: listing, creation and properties; and plain HTTP for emulators.

Pairing is an operation, like sending (docs/specification.md, section 4): the clients supply the requests.
"""

import binascii
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from azure.core.exceptions import ClientAuthenticationError, DecodeError, HttpResponseError, ResourceExistsError
from azure.core.paging import ItemPaged
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import QueueProperties, QueueRuntimeProperties, ServiceBusAdministrationClient

from pairing.backlog.rotation import backlog_path, parse_backlog_path
from pairing.drive import Operation
from pairing.errors import BacklogCreationError
from pairing.health.faults import describe

FOREVER = "P10675199DT2H48M5.4775807S"
"""TimeSpan.MaxValue, as the service writes it."""

CREATED_WITH: Mapping[str, Any] = {
    "max_size_in_megabytes": 5120,
    "max_delivery_count": 2147483647,
    "default_message_time_to_live": FOREVER,
    "auto_delete_on_idle": FOREVER,
    "lock_duration": timedelta(minutes=1),
    "dead_lettering_on_message_expiration": True,
    "enable_batched_operations": True,
}
"""The properties that a backlog queue is created with; all others have their defaults."""

_DEFAULTS: Mapping[str, Any] = {
    "requires_session": False,
    "requires_duplicate_detection": False,
    "enable_partitioning": False,
    "forward_to": None,
    "status": "Active",
}
TRIES = 3
_FOREVER_DAYS = 10675199
PAGE = 100
MOST_PAGES = 500
"""The limit of a list: five times the limit of a namespace."""
_NONSENSE = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(RecursionError, SyntaxError),  # XML that cannot be parsed is the latter
)


# Pairing ------------------------------------------------------------------------------------------------------------


class Administration(Protocol):
    """The requests to the secondary namespace."""

    def list_queues(self) -> Operation[list[QueueProperties]]: ...

    def create_queue(self, path: str) -> Operation[None]: ...

    def pause(self, seconds: float, reason: str) -> Operation[None]: ...


@dataclass(slots=True)
class Paired:
    """The result of pairing."""

    paths: list[str] = field(default_factory=list)
    """The backlog queues with an index below the configured count, by index."""
    deviating: dict[str, dict[str, tuple[Any, Any]]] = field(default_factory=dict)
    """Path → property → (expected, actual) of queues with deviating properties."""
    missing: dict[str, Exception] = field(default_factory=dict)
    """Why a queue does not exist and could not be created."""


def find_or_create(
    administration: Administration,
    namespace: str,
    primary_namespace: str,
    count: int,
    *,
    pause_s: float,
    tries: int = TRIES,
) -> Operation[Paired]:
    """Find the backlog queues and create the missing ones, in three attempts; BacklogCreationError if there is none.

    ``namespace`` is the secondary's name, for the error. ``tries``: 1 if the caller tries again later.
    """
    paths = [backlog_path(primary_namespace, index) for index in range(count)]
    found: dict[str, QueueProperties] | None = None
    created: set[str] = set()
    failures: dict[str, Exception] = {}
    unreachable: Exception | None = None
    for attempt in range(tries):
        if attempt:
            reason = str(_refused(namespace, unreachable or next(iter(failures.values()), None)))
            yield from administration.pause(pause_s, reason)
        if found is None:
            try:
                found = _named((yield from administration.list_queues()), paths)
            except Exception as error:
                unreachable = error
                if is_unauthorized(error):
                    break
                continue
        missing = [path for path in paths if path not in found and path not in created]
        failures = yield from _create(administration, missing, created)
        if not failures or any(map(is_unauthorized, failures.values())):
            break
    if found is None or not (created or found):
        raise _refused(namespace, unreachable or next(iter(failures.values()), None))
    present = [path for path in paths if path in found or path in created]
    deviating = {path: different for path, queue in found.items() if (different := deviations(queue))}
    return Paired(present, deviating, failures)


def _named(queues: Iterable[QueueProperties], paths: list[str]) -> dict[str, QueueProperties]:
    by_name = {queue.name.lower(): queue for queue in queues}  # the service ignores case
    return {path: by_name[path.lower()] for path in paths if path.lower() in by_name}


def _create(
    administration: Administration, missing: Iterable[str], created: set[str]
) -> Operation[dict[str, Exception]]:
    failures: dict[str, Exception] = {}
    for path in missing:
        try:
            yield from administration.create_queue(path)
        except ResourceExistsError:  # another process was faster
            created.add(path)
        except Exception as error:
            failures[path] = error
            if is_unauthorized(error):
                break
        else:
            created.add(path)
    return failures


def is_unauthorized(error: Exception) -> bool:
    """Whether retrying cannot help: the key is wrong, or the Manage claim is missing."""
    return isinstance(error, ClientAuthenticationError) or getattr(error, "status_code", None) in (401, 403)


def _refused(namespace: str, error: Exception | None) -> BacklogCreationError:
    if error is None:
        reason = "it has no backlog queue and none was created"
    elif is_unauthorized(error):
        reason = "it refuses the credentials: the key must be right and have the Manage claim"
    elif isinstance(error, DecodeError):
        reason = f"its answer is not that of a Service Bus namespace: {describe(error)}"
    elif isinstance(error, HttpResponseError):
        reason = f"it refuses to list or create backlog queues: {describe(error)}"
    else:
        reason = f"it cannot be reached: {describe(error)}"
    failed = BacklogCreationError(f"secondary namespace {namespace}: {reason}")
    failed.__cause__ = error
    return failed


def deviations(queue: QueueProperties) -> dict[str, tuple[Any, Any]]:
    """Property → (expected, actual) if a backlog queue differs from the queues that this library creates."""
    found = {}
    for name, expected in {**CREATED_WITH, **_DEFAULTS}.items():
        actual = getattr(queue, name, None)
        if not _equal(expected, getattr(actual, "value", actual)):
            found[name] = (expected, actual)
    return found


def _equal(expected: Any, actual: Any) -> bool:
    if expected == FOREVER:
        return is_forever(actual)
    return bool(expected == actual) or (expected is False and actual is None)


def is_forever(duration: timedelta | str | None) -> bool:
    """Whether a duration means "never": the largest one of the service, which the SDK does not return exactly."""
    if isinstance(duration, timedelta):
        return duration.days >= _FOREVER_DAYS
    return isinstance(duration, str) and duration.startswith(f"P{_FOREVER_DAYS}D")


# Reading ------------------------------------------------------------------------------------------------------------


Q = TypeVar("Q", QueueProperties, QueueRuntimeProperties)


@contextmanager
def understood() -> Iterator[None]:
    """DecodeError, which is an error of azure.core, where the SDK cannot read what the namespace has answered."""
    try:
        yield
    except binascii.Error:  # the key in the connection string: nothing was answered yet
        raise
    except _NONSENSE as error:
        raise DecodeError(message=f"the answer is malformed ({type(error).__name__})") from error


def listed(queues: ItemPaged[Q]) -> list[Q]:
    """All queues of a list; raises the SDK's errors, DecodeError for an answer that makes no sense or never ends."""
    found: list[Q] = []
    with understood():
        pages = queues.by_page()
        for number, page in enumerate(pages):
            found += checked(list(page), number, pages)
    return found


def checked(page: list[Q], number: int, pages: object) -> list[Q]:
    """One page of a list, counted from 0; ValueError where it is no page of one, has no end or lists the nameless."""
    root = getattr(getattr(pages, "_response", None), "tag", "feed")  # the SDK takes any XML for an empty list
    if not root.endswith("feed") or number >= MOST_PAGES or not all(isinstance(item.name, str) for item in page):
        raise ValueError("not a list, an endless list, or a list of entries without a name")
    return page


# Describing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BacklogQueueInfo:
    """One backlog queue as its namespace describes it now."""

    path: str
    index: int
    active: int
    scheduled: int
    dead_lettered: int
    transfer: int
    transfer_dead_lettered: int
    size_bytes: int
    max_size_bytes: int
    status: str
    created_at: datetime | None
    accessed_at: datetime | None
    deviations: Mapping[str, tuple[Any, Any]]


def backlog_queues(admin: ServiceBusAdministrationClient, primary_namespace: str) -> list[BacklogQueueInfo]:
    """All backlog queues of a primary in the namespace of ``admin``, orphans included, by index."""
    described = {queue.name: queue for queue in listed(admin.list_queues())}
    return describe_queues(described, listed(admin.list_queues_runtime_properties()), primary_namespace)


def describe_queues(
    described: Mapping[str, QueueProperties], counted: Iterable[QueueRuntimeProperties], primary_namespace: str
) -> list[BacklogQueueInfo]:
    """A primary's backlog queues, from two lists of a namespace: properties and counts."""
    infos = []
    for counts in counted:
        parsed = parse_backlog_path(counts.name)
        if parsed and parsed[0].lower() == primary_namespace.lower() and counts.name in described:
            infos.append(_info(described[counts.name], counts, parsed[1]))
    return sorted(infos, key=lambda info: info.index)


def _info(queue: QueueProperties, counts: QueueRuntimeProperties, index: int) -> BacklogQueueInfo:
    status = queue.status
    return BacklogQueueInfo(
        path=counts.name,
        index=index,
        active=counts.active_message_count or 0,
        scheduled=counts.scheduled_message_count or 0,
        dead_lettered=counts.dead_letter_message_count or 0,
        transfer=counts.transfer_message_count or 0,
        transfer_dead_lettered=counts.transfer_dead_letter_message_count or 0,
        size_bytes=counts.size_in_bytes or 0,
        max_size_bytes=(queue.max_size_in_megabytes or 0) * 1024 * 1024,
        status=str(getattr(status, "value", status)),
        created_at=counts.created_at_utc,
        accessed_at=counts.accessed_at_utc,
        deviations=deviations(queue),
    )


# Plain HTTP ---------------------------------------------------------------------------------------------------------


class PlainHttpTransport(RequestsTransport):  # type: ignore[misc]  # azure.core resolves the name lazily
    """Sends over plain HTTP what an administration client addresses to HTTPS: emulators have no certificate."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"use_env_settings": False} | kwargs)  # no proxy of the environment on the way to loopback

    def send(self, request: Any, **kwargs: Any) -> Any:
        """The answer to ``request``, whose address is https again afterwards: retries check it."""
        addressed, request.url = request.url, plain(request.url)
        try:
            return super().send(request, **kwargs)
        finally:
            request.url = addressed


def plain(url: str) -> str:
    """The address over plain HTTP."""
    return url.replace("https://", "http://", 1)


def emulator_transport(**keywords: Any) -> PlainHttpTransport:
    """The ``transport=`` that lets a ServiceBusAdministrationClient of your own reach an emulator.

    ``keywords`` are the transport's own, such as ``read_timeout``: the client does not pass its own on.
    """
    return PlainHttpTransport(**keywords)
