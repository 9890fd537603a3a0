"""Restarts one after another, under applications that send (docs/day-two.md).

The queues have no duplicate detection, so that whatever is delivered twice is seen.
"""

import signal
from collections.abc import Iterator

import pytest

from tests.acceptance.control_plane import ControlPlane, running_plane
from tests.acceptance.fleet import Fleet, RedisServer
from tests.acceptance.inbox import Inbox
from tests.pace import Stopwatch

pytestmark = [pytest.mark.acceptance, pytest.mark.nightly]
ENTITIES = ("orders", "payments")
WORKERS = ("one", "two")
IN_BACKLOG = 40


@pytest.fixture(scope="module")
def plane(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_plane(tmp_path_factory.mktemp("control-plane"), redis_server, "beat", *WORKERS) as plane:
        yield plane


@pytest.fixture
def inbox(plane: ControlPlane) -> Iterator[Inbox]:
    inbox = Inbox(plane.namespaces.strings[0], ENTITIES)
    yield inbox
    inbox.end()


def holders(fleet: Fleet) -> set[int]:
    """The processes that hold a lease."""
    return {int(owner.split(":")[1]) for owner in fleet.shared.leases().values()}


def fail_over_and_recover(fleet: Fleet) -> None:
    """Orders fails over everywhere, its messages go to the backlog, and its syphon is slow when it has recovered."""
    before = fleet.namespaces.in_backlog()
    fleet.namespaces.break_("orders")
    fleet.until(lambda: set(fleet.states("orders")) == {"failed_over"}, 60, "orders fails over in every process")
    stored = before + IN_BACKLOG
    fleet.until(lambda: fleet.namespaces.in_backlog() >= stored, 60, "messages are in the backlog")
    fleet.shared.pace_syphon(None, 10.0, "ada", "to restart workers in the middle of a drain")
    fleet.namespaces.mend()
    fleet.until(lambda: set(fleet.states("orders")) == {"healthy"}, 60, "orders recovers")


def test_processes_are_restarted_one_after_another_and_no_message_is_doubled(
    plane: ControlPlane, fleet: Fleet, inbox: Inbox
) -> None:
    fleet.start(3, entities=ENTITIES, every_s=0.05)
    fleet.until(lambda: all(plane.is_at_work(name) for name in WORKERS), 60, "both workers are at work")
    for _ in range(2):
        fail_over_and_recover(fleet)
        assert holders(fleet) <= {worker.pid for worker in plane.workers.values()}
        assert holders(fleet)
        for name in (*WORKERS, "beat"):
            process = plane.workers.pop(name)
            process.send_signal(signal.SIGTERM)
            with Stopwatch() as released:
                fleet.until(lambda pid=process.pid: pid not in holders(fleet), 30, f"{name} releases its leases")
            assert released.took < 3
            process.wait(120)
            plane.start(name)
            if name != "beat":
                fleet.until(lambda one=name: plane.is_at_work(one), 60, f"{name} is back")
        fleet.close(fleet.living[0])
        fleet.start(1, entities=ENTITIES, every_s=0.05)
        fleet.shared.pace_syphon(None, None, "ada", "")
    for member in fleet.living:
        fleet.close(member)
    accepted = [message for member in fleet.members for message in member.accepted]
    assert len(accepted) == len(set(accepted)) > IN_BACKLOG
    fleet.until(lambda: set(accepted) <= set(inbox.arrived), 60, "everything accepted arrives")
    assert not {message: count for message, count in inbox.arrived.items() if count > 1}
