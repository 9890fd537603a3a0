"""The state that a dry run and its action read, from Redis and the database.

State that Redis has lost and the database still has is valid here, but is not written. Only the execution of an
action writes it back to Redis.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.utils import timezone

from dashboard.models import EntityHealth, Pair, SyphonPace, SyphonPause
from pairing.fleet.coordination import SharedHealth, SharedState


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """One entity: its state in Redis, and its failover in the database."""

    path: str
    shared: SharedHealth | None = None
    stored: SharedHealth | None = None

    @property
    def is_forgotten(self) -> bool:
        """Whether the database has a failover that Redis lacks."""
        return self.stored is not None and (self.shared is None or self.shared.version < self.stored.version)

    @property
    def health(self) -> SharedHealth | None:
        """The newer of both states; None if none was ever reported."""
        return self.stored if self.is_forgotten else self.shared

    @property
    def is_failed_over(self) -> bool:
        return self.health is not None and self.health.state == "failed_over"

    @property
    def held_by(self) -> str:
        """The operator who holds the failover; empty if it is not held."""
        return (self.health.held_by or "") if self.health is not None and self.is_failed_over else ""


@dataclass(frozen=True, slots=True)
class KnownSyphon:
    """The syphon of a pair, a backlog queue or an entity: its pause and its pace, in the database and in Redis."""

    is_pause_stored: bool = False
    is_pause_shared: bool = False
    stored_rate: float | None = None
    shared_rate: float | None = None


def read_entities(shared: SharedState, pair: Pair, paths: Collection[str]) -> dict[str, KnownEntity]:
    """The state of these entities, by path. Raises RedisError."""
    known, wanted = shared.health(), frozenset(paths)
    rows = EntityHealth.objects.filter(pair=pair, state="failed_over")
    stored = {row.path: _as_shared(row) for row in rows if row.path in wanted}
    return {path: KnownEntity(path, known.get(path), stored.get(path)) for path in paths}


def restore(shared: SharedState, known: Mapping[str, KnownEntity]) -> bool:
    """Write the failovers that Redis has lost back to it, as processes that remember them do.

    If no process remembers a failover, it could not be ended otherwise. Returns whether there were any.
    """
    forgotten = [one.stored for one in known.values() if one.is_forgotten and one.stored is not None]
    for health in forgotten:
        shared.restore(health)
    return bool(forgotten)


def read_syphon(shared: SharedState, pair: Pair, target: str) -> KnownSyphon:
    """The state of the syphon of a target; `*` is the whole pair. Raises RedisError."""
    pace, rows = shared.paces().get(target), SyphonPace.objects.filter(pair=pair, target=target)
    return KnownSyphon(
        is_pause_stored=SyphonPause.objects.filter(pair=pair, queue=target).exists(),
        is_pause_shared=target in shared.paused(),
        stored_rate=rows.values_list("rate", flat=True).first(),
        shared_rate=pace.rate if pace else None,
    )


def _as_shared(row: EntityHealth) -> SharedHealth:
    return SharedHealth(
        path=row.path,
        state=row.state,
        since=row.since or timezone.now(),
        reason=row.reason,
        held_by=row.held_by,
        expires=row.expires,
        origin="forced" if row.origin == "forced" else "organic",
        version=row.version,
        process=row.process,
    )
