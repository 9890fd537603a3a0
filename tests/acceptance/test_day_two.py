"""Restarts one after another, under applications that send (docs/day-two.md).

The queues have no duplicate detection, so that whatever is delivered twice is seen.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.control_plane import ControlPlane
from tests.acceptance.fleet import Fleet, Namespaces, RedisServer, SpawnServer
from tests.acceptance.inbox import Inbox

pytestmark = [pytest.mark.acceptance, pytest.mark.nightly]
ENTITIES = ("orders", "payments")
WORKERS = ("one", "two")
IN_BACKLOG = 40


class Stage:
    """Namespaces, Redis and a receiver, and the control planes and fleets that a test puts among them."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        self.folder, self._ending = folder, ending
        self.namespaces = Namespaces("contoso", *ENTITIES)
        ending.callback(self.namespaces.end)
        self.redis = RedisServer(folder)
        ending.callback(self.redis.kill)
        self.inbox = Inbox(self.namespaces.strings[0], ENTITIES)
        ending.callback(self.inbox.end)
        self.fleets: list[Fleet] = []

    def plane(self) -> ControlPlane:
        """A control plane: two workers and beat."""
        plane = ControlPlane(self.folder, self.namespaces, self.redis)
        self._ending.callback(lambda: print((self.folder / "workers.log").read_text()[-20_000:]))
        self._ending.callback(plane.end)
        plane.start("beat", *WORKERS)
        return plane

    def fleet(self) -> Fleet:
        """Applications."""
        server = SpawnServer()
        self._ending.callback(server.end)
        name = f"fleet-{len(self.fleets)}"
        (self.folder / name).mkdir()
        fleet = Fleet(self.folder / name, self.namespaces, self.redis, "contoso", server, prefix=f"{name}-")
        self.fleets.append(fleet)
        self._ending.callback(fleet.end)
        return fleet

    def until(self, holds: Callable[[], object], what: str) -> None:
        self.fleets[0].until(holds, 60, what)

    def states(self) -> set[str]:
        return {state for fleet in self.fleets for state in fleet.states("orders")}

    def at_work(self, plane: ControlPlane) -> None:
        self.until(lambda: all(plane.is_at_work(name) for name in WORKERS), "both workers are at work")

    def fail_over(self) -> None:
        """Orders fails over everywhere, and its messages go to the backlog."""
        before = self.namespaces.in_backlog()
        self.namespaces.break_("orders")
        self.until(lambda: self.states() == {"failed_over"}, "orders fails over in every process")
        self.until(lambda: self.namespaces.in_backlog() >= before + IN_BACKLOG, "messages are in the backlog")

    def recover(self) -> None:
        self.namespaces.mend()
        self.until(lambda: self.states() == {"healthy"}, "orders recovers")

    def everything_arrives_once(self) -> None:
        """After the applications have ended: nothing that was accepted is missing, and nothing is there twice."""
        for fleet in self.fleets:
            for member in fleet.living:
                fleet.close(member)
        accepted = [message for fleet in self.fleets for member in fleet.members for message in member.accepted]
        assert len(accepted) == len(set(accepted)) > IN_BACKLOG
        self.until(lambda: set(accepted) <= set(self.inbox.arrived), "everything accepted arrives")
        twice = {message: count for message, count in self.inbox.arrived.items() if count > 1}
        assert not twice


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as ending:
        yield Stage(tmp_path_factory.mktemp("day-two"), ending)


def test_processes_are_restarted_one_after_another_and_no_message_is_doubled(here: Stage) -> None:
    plane, fleet = here.plane(), here.fleet()
    fleet.start(3, entities=ENTITIES, every_s=0.05)
    here.at_work(plane)
    for _ in range(2):
        here.fail_over()
        fleet.shared.pace_syphon(None, 10.0, "ada", "to restart workers in the middle of a drain")
        here.recover()
        for name in (*WORKERS, "beat"):
            plane.stop(name)
            plane.start(name)
            if name != "beat":
                fleet.until(lambda one=name: plane.is_at_work(one), 60, f"{name} is back")
        oldest = fleet.living[0]
        fleet.close(oldest)
        fleet.start(1, entities=ENTITIES, every_s=0.05)
        fleet.shared.pace_syphon(None, None, "ada", "")
    here.everything_arrives_once()
