"""Redis clients that continue if another program has stored a different value under one of our keys.

A command on a value of another type fails, and would fail permanently. Here the value is renamed to ``<key>:set-aside``
for a week, the log reports it once a minute per key, and the command is repeated. Keys that are not in the table are
not touched.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import redis
from redis.client import Pipeline
from redis.exceptions import ResponseError

from pairing.fleet.keys import PAIRING, SET_ASIDE, Keys
from pairing.fleet.scripts import script
from pairing.stored_json import hash_of, number, readable, reading, record, text

KEPT_MS = 7 * 24 * 3_600_000
_SUFFIX = ":set-aside"
_LOGGED_AGAIN_S = 60.0
_MOST_LOGGED = 1_000
_MOST_BARRIERS = 1_000
_REPAIRS = 2  # a key of another type and an exhausted stream are two errors
_WRONG = ("WRONGTYPE", "is not an integer", "is not a valid float")
_EXHAUSTED = "exhausted the last possible ID"
_SCRIPT = script("pairing.fleet", "clock", "set_aside")
_LOGGER = logging.getLogger("pairing")
_logged: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class SetAside:
    """A value that another program has stored."""

    found: str
    """Its type."""
    at: datetime
    """By Redis's clock."""

    @classmethod
    def from_json(cls, written: str | bytes) -> "SetAside":
        """Parse the output of the script; ValueError for other texts."""
        with reading("a record of what was set aside"):
            fields = record(written)
            return cls(text(fields, "found"), datetime.fromtimestamp(number(fields, "at") / 1000, UTC))


class CheckedRedis(redis.Redis):
    """redis-py's client, for the keys of a table."""

    keys_of: ClassVar[Keys] = Keys(PAIRING)
    _is_closed = False

    def close(self) -> None:
        """Close its connections, also under threads that wait for an answer: they get redis.ConnectionError."""
        self._is_closed = True
        super().close()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        with self.closed_as_unreachable():
            return self._execute_checked(*args, **options)

    @contextmanager
    def closed_as_unreachable(self) -> Iterator[None]:
        """Raise redis.ConnectionError for what redis-py raises where its buffer is taken from it by close()."""
        try:
            yield
        except (AttributeError, ValueError) as error:
            if not self._is_closed:
                raise
            raise redis.ConnectionError("The client was closed before Redis answered.") from error

    def _execute_checked(self, *args: Any, **options: Any) -> Any:
        for _ in range(_REPAIRS):
            try:
                return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except ResponseError as error:
                if not set_aside(self, self.keys_of, args, error):
                    raise
        return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> "CheckedPipeline":
        """Pipelines of this kind."""
        made = CheckedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.owner = self
        return made


class CheckedPipeline(Pipeline):
    """Executed again as a whole if one of its commands met another type; all of them can be repeated."""

    owner: CheckedRedis

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with self.owner.closed_as_unreachable():
            return self._execute_checked(raise_on_error)

    def _execute_checked(self, raise_on_error: bool) -> list[Any]:
        stack, scripts, is_watching = self.command_stack, set(self.scripts), self.watching
        for _ in range(_REPAIRS):
            try:
                return super().execute(raise_on_error)
            except ResponseError as error:
                arguments = [argument for command, _ in stack for argument in command]
                if not set_aside(self.owner, self.owner.keys_of, arguments, error) or is_watching:
                    raise
                self.command_stack, self.scripts = stack, set(scripts)
        return super().execute(raise_on_error)


def set_aside(client: redis.Redis, keys: Keys, arguments: Iterable[Any], error: ResponseError) -> bool:
    """Whether the command failed because of foreign values and should be repeated; they are renamed now."""
    is_exhausted = _EXHAUSTED in str(error)
    if not (is_exhausted or any(sign in str(error) for sign in _WRONG)):
        return False
    suspects = keys.among(arguments)
    found = _moved(client, suspects | _barriers(client, suspects, keys), is_exhausted)
    for key, kind in found.items():
        _log(key, kind, suspects.get(key, "hash"))
    return bool(suspects)


def _moved(client: redis.Redis, suspects: Mapping[str, str], is_exhausted: bool) -> dict[str, str]:
    """The suspects that were set aside, with their types."""
    found = {}
    for key, kind in suspects.items():
        arguments = (_SCRIPT, 3, key, key + _SUFFIX, SET_ASIDE, kind, KEPT_MS, int(is_exhausted))
        was: Any = redis.Redis.execute_command(client, "EVAL", *arguments)  # type: ignore[no-untyped-call]
        if was:
            found[key] = was if isinstance(was, str) else was.decode(errors="replace")
    return found


def _barriers(client: redis.Redis, suspects: Iterable[str], keys: Keys) -> dict[str, str]:
    """The barriers of sessions, whose keys scripts build from a prefix."""
    pairs = {key.partition("}")[0] for key in suspects if "}:session-" in key}
    if not pairs:
        return {}
    pattern = f"{_literal(pairs.pop())}}}:sessions:*"
    found = (key for key, _ in zip(client.scan_iter(pattern, count=1000), range(_MOST_BARRIERS), strict=False))
    return keys.among(key for key in found if not str(key).endswith(_SUFFIX))


def _literal(prefix: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in prefix)


def _log(key: str, found: str, kind: str) -> None:
    now = time.monotonic()
    if now - _logged.get(key, float("-inf")) < _LOGGED_AGAIN_S:
        return
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged[key] = now
    _LOGGER.error(
        "pairing: %s in Redis was a %s and should be a %s; it was renamed to %s", key[:300], found, kind, key + _SUFFIX
    )


def lately_set_aside(client: Any, within_s: float) -> dict[str, SetAside]:
    """What was set aside in the last ``within_s`` seconds, by key. Raises the errors of redis-py."""
    now_s, _ = client.time()
    found = readable(SET_ASIDE, hash_of(client, SET_ASIDE), SetAside.from_json)
    return {key: one for key, one in found.items() if abs(now_s - one.at.timestamp()) <= within_s}
