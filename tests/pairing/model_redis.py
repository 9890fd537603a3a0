"""A real Redis for random models: near, and by the model's clock.

The models ask it hundreds of times a life. Its scripts are the product's; what is spared is the way to it.
"""

from collections.abc import Callable
from typing import Any

import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.commands.core import Script

from pairing.sessions import shared as shared_sessions
from pairing.sessions.shared import SharedSessions

_TIME = "redis.call('TIME')"
_GIVEN = "local model_us, model_s = table.remove(ARGV), table.remove(ARGV)\n"


class NearRedis(redis.Redis):
    """One connection for one thread, without redis-py's pool, retries and statistics: this Redis does not go away."""

    @classmethod
    def of(cls, url: str) -> "NearRedis":
        return cls.from_url(url, decode_responses=True, single_connection_client=True)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.connection.send_command(*args)
        return self.parse_response(self.connection, args[0], **options)


class ClockedScript(Script):
    """A script of the product by a model's clock. The time goes along with each call: to set it costs nothing."""

    def __init__(self, client: redis.Redis, text: str, clock: Callable[[], float]) -> None:
        assert _TIME in text
        super().__init__(client, _GIVEN + text.replace(_TIME, "{model_s, model_us}"))
        self._clock = clock

    def __call__(self, keys: Any = None, args: Any = None, client: Any = None) -> Any:
        now = self._clock()
        return super().__call__(keys, [*(args or ()), int(now), int(now % 1 * 1_000_000)], client)


class Clock:
    """The time of all machines, Redis's included."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def advance(self, by: float) -> None:
        self.now += by

    def clocked(self, sessions: SharedSessions, client: redis.Redis) -> SharedSessions:
        """The same scripts, those that ask for the time by this clock."""
        for name in ("sync", "enter", "leave", "bar", "barred", "lift", "hold"):
            text = getattr(shared_sessions, f"_{name.upper()}")
            setattr(sessions, f"_{name}", ClockedScript(client, text, lambda: self.now))
        return sessions


def live(machine: Any, lives: int, *, steps: int) -> None:
    """So many random lives of a model."""
    unhurried = {"deadline": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(machine, settings=settings(max_examples=lives, stateful_step_count=steps, **unhurried))
