"""The namespaces of the pairs: one paired client per pair and process, opened on first use."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from azure.core.exceptions import AzureError
from celery.signals import worker_init
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from dashboard.fleet.pairs.current_pairs import PairsFile
from dashboard.fleet.pairs.namespaces import paired_client
from dashboard.fleet.pairs.pairs_file import PairConfig, PairsFileError, load_pairs, require_connection_strings
from dashboard.fleet.pairs.sync import sync
from dashboard.site import database
from pairing import PairedServiceBusClient, SendAvailabilityOptions

REST_S = 5.0  # between two attempts to open a pair

log = structlog.get_logger(__name__)
_clients: dict[str, PairedServiceBusClient] = {}
_origins: dict[str, "Origin"] = {}
"""What each client was created from."""
_failed: dict[str, tuple[float, str]] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@dataclass(frozen=True, slots=True)
class Origin:
    """The configuration of a pair, and its connection strings if they can be read."""

    config: PairConfig
    strings: tuple[str, ...] | None = field(repr=False)

    @classmethod
    def of(cls, config: PairConfig) -> "Origin":
        """The present one."""
        ends = [end for end in (config.primary, config.secondary) if end.connection_string_env]
        try:
            require_connection_strings([config])
            return cls(config, tuple(end.connection_string() for end in ends))
        except ImproperlyConfigured:  # somebody is replacing a file
            return cls(config, None)

    def differs(self, present: "Origin") -> bool:
        """Whether a client from here is outdated. Strings that cannot be read now have not changed."""
        return self.config != present.config or (present.strings is not None and self.strings != present.strings)


class NotConnected(Exception):
    """The pair cannot be opened now; the text is a sentence with the reason."""


def pairs() -> dict[str, PairConfig]:
    """The configured pairs from the current file; if it is unusable, from its previous version."""
    return _file.pairs()


@worker_init.connect
def report_database(**_: object) -> None:
    """One line in the log where the database cannot be used; tasks try again."""
    database.report()


@worker_init.connect
def require_pairs(**_: object) -> None:
    """Prevent the start of a useless worker: PAIRS_FILE and the connection strings must be readable."""
    try:
        _check(pairs())
    except PairsFileError as error:
        sys.exit(f"error: {error}")


def client(pair: str) -> PairedServiceBusClient:
    """The open client of a pair; a broken or outdated one is replaced.

    Raises NotConnected, for some seconds after a failure without trying again, and for pairs that are not in the file.
    """
    with _locks[pair]:
        current, config = _clients.get(pair), pairs().get(pair)
        if current is not None and is_current(pair, current):
            return current
        if current is not None:
            del _clients[pair]
            current.close()
        if config is None:
            raise NotConnected(f"{pair} is no longer in the pairs file.")
        origin = Origin.of(config)  # before it is used: a change from now on is one
        _clients[pair] = current = _connect(config)
        _origins[pair] = origin
        return current


def is_current(pair: str, connected: PairedServiceBusClient) -> bool:
    """Whether this client is open and has the present configuration and keys; else ``client`` returns another one."""
    config, origin = pairs().get(pair), _origins.get(pair)
    if connected.state != "opened" or config is None or origin is None:
        return False
    return not origin.differs(Origin.of(config))


def forget(pair: str) -> None:
    """Close the client of a pair that is no longer in the file."""
    with _locks[pair]:
        if (current := _clients.pop(pair, None)) is not None:
            current.close()


def _check(wanted: Mapping[str, PairConfig]) -> None:
    for pair in wanted.values():
        _unopened(pair).close()


def _write_down(wanted: Mapping[str, PairConfig]) -> None:
    for gone in [name for name in _failed if name not in wanted]:
        del _failed[gone]
    for line in sync(wanted):
        log.info("pairs file", pair=line)


_file = PairsFile(lambda: settings.PAIRS_FILE, load_pairs, _check, _write_down)


def problems() -> dict[str, str]:
    """Why this process cannot serve a pair fully, by pair: it cannot be opened, or its backlog is not reachable."""
    found = {pair: text for pair, (until, text) in list(_failed.items()) if pair not in _clients}
    found |= {"pairs file": _file.problem} if _file.problem else {}
    without = "no backlog queue is reachable: check the secondary and its key."
    degraded = {pair: without for pair, one in list(_clients.items()) if not one.backlog_queue_count}
    return found | degraded


@contextmanager
def outages_reported(task: str, pair: str) -> Iterator[None]:
    """Turns an outage of a namespace during a task into one line in the log; the next tick tries again."""
    try:
        yield
    except (AzureError, NotConnected) as error:
        log.warning(
            "the task could not access the namespace", task=task, pair=pair, problem=" ".join(str(error).split())[:500]
        )


def close_all() -> None:
    """Close every client of this process."""
    for name in list(_clients):
        with _locks[name]:
            _clients.pop(name).close()


def _connect(pair: PairConfig) -> PairedServiceBusClient:
    rest_until, problem = _failed.get(pair.name, (0.0, ""))
    if time.monotonic() < rest_until:
        raise NotConnected(problem)
    try:
        return _opened(_unopened(pair))
    except (AzureError, PairsFileError) as error:
        _failed[pair.name] = (time.monotonic() + REST_S, str(error))
        raise NotConnected(str(error)) from error


def _opened(fresh: PairedServiceBusClient) -> PairedServiceBusClient:
    try:
        fresh.open()
    except BaseException:
        fresh.close()
        raise
    return fresh


def _unopened(pair: PairConfig) -> PairedServiceBusClient:
    try:
        return paired_client(pair, _options(pair))
    except ValueError as error:
        raise PairsFileError(f"[pairs.{pair.name}]: {error}.") from None


def _options(pair: PairConfig) -> SendAvailabilityOptions:
    """Workers wake each other with tasks, so the client needs no threads for pings and syphon."""
    return SendAvailabilityOptions(
        pair=pair.name,
        backlog_queue_count=pair.backlog_queue_count,
        failover_interval=pair.failover_interval,
        ping_primary_interval=pair.ping_primary_interval,
        syphon_retry_interval=pair.syphon_retry_interval,
        primary_namespace=pair.primary.namespace,
        secondary_namespace=pair.secondary.namespace,
        require_secondary=False,  # the primary is pinged even if the secondary is unavailable
        creation_retry_interval=timedelta(seconds=1),
        enable_pings=False,
        enable_syphon=False,
        coordination=settings.REDIS_URL,
    )
