"""Clients of the Redis that a URL names: one server, or the master that Sentinels name.

``redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/MASTER/DATABASE`` lists Sentinels; with ``rediss+sentinel://``,
all connections use TLS. The user, the password and the options of redis-py after ``?`` are those of the servers;
``sentinel_username`` and ``sentinel_password`` are those of the Sentinels. Each new connection asks the Sentinels for
the current master, so that clients follow a failover.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
from redis.client import Pipeline
from redis.connection import ConnectionPool, parse_url
from redis.exceptions import ResponseError
from redis.sentinel import Sentinel, SentinelConnectionPool

SENTINEL_PORT = 26379
_MARK = "+sentinel"
_ANSWER_S = 0.5  # a client that asks a Sentinel in vain still has time to ask the next one
_OF_SENTINELS = ("sentinel_username", "sentinel_password")


class NamedRedis(redis.Redis):
    """redis-py's client; its error about a value of another type names the key."""

    _is_closed = False

    def close(self) -> None:
        """Close its connections, also under threads that wait for an answer: they get redis.ConnectionError."""
        self._is_closed = True
        super().close()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with self.answering(args):
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> "NamedPipeline":
        """Pipelines of this kind."""
        made = NamedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.owner = self
        return made

    @contextmanager
    def answering(self, command: tuple[Any, ...] = ()) -> Iterator[None]:
        """Name the keys of a command that Redis refuses, and what redis-py raises where close() took its buffer."""
        try:
            yield
        except ResponseError as error:
            raise type(error)(f"{error} ({', '.join(map(str, _keys(command)))})") from None
        except (AttributeError, ValueError) as error:
            if not self._is_closed:
                raise
            raise redis.ConnectionError("The client was closed before Redis answered.") from error


class NamedPipeline(Pipeline):
    """Its own error names the command with its key."""

    owner: NamedRedis

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with self.owner.answering():
            return super().execute(raise_on_error)


def _keys(command: tuple[Any, ...]) -> tuple[Any, ...]:
    """The keys of a command, or of a script."""
    if command[:1] in (("EVAL",), ("EVALSHA",)):
        return command[3 : 3 + int(command[2])]
    return command[1:2]


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The Sentinels of a URL, and how to connect to the master they name."""

    addresses: tuple[tuple[str, int], ...]
    master: str
    of_servers: dict[str, Any]
    """redis-py's arguments for connections to servers."""
    of_sentinels: dict[str, Any]

    @classmethod
    def from_url(cls, url: str) -> "Sentinels":
        """Parse a URL; ValueError, without the URL, if it is not complete."""
        parts = urlsplit(url)
        credentials, _, hosts = parts.netloc.rpartition("@")
        master, _, database = parts.path.strip("/").partition("/")
        if not master or not (not database or database.isdigit()):
            raise ValueError("the path is not the name of a master and the number of a database")
        query = dict(parse_qsl(parts.query))
        own = {name.removeprefix("sentinel_"): query.pop(name) for name in _OF_SENTINELS if name in query}
        scheme = parts.scheme.removesuffix(_MARK)
        server = f"{scheme}://{credentials}@server/{database}?{urlencode(query)}"
        of_servers = dict(parse_url(server))  # type: ignore[no-untyped-call]
        for name in ("host", "connection_class"):
            of_servers.pop(name, None)
        encryption = {name: value for name, value in of_servers.items() if name.startswith("ssl_")}
        if scheme == "rediss":
            encryption["ssl"] = of_servers["ssl"] = True
        return cls(tuple(map(_address, hosts.split(","))), master, of_servers, own | encryption)

    def pool(self, **options: Any) -> ConnectionPool:
        """A pool of connections to the master."""
        sentinel = Sentinel(self.addresses, **self._asking())  # type: ignore[no-untyped-call]
        return SentinelConnectionPool(self.master, sentinel, **{**options, **self.of_servers})  # type: ignore[no-untyped-call]

    def async_client(self) -> redis.asyncio.Redis:
        """A client for asyncio, of the master."""
        sentinel = redis.asyncio.sentinel.Sentinel(self.addresses, **self._asking())  # type: ignore[no-untyped-call]
        client: redis.asyncio.Redis = sentinel.master_for(self.master, **self.of_servers)
        return client

    def _asking(self) -> dict[str, Any]:
        limits = {"socket_timeout": _ANSWER_S, "socket_connect_timeout": _ANSWER_S}
        return {"sentinel_kwargs": {**self.of_sentinels, **limits}}


def names_sentinels(url: str) -> bool:
    """Whether the URL lists Sentinels."""
    return urlsplit(url).scheme.endswith(_MARK)


def client_of(url: str, **options: Any) -> NamedRedis:
    """A client, which connects on first use. ValueError or an error of redis-py for a wrong URL."""
    if not names_sentinels(url):
        return cast(NamedRedis, NamedRedis.from_url(url, **options))
    return cast(NamedRedis, NamedRedis.from_pool(Sentinels.from_url(url).pool(**options)))


def async_client_of(url: str) -> redis.asyncio.Redis:
    """A client for asyncio."""
    if not names_sentinels(url):
        return redis.asyncio.Redis.from_url(url)
    return Sentinels.from_url(url).async_client()


def _address(text: str) -> tuple[str, int]:
    """Host and port of one Sentinel; ValueError if there is no host."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a Sentinel has no host")
    return parts.hostname, parts.port or SENTINEL_PORT
