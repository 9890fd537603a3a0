"""The options of a pair, validated when created, so that an invalid one is found before an outage."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import iscoroutinefunction, signature
from typing import Any, Literal


def _most_links() -> int:
    with suppress(ImportError):  # Windows has no such limit
        import resource

        limit: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return min(200, limit // 4) if limit > 0 else 200
    return 200


MOST_LINKS = _most_links()
"""How many links of one kind (to backlog queues, to destinations, of pings) are open at once: at most a quarter of the
file descriptors."""
_ZERO = timedelta(0)
_INSTANT = timedelta(microseconds=1)
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://", "redis+sentinel://", "rediss+sentinel://")

_DURATIONS: dict[str, tuple[timedelta, timedelta]] = {
    "failover_interval": (_ZERO, timedelta(minutes=60)),
    "ping_primary_interval": (timedelta(seconds=1), timedelta(minutes=30)),
    "syphon_retry_interval": (timedelta(seconds=1), timedelta(minutes=2)),
    "send_timeout": (_INSTANT, timedelta(hours=1)),
    "ping_timeout": (_INSTANT, timedelta(minutes=30)),
    "creation_retry_interval": (_ZERO, timedelta(minutes=30)),
    "backlog_probation": (_INSTANT, timedelta(minutes=30)),
    "close_grace": (_ZERO, timedelta(minutes=1)),
}
_FLAGS = ("enable_syphon", "enable_pings", "require_headroom", "require_secondary", "flap_damping")
_CHOICES = {"ttl_policy": ("restore", "remaining"), "server_busy": ("raise", "wait")}
_NAMES = ("primary_namespace", "secondary_namespace", "pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAvailabilityOptions:
    """The behaviour of a pair. Keyword-only; an invalid value raises a ValueError that names option and value."""

    backlog_queue_count: int = 10
    """Backlog queues in the secondary namespace, at least 1."""
    failover_interval: timedelta = timedelta(minutes=1)
    """How long an entity may fail before its sends go to the backlog; 0: at the first failure."""
    ping_primary_interval: timedelta = timedelta(minutes=1)
    """Time between two pings of a failed-over entity, 1 s to 30 min."""
    enable_syphon: bool = False
    """Whether this process drains the backlog: False in senders, True in receivers."""
    primary_namespace: str | None = None
    """Name of the primary if its host does not contain it (127.0.0.1, localhost)."""
    secondary_namespace: str | None = None
    """Name of the secondary if its host does not contain it; None: requested from the namespace on opening."""
    send_timeout: timedelta = timedelta(seconds=30)
    """Default timeout of a send in total, including the fallback to the backlog."""
    syphon_retry_interval: timedelta = timedelta(seconds=1)
    """Pause between two runs of the syphon on one backlog queue, 1 s to 2 min."""
    require_headroom: bool = True
    """Reject messages that would not fit a backlog queue after rewriting, even while the entity is healthy."""
    require_secondary: bool = True
    """Fail to open if the secondary is unreachable; False: open without a backlog and keep trying."""
    ttl_policy: Literal["restore", "remaining"] = "restore"
    """The time-to-live of a drained message: in full, or reduced by the time in the backlog."""
    max_restore_attempts: int = 10
    """Rejections by the destination after which the syphon dead-letters a message."""
    max_rate: float | None = None
    """Maximum messages per second that the syphon sends to one destination; None: no limit."""
    preserve_session_order: bool = False
    """New messages of a session follow its messages in the backlog, in all processes; needs ``coordination``."""
    flap_damping: bool = True
    """Ping an entity that fails again soon after its recovery at growing intervals."""
    creation_retry_interval: timedelta = timedelta(seconds=30)
    """Pause between the three attempts to create the backlog queues."""
    ping_timeout: timedelta = timedelta(minutes=2)
    """Timeout of a ping."""
    backlog_probation: timedelta = timedelta(minutes=1)
    """How long a failed backlog queue stays out of the rotation; doubled each time, up to 30 min."""
    close_grace: timedelta = timedelta(seconds=5)
    """How long closing waits for operations in progress."""
    classify: Callable[..., Any] | None = None
    """Replaces ``pairing.classify``: takes an error and whether the entity is known, returns a ``Fault``."""
    coordination: str | None = field(default=None, repr=False)
    """Redis URL through which the processes of a fleet share health; None: each decides alone."""
    server_busy: Literal["raise", "wait"] = "raise"
    """How a send handles a busy server: an error with ``retry_after``, or waiting within the timeout."""
    pair: str | None = None
    """Name of the pair; None: the primary namespace's."""
    enable_pings: bool = True
    """Whether this client pings failed-over entities itself; False if a worker calls ``ping_due``."""
    tracing: bool | None = None
    """Whether to trace sends and drains with OpenTelemetry; None: if ``OTEL_…`` variables name an exporter."""

    def __post_init__(self) -> None:
        for name, (low, high) in _DURATIONS.items():
            self._check(name, f"must be a timedelta from {low} to {high}", _duration(low, high))
        for name in (*_FLAGS, "preserve_session_order"):
            self._check(name, "must be True or False", lambda value: isinstance(value, bool))
        for name, allowed in _CHOICES.items():
            self._check(name, f"must be one of {', '.join(allowed)}", allowed.__contains__)
        self._check("tracing", "must be True, False or None", lambda value: value is None or isinstance(value, bool))
        for name in _NAMES:
            self._check(name, "must be a non-empty name or None", _is_name)
        for name in ("backlog_queue_count", "max_restore_attempts"):
            self._check(name, "must be a whole number, at least 1", _is_count)
        self._check("max_rate", "must be a positive number or None", _is_rate)
        self._check("classify", "must be a function (error, *, known) or None", _is_rule)
        if not _is_redis_url(self.coordination):  # the value may contain a password, so it is not repeated
            raise ValueError(f"coordination must be a Redis URL ({', '.join(_REDIS_SCHEMES)}) or None")

    def _check(self, name: str, rule: str, holds: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if not holds(value):
            raise ValueError(f"{name} {rule}, not {value!r}")


def _duration(low: timedelta, high: timedelta) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, timedelta) and low <= value <= high


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_rate(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


def _is_rule(value: Any) -> bool:
    if value is None:
        return True
    if not callable(value) or iscoroutinefunction(value):
        return False
    try:
        signature(value).bind(Exception(), known=True)
    except TypeError:
        return False
    except ValueError:  # some functions that are not in Python do not show their arguments
        pass
    return True


def _is_name(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() == value != "")


def _is_redis_url(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.startswith(_REDIS_SCHEMES))
