"""The live processes of a fleet and the failovers that each disputes: the source of "failed over in 1 of N".

An organic failover is adopted by processes without an accepted send to the entity since it began; the others dispute it
and continue to send to the primary (docs/specification.md, section 11). N is the number of live processes that send.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from pairing.fleet.access import script
from pairing.fleet.shared_state import SharedState
from pairing.stored_json import hash_of, readable

ALIVE_S = 15.0
"""How long a process without reports counts as alive; processes report every few seconds."""

FORGOTTEN_S = 3600.0
_REPORT = script("pairing.fleet", "clock", "report_presence")


@dataclass(frozen=True, slots=True)
class Heard:
    """A process's adoption of a failover that an operator forced, and its delay."""

    path: str
    version: int
    """The version of the change in ``SharedHealth``."""
    after_s: float
    """The delay by Redis's clock, since the report."""


@dataclass(frozen=True, slots=True)
class GatewayTraffic:
    """The clients of a gateway, and what became of the messages that they sent since it started."""

    clients: Mapping[str, int]
    """The number of connected clients by their SDK and its version."""
    links: int
    retained: int
    """Deliveries without an outcome."""
    redirected: int
    """Messages that a backlog queue accepted."""
    refused: int
    """Messages that neither namespace accepted."""
    certificate_ends: float | None = None
    """The end of its certificate in Unix time; None without TLS."""


@dataclass(frozen=True, slots=True)
class Presence:
    """The state that a process reports about itself."""

    sends: bool
    """Whether it has senders; workers, which have none, are not counted."""
    disputed: tuple[str, ...] = ()
    """The entities whose failover this process disputes."""
    rotation: tuple[str, ...] = ()
    """Its backlog queues, which are no orphans."""
    ahead_s: float | None = field(default=None, compare=False)
    """The offset of its clock from that of Redis, if reported."""
    heard: tuple[Heard, ...] = field(default=(), compare=False)
    """The last forced failovers that it adopted, latest at the end, with their delays."""
    gateway: GatewayTraffic | None = None
    """Its clients, if it is a gateway."""


@dataclass(frozen=True, slots=True)
class ReportedStates:
    """The agreement of the processes of a fleet."""

    processes: int
    """The number of sending processes."""
    disputes: Mapping[str, int]
    """How many of them dispute the failover of an entity, by path."""

    def failed_over_in(self, path: str) -> int:
        """In how many processes an entity is failed over, if the fleet reports it so."""
        return max(0, self.processes - self.disputes.get(path, 0))


class Presences:
    """The processes of one pair in Redis. Blocking; every call may raise the errors of redis-py."""

    def __init__(self, shared: SharedState) -> None:
        self._redis, self._key = shared.redis, f"pairing:{{{shared.pair}}}:processes"
        self._report = self._redis.register_script(_REPORT)

    def report(self, process: str, presence: Presence) -> None:
        """Report that a process is alive; repeat every few seconds."""
        heard = [[one.path, one.version, one.after_s] for one in presence.heard]
        report = {"sends": presence.sends, "disputed": presence.disputed, "rotation": presence.rotation}
        gateway = None if presence.gateway is None else asdict(presence.gateway)
        text = json.dumps(report | {"clock": time.time(), "heard": heard, "gateway": gateway})
        self._report(keys=[self._key], args=[process, text])

    def leave(self, process: str) -> None:
        """Report that a process has ended."""
        self._redis.hdel(self._key, process)

    def living(self, *, within_s: float = ALIVE_S) -> dict[str, Presence]:
        """The processes that reported in the last ``within_s`` seconds by Redis's clock; old entries are deleted."""
        now_s, microseconds = self._redis.time()
        found = readable(self._key, hash_of(self._redis, self._key), _reported)
        ages = {process: now_s + microseconds / 1e6 - at for process, (at, _) in found.items()}
        if forgotten := [process for process, age in ages.items() if age > FORGOTTEN_S]:
            self._redis.hdel(self._key, *forgotten)
        return {process: presence for process, (_, presence) in found.items() if ages[process] <= within_s}

    def rotations(self) -> dict[str, tuple[str, ...]]:
        """The backlog queues in the rotation of each process that reported in the last 30 seconds."""
        return {process: presence.rotation for process, presence in self.living(within_s=2 * ALIVE_S).items()}


def _reported(written: str) -> tuple[float, Presence]:
    """When a process reported, in seconds of Redis's clock, and its state."""
    fields = json.loads(written)
    at, report = fields["at"] / 1000, fields["report"]
    heard = tuple(Heard(*one) for one in report["heard"])
    ahead_s = report["clock"] - at
    gateway = None if report["gateway"] is None else GatewayTraffic(**report["gateway"])
    return at, Presence(report["sends"], tuple(report["disputed"]), tuple(report["rotation"]), ahead_s, heard, gateway)


def reported_states(living: Iterable[Presence]) -> ReportedStates:
    """The agreement of the live processes."""
    senders = [presence for presence in living if presence.sends]
    return ReportedStates(len(senders), Counter(path for presence in senders for path in presence.disputed))
