"""The state that the processes of a fleet share through Redis: thin and blocking, raising the errors of redis-py.

Each change of an entity's health is one script, so that the rules of precedence (docs/specification.md, section 11)
hold in any order of arrival: forced beats organic, of two of a kind the higher version wins, and successful sends of a
process never end a failover. Versions and fencing tokens follow Redis's clock if it is ahead of the last one, so that
they keep increasing after Redis was restarted empty.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast
from uuid import uuid4

import redis

from pairing.events import Event
from pairing.fleet.scripts import script
from pairing.fleet.shared_health import Pace, Pause, PingRecord, SharedHealth
from pairing.stored_json import as_text, fields_of, hash_of, number, readable, reading, record, texts
from pairing.telemetry.metering import UsageRecord

EVENTS = "pairing:events"
USAGE = "pairing:usage"
Verb = Literal["fail_over", "hold", "release", "mark_healthy"]
_STEPS: dict[Verb, str] = {"fail_over": "publish", "hold": "hold", "release": "release", "mark_healthy": "mark_healthy"}
_Arguments = list[bytes | bytearray | memoryview | str | int | float]
_MOST_ENTRIES = 1_000_000  # of a stream nobody reads
_FORGOTTEN_S = 3600.0
_MOST_CHANGES = 2**53  # what scripts count exactly

_ROOM = "pairing.fleet"
_CHANGE = script(_ROOM, "clock", "whole", "record", "change_health")
_CLAIM = script(_ROOM, "clock", "claim_ping")
_RECORD_PING = script(_ROOM, "whole", "record", "record_ping")
_ACQUIRE = script(_ROOM, "clock", "whole", "acquire_lease")
_RENEW = script(_ROOM, "renew_lease")
_RELEASE = script(_ROOM, "release_lease")
_ROTATE = script(_ROOM, "clock", "report_rotation")
_KEEP_LEDGER = script(_ROOM, "whole", "keep_ledger")


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a reader of health has come."""

    latest: int
    """The number of the last change it knows."""
    born: str
    """Since when this Redis remembers: another one has forgotten what came before."""


@dataclass(frozen=True, slots=True)
class News:
    """What a reader of health did not know."""

    texts: dict[str, str]
    """JSON of SharedHealth by path."""
    seen: Seen
    is_everything: bool = False
    """Whether what is not among the texts is not in Redis."""
    has_forgotten: bool = False
    """Whether Redis was emptied since the reader looked last."""


class SharedState:
    """One pair's share of Redis: health, pings, pauses and leases; and the streams of all pairs.

    Blocking; every call may raise ``redis.RedisError``. Names are as in docs/design/coordination.md.
    """

    def __init__(self, client: redis.Redis, pair: str) -> None:
        self.redis, self.pair = client, pair
        self._prefix = f"pairing:{{{pair}}}:"
        self.channel = self._key("health")
        self._change = client.register_script(_CHANGE)
        self._claim = client.register_script(_CLAIM)
        self._record_ping = client.register_script(_RECORD_PING)
        self._acquire = client.register_script(_ACQUIRE)
        self._keep_ledger = client.register_script(_KEEP_LEDGER)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)
        self._rotate = client.register_script(_ROTATE)

    # Health --------------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, SharedHealth]:
        """What is known of each entity that ever failed, by path; what cannot be read hides no other entity."""
        return readable(self.channel, self._hash("health"), SharedHealth.from_json)

    def health_of(self, path: str) -> SharedHealth | None:
        """What is known of one entity; None where nothing is, or nothing that can be read."""
        return readable(self.channel, fields_of(self.redis, self.channel, [path]), SharedHealth.from_json).get(path)

    def news(self, known: Seen | None) -> News:
        """The health that changed since ``known``; all of it where that is None, or Redis was emptied since.

        Two keys show that nothing changed; so looking often costs next to nothing, however many entities there are.
        Whoever looks first at an empty Redis gives it its mark, by which all see when it is emptied again.
        """
        with self.redis.pipeline(transaction=False) as pipeline:
            pipeline.set(self._key("born"), uuid4().hex, nx=True)
            pipeline.get(self._key("latest"))
            pipeline.get(self._key("born"))  # not MGET, which calls a value of another type missing
            _, latest, born = pipeline.execute()
        seen = Seen(_count(latest), as_text(born or ""))  # another process may have set it aside
        if known is None or known.born != seen.born:
            return News(self._hash("health"), seen, is_everything=True, has_forgotten=known is not None)
        if known == seen:
            return News({}, seen)
        paths = cast("list[Any]", self.redis.zrangebyscore(self._key("changed"), f"({known.latest}", "+inf"))
        return News(fields_of(self.redis, self.channel, list(map(as_text, paths))), seen)

    def fail_over(
        self,
        path: str,
        reason: str,
        *,
        operator: str,
        process: str,
        hold: bool = True,
        expires: datetime | None = None,
    ) -> SharedHealth:
        """Fails the entity over by an operator's decision; ``hold`` keeps it so until released or ``expires``."""
        held_by = operator if hold else None
        forced = self._forced(path, "failed_over", reason, process, held_by, expires if hold else None)
        return self._after("publish", forced)

    def hold(self, path: str, *, operator: str, process: str, expires: datetime | None = None) -> SharedHealth:
        """Keeps a failed-over entity from returning by itself, from now on until ``expires``, whatever was its end.

        Any other stays as it is. Returns what is true then.
        """
        return self._after("hold", self._of_verb("hold", path, "", operator, process, expires))

    def release(self, path: str, *, operator: str, process: str) -> SharedHealth:
        """Ends a hold: the entity stays failed over and a ping is due at once. Returns what is true then."""
        return self._after("release", self._of_verb("release", path, "", operator, process, None))

    def mark_healthy(self, path: str, *, operator: str, process: str) -> SharedHealth:
        """Ends hold and failover together. Returns what is true then."""
        return self._after("mark_healthy", self._of_verb("mark_healthy", path, "", operator, process, None))

    def of_several(
        self,
        verb: Verb,
        paths: Iterable[str],
        *,
        operator: str,
        process: str,
        reason: str = "",
        expires: datetime | None = None,
        events: Mapping[str, Event] | None = None,
    ) -> list[SharedHealth]:
        """The verb for each of these entities, in one transaction; a failover is held. What is true of each then.

        Right behind the change of a path its event among ``events`` is reported. Who dies or is cut off before the end
        has changed none of them and reported none; an error may hide an answer that was on its way.
        """
        requested = [self._of_verb(verb, path, reason, operator, process, expires) for path in paths]
        with self.redis.pipeline(transaction=True) as pipeline:
            for change in requested:
                self._send(_STEPS[verb], change, pipeline)
                if events:
                    _add(pipeline, EVENTS, "event", events[change.path].to_json())
            answers = pipeline.execute()
        changes = answers[:: 2 if events else 1]
        return [self._result(change, text) for change, (_, text) in zip(requested, changes, strict=True)]

    def _of_verb(
        self, verb: Verb, path: str, reason: str, operator: str, process: str, expires: datetime | None
    ) -> SharedHealth:
        match verb:
            case "fail_over":
                return self._forced(path, "failed_over", reason, process, operator, expires)
            case "hold":
                return self._forced(path, "failed_over", "", process, operator, expires)
            case "release":
                return self._forced(path, "failed_over", f"released by {operator}", process)
            case "mark_healthy":
                return self._forced(path, "healthy", f"marked healthy by {operator}", process)

    def publish(self, change: SharedHealth, *, recovers: bool = True) -> SharedHealth | None:
        """A process's own transition, if it is neither stale nor of lower rank; None where it is.

        ``change.version`` is the last one the process knew. ``recovers``: whether ``healthy`` comes from an accepted
        ping or an operator and so ends a failover; an accepted send does not.
        """
        applied, health = self.exchange(change, recovers=recovers)
        return health if applied else None

    def exchange(self, change: SharedHealth, *, recovers: bool = True) -> tuple[bool, SharedHealth | None]:
        """``publish``, returning also what stands where it was not applied."""
        return self._run("publish", change, recovers=recovers)

    def restore(self, known: SharedHealth) -> bool:
        """Writes what this process knows into a Redis that has forgotten it; whether it did."""
        return self._run("restore", known)[0]

    # Entities ------------------------------------------------------------------------------------------------------

    def know(self, paths: Iterable[str]) -> None:
        """Note that these entities exist: who never sent to one learns so that its absence is an outage, not a typo."""
        if names := [path.lower() for path in paths]:
            self.redis.sadd(self._key("known"), *names)

    def known(self, *, but: int = -1) -> frozenset[str] | None:
        """The entities, in lower case, that are known to have existed; None where there are as many as ``but``.

        None is ever forgotten, so their number shows whether there are new ones.
        """
        key = self._key("known")
        if self.redis.scard(key) == but:
            return None
        return frozenset(map(as_text, cast("set[Any]", self.redis.smembers(key))))

    # Pings ---------------------------------------------------------------------------------------------------------

    def claim_ping(self, path: str, interval_s: float, *, grace_s: float = 0.0) -> bool:
        """Whether the caller shall ping the entity now: of a fleet one process, once per interval.

        With ``grace_s`` only once the ping is that much overdue, so that those without go first.
        """
        arguments: _Arguments = [path, _ms(interval_s), _ms(grace_s)]
        return bool(self._claim(keys=[self._key("ping-due")], args=arguments))

    def record_ping(self, path: str, *, accepted: bool, reason: str, next_due: datetime | None = None) -> None:
        """Notes the outcome of a ping for people to see."""
        record = PingRecord(datetime.now(UTC), accepted, reason, 0, next_due)
        self._record_ping(keys=[self._key("pings")], args=[path, record.to_json()])

    def pings(self, paths: Iterable[str] | None = None) -> dict[str, PingRecord]:
        """The last ping of each entity by path, or of these entities only; what cannot be read is left out."""
        key = self._key("pings")
        found = hash_of(self.redis, key) if paths is None else fields_of(self.redis, key, list(paths))
        return readable(key, found, PingRecord.from_json)

    # The syphon ----------------------------------------------------------------------------------------------------

    def pause_syphon(self, target: str | None, *, operator: str, reason: str) -> None:
        """Pauses the pair's syphon, that of one backlog queue, or its sends to one entity."""
        pause = Pause(operator, reason, datetime.now(UTC))
        self.redis.hset(self._key("syphon"), target or "*", pause.to_json())

    def resume_syphon(self, target: str | None) -> bool:
        """Ends the pause of the pair's syphon, of a backlog queue's or an entity's; False where there was none."""
        return bool(self.redis.hdel(self._key("syphon"), target or "*"))

    def paused(self) -> dict[str, Pause]:
        """The pauses by path of backlog queue or entity; ``*``: the pair's. One that cannot be read pauses too."""
        written = self._hash("syphon")
        unknown = Pause("?", "a pause that cannot be read", datetime.now(UTC))
        return dict.fromkeys(written, unknown) | readable(self._key("syphon"), written, Pause.from_json)

    def pace_syphon(self, target: str | None, rate: float | None, operator: str, reason: str) -> None:
        """Lets the syphons of the fleet together move at most ``rate`` messages a second; None lifts the limit.

        ``target`` is the path of an entity they send to or of a backlog queue they empty, None the whole pair. Obeyed
        within 2 s. A ValueError names a rate that is not above 0: to stop is ``pause_syphon``.
        """
        if rate is None:
            self.redis.hdel(self._key("pace"), target or "*")
            return
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be a number above 0, got {rate!r}")
        pace = Pace(float(rate), operator, reason, datetime.now(UTC))
        self.redis.hset(self._key("pace"), target or "*", pace.to_json())

    def paces(self) -> dict[str, Pace]:
        """The limits that operators have set, by entity or backlog queue path; ``*`` is the whole pair's."""
        return readable(self._key("pace"), self._hash("pace"), Pace.from_json)

    def ledgers(self) -> dict[str, str]:
        """The ledgers of the backlog queues as JSON, by path, as their syphons stored them."""
        return self._hash("ledger")

    def ledger(self, queue: str) -> str | None:
        """The ledger of one backlog queue as JSON."""
        raw = self.redis.hget(self._key("ledger"), queue)
        return None if raw is None else as_text(raw)

    def keep_ledger(self, queue: str, ledger: str, *, token: int | None) -> bool:
        """Stores the ledger of a backlog queue for the next syphon, and for people.

        ``token`` is that of the lease under which the queue is served. False, and nothing is written, where the lease
        has been given to another since: one step in Redis, so that who was frozen cannot write over its successor.
        """
        keys = [self._key(name) for name in ("ledger", "fence", "ledger-token")]
        return bool(self._keep_ledger(keys=keys, args=[queue, ledger, token or 0]))

    # Rotations ------------------------------------------------------------------------------------------------------

    def report_rotation(self, process: str, paths: Iterable[str]) -> None:
        """Reports which backlog queues a process sends to when it has to; to be repeated every few seconds."""
        self._rotate(keys=[self._key("rotations")], args=[process, json.dumps(list(paths))])

    def rotations(self, *, within_s: float = 30.0) -> dict[str, list[str]]:
        """The backlog queues that each process has in its rotation, as reported in the last ``within_s`` seconds.

        Those silent for an hour are forgotten here, not where each of a fleet reports: that would cost its square. What
        cannot be read is left out.
        """
        key, now_s = self._key("rotations"), self.now().timestamp()
        reported = readable(key, self._hash("rotations"), _rotation)
        if forgotten := [process for process, (at, _) in reported.items() if now_s - at > _FORGOTTEN_S]:
            self.redis.hdel(key, *forgotten)
        return {process: paths for process, (at, paths) in reported.items() if now_s - at <= within_s}

    # Leases --------------------------------------------------------------------------------------------------------

    def acquire_lease(self, name: str, owner: str, ttl_s: float) -> int | None:
        """The fencing token of the lease, which only ever rises; None while somebody else holds it."""
        token = self._acquire(keys=[self._lease(name), self._key("fence")], args=[name, owner, _ms(ttl_s)])
        return None if token is None else int(token)

    def renew_lease(self, name: str, owner: str, ttl_s: float) -> bool:
        """Whether the owner still holds the lease, now for another ``ttl_s``."""
        return bool(self._renew(keys=[self._lease(name)], args=[owner, _ms(ttl_s)]))

    def release_lease(self, name: str, owner: str) -> bool:
        """Gives the lease up; False where it was not the owner's any more."""
        return bool(self._release(keys=[self._lease(name)], args=[owner]))

    def leases(self) -> dict[str, str]:
        """Who holds which lease now, by name."""
        names = list(self._hash("fence"))
        owners = cast("list[Any]", self.redis.mget([self._lease(name) for name in names])) if names else []
        return {name: as_text(owner) for name, owner in zip(names, owners, strict=True) if owner is not None}

    # Time ----------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The fleet's time: that of Redis's clock."""
        seconds, microseconds = self.redis.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)

    # Streams -------------------------------------------------------------------------------------------------------

    def report(self, *events: Event) -> None:
        """Appends events to the stream of all pairs, in their order and all in one go."""
        self._append(EVENTS, "event", [event.to_json() for event in events])

    def record_usage(self, records: Iterable[UsageRecord]) -> None:
        """Appends usage records to the stream of all pairs."""
        self._append(USAGE, "record", [record.to_json() for record in records])

    # Keys and scripts ----------------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _lease(self, name: str) -> str:
        return self._key(f"lease:{name}")

    def _hash(self, name: str) -> dict[str, str]:
        return hash_of(self.redis, self._key(name))

    def _append(self, stream: str, field: str, texts: list[str]) -> None:
        if not texts:
            return
        with self.redis.pipeline(transaction=True) as pipeline:
            for text in texts:
                _add(pipeline, stream, field, text)
            pipeline.execute()

    def _forced(
        self,
        path: str,
        state: str,
        reason: str,
        process: str,
        held_by: str | None = None,
        expires: datetime | None = None,
    ) -> SharedHealth:
        return SharedHealth(path, state, datetime.now(UTC), reason, held_by, expires, "forced", 0, process)

    def _run(self, verb: str, change: SharedHealth, *, recovers: bool = True) -> tuple[bool, SharedHealth | None]:
        applied, text = self._send(verb, change, self.redis, recovers=recovers)
        return bool(applied), self._read(change.path, text)

    def _send(self, verb: str, change: SharedHealth, client: redis.Redis, *, recovers: bool = True) -> Any:
        keys = [self._key(name) for name in ("health", "latest", "ping-due", "pings", "changed", "born")]
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        arguments: _Arguments = [verb, change.path, change.to_json(), change.version, now, int(recovers)]
        return self._change(keys=keys, args=arguments, client=client)

    def _after(self, verb: str, change: SharedHealth) -> SharedHealth:
        return self._result(change, self._send(verb, change, self.redis)[1])

    def _result(self, change: SharedHealth, text: str | bytes | None) -> SharedHealth:
        """What is true after an operator's action; of an entity that nothing is known of, that it is healthy."""
        nothing = replace(change, state="healthy", reason="", held_by=None, expires=None, origin="organic")
        return self._read(change.path, text) or nothing

    def _read(self, path: str, text: str | bytes | None) -> SharedHealth | None:
        known = {} if text is None else {path: as_text(text)}
        return readable(self.channel, known, SharedHealth.from_json).get(path)


def _add(pipeline: Any, stream: str, field: str, text: str) -> None:
    pipeline.xadd(stream, {field: text}, maxlen=_MOST_ENTRIES, approximate=True)


def _rotation(written: str) -> tuple[float, list[str]]:
    """When a process reported its rotation, in seconds of Redis's clock, and the paths of its backlog queues."""
    with reading("a rotation"):
        fields = record(written)
        return number(fields, "at") / 1000, texts(fields, "paths")


def _count(value: Any) -> int:
    """The number of the last change; 0 where there is none, or none that can be read: then everything is read."""
    try:
        count = int(value or 0)
    except ValueError:
        return 0
    return count if 0 <= count < _MOST_CHANGES else 0


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds > 0 else 0
