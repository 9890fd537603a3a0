"""What sync_pairs stores of the entities that the pairs file names."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.fleet.pairs.pairs_file import load_pairs
from dashboard.fleet.pairs.sync import sync
from dashboard.fleet.state import entity_rows, message_counts, projection
from dashboard.models import EntityHealth
from tests.dashboard.conftest import NOW, health

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
STRING = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=secret"
HEAD = '[pairs.contoso]\nprimary = { connection_string_env = "A" }\nsecondary = { connection_string_env = "B" }\n'


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stores a file with these entities; returns what was asked of the database."""
    monkeypatch.setenv("A", STRING.format("contoso"))
    monkeypatch.setenv("B", STRING.format("contoso-dr"))

    def read(entities: list[str] | str, more: str = "") -> list[str]:
        file = tmp_path / "pairs.toml"
        file.write_text(f"{HEAD}entities = {entities!r}\n{more}", encoding="utf-8")
        pairs = load_pairs(file)
        with CaptureQueriesContext(connection) as asked:
            list(sync(pairs))
        return [query["sql"] for query in asked]

    return read


def stored() -> dict[str, tuple[str, bool, bool]]:
    """Kind, whether the file names it, and whether it is gone, by path."""
    rows = EntityHealth.objects.values_list("path", "kind", "is_configured", "gone_at")
    return {path: (kind, is_configured, gone_at is not None) for path, kind, is_configured, gone_at in rows}


def test_a_change_of_many_entities_takes_as_many_statements_as_one_of_few(read):
    asked = []
    for count in (30, 3_000):
        read([f"store-{count}/{n}" for n in range(count)])
        asked.append(len(read([f"topic:store-{count}/{n}" for n in range(0, count, 2)])))

    assert asked[0] == asked[1]
    assert sum(is_configured for _, is_configured, _ in stored().values()) == 1_500


def test_many_new_entities_are_inserted_many_at_a_time(read):
    read([])

    few, many = len(read(["a"])), len(read([f"store-{n}" for n in range(2_000)]))

    assert many - few < 100


def test_what_is_as_the_file_says_is_not_written_again(read):
    read(["orders", "topic:shipments"])

    again = read(["orders", "topic:shipments"])

    assert not [sql for sql in again if "dashboard_entityhealth" in sql and not sql.startswith("SELECT")]


def test_kinds_and_names_follow_the_file(pair, read):
    entity_rows.entity_rows("contoso", ["heard-of-by-a-sender"])
    read(["orders", "topic:payments", "topic:heard-of-by-a-sender"])
    assert stored() == {
        "orders": ("queue", True, False),
        "payments": ("topic", True, False),
        "heard-of-by-a-sender": ("topic", True, False),
    }

    read(["payments"])
    assert stored() == {
        "orders": ("queue", False, True),
        "payments": ("queue", True, False),
        "heard-of-by-a-sender": ("topic", False, True),
    }

    read(["orders", "payments"])
    assert stored()["orders"] == ("queue", True, False)
    read("*")
    assert {is_configured for _, is_configured, _ in stored().values()} == {True}


def test_an_entity_with_a_failover_or_a_backlog_is_kept_when_the_file_names_it_no_longer(read):
    read(["orders", "payments", "refunds"])
    projection.apply_all_health("contoso", [health("orders")])
    message_counts.record_waiting("contoso", {"payments": 3}, NOW)

    read([])

    assert stored() == {
        "orders": ("queue", False, False),
        "payments": ("queue", False, False),
        "refunds": ("queue", False, True),
    }


def test_an_entity_that_a_sender_reports_meanwhile_is_taken_as_the_file_says(read):
    """It is stored between the look at what is there and the insert."""
    meanwhile = ["reported"]

    def insert(execute, sql, params, many, context):
        if "dashboard_entityhealth" in sql and sql.startswith("INSERT") and meanwhile:
            entity_rows.entity_rows("contoso", [meanwhile.pop()])
        return execute(sql, params, many, context)

    read([])
    with connection.execute_wrapper(insert):
        read(["topic:reported"])

    assert not meanwhile
    assert stored() == {"reported": ("topic", True, False)}


def test_the_canary_of_drills_is_reserved_whatever_its_case_unless_the_file_names_it(read):
    read([])
    entity_rows.entity_rows("contoso", ["Drills", "orders"])

    read(["orders"], 'drill = { entity = "drills" }\n')
    assert set(EntityHealth.objects.filter(is_canary=True).values_list("path", flat=True)) == {"Drills"}

    EntityHealth.objects.update(is_canary=False)
    read(["Drills"], 'drill = { entity = "drills" }\n')
    assert not EntityHealth.objects.filter(is_canary=True).exists()
