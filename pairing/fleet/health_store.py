"""The health of a pair's entities in Redis, and its changes.

Each change of an entity's health is one script, so that the rules of precedence (docs/specification.md, section 11)
hold in any order of arrival: forced beats organic, of two of a kind the higher version wins, and successful sends of a
process never end a failover. Versions follow Redis's clock if it is ahead of the last one, so that they keep increasing
after Redis was restarted empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import uuid4

import redis

from pairing.events import Event
from pairing.fleet.access import script
from pairing.fleet.pair_keys import PairKeys
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.streams import EVENTS, add
from pairing.stored_json import fields_of, readable

Verb = Literal["fail_over", "hold", "release", "mark_healthy"]
_STEPS: dict[Verb, str] = {"fail_over": "publish", "hold": "hold", "release": "release", "mark_healthy": "mark_healthy"}
_CHANGE = script("pairing.fleet", "clock", "whole", "record", "change_health")


@dataclass(frozen=True, slots=True)
class Seen:
    """The position of a reader of health."""

    latest: int
    """The number of the last known change."""
    born: str
    """The mark of this Redis; a different one means that earlier data is lost."""


@dataclass(frozen=True, slots=True)
class News:
    """The changes of health since the last read."""

    texts: dict[str, str]
    """JSON of SharedHealth by path."""
    seen: Seen
    is_everything: bool = False
    """Whether the texts are complete."""
    has_forgotten: bool = False
    """Whether Redis was emptied since the last read."""


class HealthStore(PairKeys):
    """The health of entities, and the changes of it by processes and operators."""

    def __init__(self, client: redis.Redis, pair: str) -> None:
        super().__init__(client, pair)
        self.channel = self._key("health")
        self._change = client.register_script(_CHANGE)

    def health(self) -> dict[str, SharedHealth]:
        """The health of each entity that ever failed, by path."""
        return readable(self.channel, self._hash("health"), SharedHealth.from_json)

    def health_of(self, path: str) -> SharedHealth | None:
        """The health of one entity; None if there is none."""
        return readable(self.channel, fields_of(self.redis, self.channel, [path]), SharedHealth.from_json).get(path)

    def news(self, known: Seen | None, *, is_complete: bool = False) -> News:
        """The health that changed since ``known``; all of it if that is None or later than the last change here.

        The latter shows that Redis was emptied, or that a replica without the last changes was promoted. If others have
        changed something since, it does not show; ``is_complete`` asks for all of it.
        Two keys show that nothing changed, so frequent calls are cheap for any number of entities. The first reader of
        an empty Redis sets its mark, by which all see when it is emptied again.
        """
        with self.redis.pipeline(transaction=False) as pipeline:
            pipeline.set(self._key("born"), uuid4().hex, nx=True)
            pipeline.get(self._key("latest"))
            pipeline.get(self._key("born"))
            _, latest, born = pipeline.execute()
        seen = Seen(int(latest or 0), born)
        if known is None or known.born != seen.born:
            return News(self._hash("health"), seen, is_everything=True, has_forgotten=known is not None)
        if is_complete or seen.latest < known.latest:
            return News(self._hash("health"), seen, is_everything=True)
        if known == seen:
            return News({}, seen)
        paths = cast("list[str]", self.redis.zrangebyscore(self._key("changed"), f"({known.latest}", "+inf"))
        return News(fields_of(self.redis, self.channel, paths), seen)

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
        """Fail the entity over by an operator's decision; ``hold`` keeps the failover until released or ``expires``."""
        held_by = operator if hold else None
        forced = self._forced(path, "failed_over", reason, process, held_by, expires if hold else None)
        return self._after("publish", forced)

    def hold(self, path: str, *, operator: str, process: str, expires: datetime | None = None) -> SharedHealth:
        """Keep a failed-over entity from recovering, from now on until ``expires``, replacing any earlier expiry.

        Other entities do not change. Returns the resulting health.
        """
        return self._after("hold", self._of_verb("hold", path, "", operator, process, expires))

    def release(self, path: str, *, operator: str, process: str) -> SharedHealth:
        """End a hold: the entity stays failed over and a ping is due immediately. Returns the resulting health."""
        return self._after("release", self._of_verb("release", path, "", operator, process, None))

    def mark_healthy(self, path: str, *, operator: str, process: str) -> SharedHealth:
        """End hold and failover together. Returns the resulting health."""
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
        """Apply the verb to each of these entities, in one transaction; a failover is held. Returns the resulting
        health.

        The event of a path among ``events`` is reported right after its change. If the caller dies or is cut off before
        the end, nothing is changed and reported; after an error the answer may be lost.
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

    def publish(self, change: SharedHealth, *, recovers: bool = True) -> tuple[bool, SharedHealth | None]:
        """Whether a process's own transition was applied, being neither stale nor of lower precedence; and the health.

        ``change.version`` is the last version that the process knew. ``recovers``: whether ``healthy`` comes from an
        accepted ping or an operator and so ends a failover; an accepted send does not.
        """
        return self._run("publish", change, recovers=recovers)

    def end_failure(self, failing: SharedHealth, reason: str, *, process: str, event: Event) -> bool:
        """Report a failing entity as healthy for a process that cannot, with the event, in one transaction.

        Returns whether it was; nothing is changed and reported if the health of the pair has changed since it was read.
        The failure's time is kept, so that a later failover of a process that was only late replaces it.
        """
        healthy = replace(failing, state="healthy", reason=reason, process=process)
        with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.watch(self.channel)  # type: ignore[no-untyped-call]
            if self.health_of(failing.path) != failing:
                return False
            pipeline.multi()
            self._send("publish", healthy, pipeline, recovers=False)
            add(pipeline, EVENTS, "event", event.to_json())
            try:
                pipeline.execute()
            except redis.WatchError:
                return False
        return True

    def restore(self, known: SharedHealth) -> bool:
        """Restore what this process knows in a Redis that has lost it; whether it was restored."""
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

    def _result(self, change: SharedHealth, text: str | None) -> SharedHealth:
        """The health after an operator's action; healthy for an unknown entity."""
        nothing = replace(change, state="healthy", reason="", held_by=None, expires=None, origin="organic")
        return self._read(change.path, text) or nothing

    def _read(self, path: str, text: str | None) -> SharedHealth | None:
        return readable(self.channel, {} if text is None else {path: text}, SharedHealth.from_json).get(path)
