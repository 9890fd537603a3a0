"""The namespaces of the pairs, one paired client for each pair and process, opened when first needed."""

import threading
from collections import defaultdict
from datetime import timedelta
from functools import lru_cache

from django.conf import settings

from dashboard.pairs import PairConfig, PairsFileError, load_pairs
from pairing import PairedServiceBusClient, SendAvailabilityOptions

_clients: dict[str, PairedServiceBusClient] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@lru_cache(maxsize=1)
def pairs() -> dict[str, PairConfig]:
    """The configured pairs, as they were when this process first asked."""
    return load_pairs()


def client(pair: str) -> PairedServiceBusClient:
    """The open client of a pair; a broken one is replaced. Raises what opening raises."""
    with _locks[pair]:
        current = _clients.get(pair)
        if current is None or current.state != "opened":
            if current is not None:
                current.close()
            _clients[pair] = current = _connect(pairs()[pair])
        return current


def close_all() -> None:
    """Closes every client of this process."""
    for name in list(_clients):
        with _locks[name]:
            _clients.pop(name).close()


def _connect(pair: PairConfig) -> PairedServiceBusClient:
    fresh = _unopened(pair)
    try:
        fresh.open()
    except BaseException:
        fresh.close()
        raise
    return fresh


def _unopened(pair: PairConfig) -> PairedServiceBusClient:
    primary, secondary = pair.primary, pair.secondary
    if primary.connection_string_env and secondary.connection_string_env:
        strings = primary.connection_string(), secondary.connection_string()
        return PairedServiceBusClient.from_connection_string(*strings, options=_options(pair))
    if primary.fully_qualified_namespace and secondary.fully_qualified_namespace:
        from azure.identity import DefaultAzureCredential

        hosts = primary.fully_qualified_namespace, secondary.fully_qualified_namespace
        return PairedServiceBusClient(*hosts, DefaultAzureCredential(), options=_options(pair))
    raise PairsFileError(
        f"[pairs.{pair.name}]: give both namespaces a connection_string_env, or both a fully_qualified_namespace."
    )


def _options(pair: PairConfig) -> SendAvailabilityOptions:
    """Workers wake each other by tasks, so the client has no threads of its own for pings and syphon."""
    return SendAvailabilityOptions(
        pair=pair.name,
        backlog_queue_count=pair.backlog_queue_count,
        failover_interval=pair.failover_interval,
        ping_primary_interval=pair.ping_primary_interval,
        syphon_retry_interval=pair.syphon_retry_interval,
        primary_namespace=pair.primary.namespace,
        secondary_namespace=pair.secondary.namespace,
        require_secondary=False,  # the primary is pinged also while the secondary is away
        creation_retry_interval=timedelta(seconds=1),
        enable_pings=False,
        enable_syphon=False,
        coordination=settings.REDIS_URL,
    )
