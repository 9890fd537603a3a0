"""All figures of a page are from one reading, whatever is stored while it is read."""

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection

from dashboard.fleet.boards import board, watched_pairs
from dashboard.fleet.state import message_counts
from dashboard.models import EntityHealth, Pair
from dashboard.site.database import one_reading
from tests import forked, migrated
from tests.dashboard.conftest import NOW
from tests.dashboard.fleet.test_projection import Queue
from tests.dashboard.served import DATABASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ON_A_FILE = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
django.setup()
from dashboard.models import Pair
from tests.dashboard.conftest import NOW
from tests.dashboard.site import test_snapshot
pair = Pair.objects.create(name="contoso", primary_namespace="contoso", secondary_namespace="dr", synced_at=NOW)
test_snapshot.later_samples_are_not_in_a_reading(pair)
"""


def in_another_thread(change: Callable[[], object]) -> None:
    """The change, on a connection of its own."""

    def run() -> None:
        try:
            change()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def store(messages: int, second: int) -> None:
    at = NOW + timedelta(seconds=second)
    message_counts.record_depths("contoso", [Queue(active=messages)], at)
    message_counts.record_waiting("contoso", {"orders": messages}, at)


def waiting(pair: Pair) -> tuple[int, int]:
    """The messages of the pair by its queues, and by its entities."""
    shown = board(NOW, watched_pairs(NOW).filter(pk=pair.pk), EntityHealth.objects.filter(pair=pair)).pairs[0]
    return shown.totals.messages, sum(row.entity.waiting or 0 for row in shown.rows)


def later_samples_are_not_in_a_reading(pair: Pair) -> None:
    store(5, 1)
    with one_reading():
        assert waiting(pair) == (5, 5)
        in_another_thread(lambda: store(9, 2))
        assert waiting(pair) == (5, 5)
    assert waiting(pair) == (9, 9)
    store(4, 3)
    assert waiting(pair) == (4, 4)


def test_a_page_is_one_reading_and_keeps_no_writer_waiting(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if connection.vendor == "postgresql":
        later_samples_are_not_in_a_reading(request.getfixturevalue("pair"))
        return
    migrated.copy(tmp_path / DATABASE)  # the database of the tests is in memory, where one connection locks out others
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    forked.run(("-c", ON_A_FILE), environment | {"STATE_DIR": str(tmp_path)}, check=True)
