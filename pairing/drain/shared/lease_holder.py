"""The backlog queues that this process may serve now: those whose lease it holds, unless they are paused.

Without coordination it may serve all. While Redis is unavailable, leases cannot be checked: a process that served a
queue continues, and others begin a little later, because peek-lock prevents harm from two syphons on one queue
(docs/design/leases-and-fencing.md).
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pairing.drain.shared.pacing import Pacing
from pairing.fleet.access import redis_errors

if TYPE_CHECKING:
    from pairing.fleet.coordination import RedisCoordination, SharedState

LEASE_S = 5.0
LOOK_S = 0.5
_RENEW_S = LEASE_S / 3

ReportPause = Callable[[str, bool, str], None]


@dataclass(slots=True)
class _QueueLease:
    token: int | None = None
    is_served: bool = False
    is_paused: bool = False
    is_held: bool = False
    has_reported: bool = False
    renewed_at: float = float("-inf")


class LeaseHolder:
    """Knows which queues this process may serve; checked before each step."""

    def __init__(
        self,
        coordination: "RedisCoordination | None",
        owner: str,
        queues: Callable[[], Iterable[str]],
        report_pause: ReportPause,
        now: Callable[[], float] = time.monotonic,
        pacing: Pacing | None = None,
        keep_back: Callable[[Iterable[str]], None] = lambda paths: None,
    ) -> None:
        self._pacing, self._keep_back = pacing or Pacing(), keep_back
        self._shared: SharedState | None = coordination.shared if coordination is not None else None
        self._owner, self._report_pause, self._now = owner, report_pause, now
        self._queues = queues
        self._leases: dict[str, _QueueLease] = {}
        self._alone_since: float | None = None
        self._looked_at = float("inf")

    def look(self, *, leaving: bool = False) -> None:
        """Read pauses, renew and take leases; blocks for at most two seconds. If Redis is unavailable, leases are kept.

        A stopping process takes no leases, and keeps those of the queues it still serves: otherwise messages sent at
        the end could not be completed and would be delivered twice.
        """
        self._notice_a_freeze()
        for queue in self._queues():  # a client that was opened without its backlog finds it later
            self._leases.setdefault(queue, _QueueLease())
        if self._shared is None:
            return
        try:
            self._read_pauses(self._shared)
            self._read_paces(self._shared)
            for queue, lease in self._leases.items():
                self._maintain_lease(self._shared, queue, lease, leaving)
            self._alone_since = None
        except redis_errors():
            self._notice_a_freeze()  # in the middle of it: then the connection broke for that, maybe
            self._stay_alone()
        finally:
            self._looked_at = self._now()

    def _notice_a_freeze(self) -> None:
        """A process that has not looked for the time of a lease was frozen: it owns nothing until Redis confirms it."""
        if not self._is_awake():
            self._alone_since = None
            for lease in self._leases.values():
                lease.is_held = False

    def _is_awake(self) -> bool:
        return self._now() - self._looked_at < LEASE_S

    def _is_fresh(self, lease: _QueueLease) -> bool:
        return self._now() - lease.renewed_at < LEASE_S

    def _stay_alone(self) -> None:
        """Redis does not answer: a process whose lease is valid at that moment continues."""
        if self._alone_since is None:
            self._alone_since = self._now()
            for lease in self._leases.values():
                lease.is_held = lease.is_held and self._is_fresh(lease)

    @property
    def is_alone(self) -> bool:
        """Whether Redis did not answer last time."""
        return self._alone_since is not None

    def may_serve(self, queue: str, token: int | None = None) -> bool:
        """Whether the next receive or send of this queue may begin; checked before each, without cost.

        ``token`` is the result of ``begin``: a lease that was lost and taken again is a different one, and so is its
        ledger.
        """
        if self._shared is None:
            return True
        lease = self._leases[queue]
        if lease.is_paused or (token is not None and token != lease.token) or not self._is_awake():
            return False
        alone_since = self._alone_since
        if alone_since is not None:
            return lease.is_held or self._now() - alone_since >= 2 * LEASE_S
        return lease.is_held and self._is_fresh(lease)

    def holds(self, queue: str, token: int | None) -> bool:
        """Whether the lease with this token is still valid, as far as known without querying Redis.

        Checked right before a message is handed to the SDK, and before one is completed. Without cost.
        """
        if self._shared is None or token is None:
            return True
        lease = self._leases[queue]
        stands = self._alone_since is not None or self._is_fresh(lease)
        return lease.is_held and token == lease.token and stands and self._is_awake()

    def vacant(self) -> list[str]:
        """The queues that may be served, and are not."""
        return [queue for queue, lease in self._leases.items() if not lease.is_served and self.may_serve(queue)]

    def begin(self, queue: str) -> int | None:
        """Serve this queue from now on, under the lease with the returned token; None if there is no lease."""
        lease = self._leases[queue]
        lease.is_served = True
        return lease.token if lease.is_held else None

    def end(self, queue: str, *, leaving: bool = False) -> None:
        """Stop serving the queue; a stopping process releases the lease immediately, so that others need not wait."""
        lease = self._leases[queue]
        lease.is_served = False
        if leaving:
            self._give_up(queue, lease)

    def give_up(self) -> None:
        """Release all leases, so that others need not wait until they expire."""
        for queue, lease in self._leases.items():
            self._give_up(queue, lease)

    def _give_up(self, queue: str, lease: _QueueLease) -> None:
        if self._shared is not None and lease.is_held:
            lease.is_held = False
            with contextlib.suppress(*redis_errors()):
                self._shared.release_lease(queue, self._owner)

    def _read_paces(self, shared: "SharedState") -> None:
        """Read the limits of operators, and compute this process's share by its part of the queues that are served."""
        rates = {target: pace.rate for target, pace in shared.paces().items()}
        share = 1.0
        if rates or self._pacing.is_limited:
            owners = list(shared.leases().values())
            share = owners.count(self._owner) / len(owners) if self._owner in owners else 1.0
        self._pacing.obey(rates, share)

    def _read_pauses(self, shared: "SharedState") -> None:
        paused = shared.paused()
        self._keep_back(paused)  # a paused entity is a destination that must not be sent to
        for queue, lease in self._leases.items():
            pause = paused.get("*") or paused.get(queue)
            if (pause is not None) is not lease.is_paused:
                lease.is_paused = pause is not None
                if not (lease.is_held or lease.has_reported):  # a fleet reports it once: the process whose queue it was
                    continue
                lease.has_reported = lease.is_paused
                self._report_pause(queue, lease.is_paused, f"{pause.reason} ({pause.by})" if pause else "resumed")

    def _maintain_lease(self, shared: "SharedState", queue: str, lease: _QueueLease, leaving: bool) -> None:
        asked_at = self._now()
        if lease.is_held and lease.is_paused and not lease.is_served:
            lease.is_held = False
            shared.release_lease(queue, self._owner)
        elif lease.is_held and asked_at - lease.renewed_at > _RENEW_S:
            lease.is_held = shared.renew_lease(queue, self._owner, LEASE_S)
            lease.renewed_at = asked_at
        elif not (lease.is_held or lease.is_paused or leaving):
            lease.token = shared.acquire_lease(queue, self._owner, LEASE_S)
            lease.is_held = lease.token is not None
            lease.renewed_at = asked_at
