"""One fleet of application processes around one Redis, with real kills; the local namespace's counters judge.

docs/specification.md, sections 5, 7 and 11. `FLEET_SIZE` says how many processes there are.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairing.events import Event
from pairing.fleet.coordination import EVENTS
from tests.acceptance.fleet import SIZE, Fleet, Namespaces, RedisServer, SpawnServer
from tests.pace import Stopwatch

pytestmark = pytest.mark.acceptance
RECONCILE_S = 2.0


@pytest.fixture
def fleet(tmp_path: Path, spawn_server: SpawnServer) -> Iterator[Fleet]:
    """No application yet, but all they need."""
    namespaces = Namespaces("contoso", "orders", "payments")
    server = RedisServer(tmp_path)
    fleet = Fleet(tmp_path, namespaces, server, "contoso", spawn_server, RECONCILE_S)
    yield fleet
    fleet.end()
    server.thaw()
    server.kill()
    namespaces.end()


def all_have_seen(fleet: Fleet, *kinds: str) -> None:
    """Every process has seen exactly these transitions, each once: nothing flapped."""
    fleet.until(lambda: all(len(m.kinds("orders")) >= len(kinds) for m in fleet.living), 20, f"all see {kinds}")
    assert {m.name: m.kinds("orders") for m in fleet.living} == {m.name: list(kinds) for m in fleet.living}


def reports(fleet: Fleet) -> list[Event]:
    """What stands in the stream for the control plane."""
    return [Event.from_json(fields["event"]) for _, fields in fleet.shared.redis.xrange(EVENTS)]


@pytest.mark.parametrize("how", ["killed", pytest.param("frozen", marks=pytest.mark.nightly)])
def test_with_redis_gone_all_send_on_decide_alone_and_agree_afterwards(fleet: Fleet, how: str) -> None:
    with Stopwatch() as watch:
        fleet.start(SIZE)
        fleet.all_go_on_sending("orders")
        fleet.server.kill() if how == "killed" else fleet.server.freeze()
        fleet.all_go_on_sending("orders")
        assert not any(member.raised for member in fleet.members)
        fleet.namespaces.break_("orders")
        all_have_seen(fleet, "failing", "failed_over")
        fleet.all_go_on_sending("orders")
        fleet.namespaces.mend()
        all_have_seen(fleet, "failing", "failed_over", "recovered")
        fleet.server.start() if how == "killed" else fleet.server.thaw()
        fleet.connected(fleet.members)
        fleet.until(lambda: fleet.shared.health()["orders"].state == "healthy", 20, "Redis knows")
        fleet.until(lambda: len(reports(fleet)) == 3 * SIZE, 20, "what happened meanwhile is reported")
        assert Counter((e.process, e.kind) for e in reports(fleet)) == {
            (m.process, kind): 1 for m in fleet.members for kind in ("failing", "failed_over", "recovered")
        }
        fleet.all_go_on_sending("orders", by=12)  # 3 s: longer than it takes to reconcile
        all_have_seen(fleet, "failing", "failed_over", "recovered")
    assert max(member.slowest_s for member in fleet.members) < 5 + watch.withheld
