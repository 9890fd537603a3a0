"""The health of a pair's entities in Redis, and every change of it.

Each change of an entity's health is one script, so that the rules of precedence (docs/specification.md, section 11)
hold whoever comes first: forced beats organic, of two of a kind the higher version wins, what a process sees of its own
sends never undoes a failover. Versions follow Redis's clock where that is ahead of the last one, so that they go on
rising after Redis was restarted empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import uuid4

import redis

from pairing.events import Event
from pairing.fleet.pair_keys import PairKeys
from pairing.fleet.scripts import script
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.streams import EVENTS, add
from pairing.stored_json import as_text, fields_of, readable

Verb = Literal["fail_over", "hold", "release", "mark_healthy"]
_STEPS: dict[Verb, str] = {"fail_over": "publish", "hold": "hold", "release": "release", "mark_healthy": "mark_healthy"}
_CHANGE = script("pairing.fleet", "clock", "whole", "record", "change_health")
_MOST_CHANGES = 2**53  # what scripts count exactly


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


class HealthStore(PairKeys):
    """What is known of the health of entities, and the changes of processes and operators."""

    def __init__(self, client: redis.Redis, pair: str) -> None:
        super().__init__(client, pair)
        self.channel = self._key("health")
        self._change = client.register_script(_CHANGE)

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
                    add(pipeline, EVENTS, "event", events[change.path].to_json())
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
        arguments: list[str | int] = [verb, change.path, change.to_json(), change.version, now, int(recovers)]
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


def _count(value: Any) -> int:
    """The number of the last change; 0 where there is none, or none that can be read: then everything is read."""
    try:
        count = int(value or 0)
    except ValueError:
        return 0
    return count if 0 <= count < _MOST_CHANGES else 0
