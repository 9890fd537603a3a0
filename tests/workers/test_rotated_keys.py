"""A worker takes new keys from the files that hold them, without a restart (docs/day-two.md, Keys)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from azure.servicebus import ServiceBusMessage

from dashboard.fleet.pairs.current_pairs import PairsFile
from dashboard.fleet.pairs.pairs_file import load_pairs
from dashboard.fleet.pairs.sync import sync
from emulator.running import RunningNamespace, running
from pairing.fleet.coordination import SharedState
from tests.pace import eventually
from tests.workers.conftest import PAIRS, end_worker
from workers import connections, syphons

KEYS = {"old": "first-key", "new": "second-key"}
Pair = tuple[RunningNamespace, RunningNamespace]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with running("contoso", "contoso-dr", entities=["contoso/orders"]) as namespaces:
        yield namespaces["contoso"], namespaces["contoso-dr"]


@pytest.fixture
def rotate(
    pair: Pair, fleet: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: object
) -> Iterator[Callable[[str], None]]:
    """A worker with a pair whose connection strings are files; writes those of a policy into them."""
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    (tmp_path / "pairs.toml").write_text(PAIRS)

    def rotated(policy: str) -> None:
        for name, namespace in zip(("PRIMARY", "SECONDARY"), pair, strict=True):
            address = namespace.url.removeprefix("http://")
            text = f"Endpoint=sb://{address};SharedAccessKeyName={policy};SharedAccessKey={KEYS[policy]}"
            (tmp_path / "new").write_text(f"{text};UseDevelopmentEmulator=true;\n")
            (tmp_path / "new").replace(tmp_path / name)
            monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))

    for namespace in pair:
        namespace.replace_keys(KEYS)
    rotated("old")
    monkeypatch.setattr(
        connections,
        "_file",
        PairsFile(lambda: tmp_path / "pairs.toml", load_pairs, connections._check, connections._write_down),
    )
    list(sync(connections.pairs()))
    yield rotated
    end_worker()


@pytest.mark.django_db(transaction=True)
def test_a_worker_goes_on_with_new_keys_and_its_syphon_drains_on(rotate, pair, fleet, tmp_path):
    leases = SharedState(fleet, "contoso").leases
    syphons.host("contoso")
    eventually(lambda: len(leases()) == 10)
    before = connections.client("contoso")
    assert connections.is_current("contoso", before)

    rotate("new")
    for namespace in pair:
        namespace.replace_keys({"new": KEYS["new"]})
    assert not connections.is_current("contoso", before)
    after = connections.client("contoso")
    assert after is not before
    assert before.state == "closed"

    after.fail_over("orders", "drill")
    with after.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("into the backlog"))
    after.mark_healthy("orders")
    eventually(lambda: pair[0].stats()["orders"].get("enqueued") == 1)


@pytest.mark.django_db(transaction=True)
def test_a_file_that_is_missing_for_a_moment_changes_nothing(rotate, tmp_path):
    served = connections.client("contoso")
    (tmp_path / "PRIMARY").rename(tmp_path / "away")
    assert connections.client("contoso") is served
    (tmp_path / "PRIMARY").write_text("")
    assert connections.client("contoso") is served
    (tmp_path / "away").rename(tmp_path / "PRIMARY")
    assert connections.client("contoso") is served
