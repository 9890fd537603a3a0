"""Who serves which backlog queue: a thread for each queue this process holds the lease of, none where it is paused.

Without coordination the process serves all. With Redis away nobody's lease can be checked: who served goes on, for
peek-lock keeps two syphons on one queue from doing harm (docs/design/leases-and-fencing.md).
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pairing.coordination import Coordination, SharedState

LEASE_S = 5.0
_TICK_S = 0.5
_RENEW_S = LEASE_S / 3

Serve = Callable[[str, Callable[[], bool], Callable[[float], None]], None]
TellPause = Callable[[str, bool, str, str], None]


class _Post:
    """One queue, and whether this process may serve it now."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.thread: threading.Thread | None = None
        self.is_paused = False
        self.is_held = False
        self.renewed_at = 0.0


class Tenure:
    """Keeps a thread on each queue that is this process's to serve."""

    def __init__(
        self, coordination: "Coordination | None", owner: str, queues: tuple[str, ...], tell_pause: TellPause
    ) -> None:
        self._shared: SharedState | None = coordination.shared if coordination is not None else None
        self._owner = owner
        self._posts = [_Post(queue) for queue in queues]
        self._tell_pause = tell_pause
        self._is_alone = self._shared is None

    def hold_until(self, stop: threading.Event, serve: Serve, grace_s: float) -> None:
        """Serves what can be had until ``stop``, then waits so long for what is in flight and gives the leases up."""
        try:
            while not stop.is_set():
                self._look()
                for post in self._posts:
                    self._man(post, stop, serve)
                stop.wait(_TICK_S)
        finally:
            self._end(grace_s)

    def _look(self) -> None:
        """Reads pauses, renews and takes leases; keeps what it has where Redis does not answer."""
        if self._shared is None:
            return
        try:
            self._read_pauses(self._shared)
            for post in self._posts:
                self._tend_lease(self._shared, post)
            self._is_alone = False
        except Exception as error:
            if not _is_redis_error(error):
                raise
            self._is_alone = True

    def _read_pauses(self, shared: "SharedState") -> None:
        paused = shared.paused()
        for post in self._posts:
            pause = paused.get("*") or paused.get(post.queue)
            if (pause is not None) is not post.is_paused:
                post.is_paused = pause is not None
                self._tell_pause(
                    post.queue, post.is_paused, pause.by if pause else "", pause.reason if pause else "resumed"
                )

    def _tend_lease(self, shared: "SharedState", post: _Post) -> None:
        is_served = post.thread is not None and post.thread.is_alive()
        if post.is_held and (post.is_paused and not is_served):
            shared.release_lease(post.queue, self._owner)
            post.is_held = False
        elif post.is_held and time.monotonic() - post.renewed_at > _RENEW_S:
            asked_at = time.monotonic()
            post.is_held = shared.renew_lease(post.queue, self._owner, LEASE_S)
            post.renewed_at = asked_at
        elif not post.is_held and not post.is_paused and not is_served:
            asked_at = time.monotonic()
            post.is_held = shared.acquire_lease(post.queue, self._owner, LEASE_S) is not None
            post.renewed_at = asked_at

    def _may_serve(self, post: _Post) -> bool:
        if self._shared is None:
            return True
        is_fresh = time.monotonic() - post.renewed_at < LEASE_S
        return post.is_held and not post.is_paused and (is_fresh or self._is_alone)

    def _man(self, post: _Post, stop: threading.Event, serve: Serve) -> None:
        if (post.thread is not None and post.thread.is_alive()) or not self._may_serve(post):
            return

        def may_work() -> bool:
            return not stop.is_set() and self._may_serve(post)

        def rest(seconds: float) -> None:
            stop.wait(seconds)

        name = f"pairing-syphon-{post.queue.rsplit('/', 1)[-1]}"
        post.thread = threading.Thread(target=serve, args=(post.queue, may_work, rest), name=name, daemon=True)
        post.thread.start()

    def _end(self, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        for post in self._posts:
            if post.thread is not None:
                post.thread.join(max(until - time.monotonic(), 0))
            self._give_up(post)

    def _give_up(self, post: _Post) -> None:
        if self._shared is None or not post.is_held:
            return
        try:
            self._shared.release_lease(post.queue, self._owner)
        except Exception as error:
            if not _is_redis_error(error):
                raise


def _is_redis_error(error: Any) -> bool:
    from redis.exceptions import RedisError  # redis is an extra of the package; whoever raised this has it

    return isinstance(error, RedisError | OSError)
