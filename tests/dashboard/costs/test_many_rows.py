"""The rows of an invoice are stored a chunk at a time."""

from pathlib import Path

import pytest

from dashboard.costs import many_rows
from dashboard.costs.storing import store
from dashboard.models import Charge, DailyCharge
from tests.dashboard.costs.test_costs import DAY, RUN, invoice, line, new_run
from tests.dashboard.costs.test_result_file import write


@pytest.mark.django_db
@pytest.mark.parametrize("rows", [4, 5])
def test_every_row_is_stored_whether_or_not_the_last_chunk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(many_rows, "CHUNK", 2)
    lines = [line("send", n, entity=f"orders/{n}") | {"tiers": [n, 7]} for n in range(rows)]
    store(new_run(), write(tmp_path / "result.jsonl", [RUN, invoice("published", 10), *lines, DAY]))
    stored = Charge.objects.order_by("entity")
    assert [(row.entity, row.cents, row.tiers) for row in stored] == [
        (each["entity"], each["cents"], each["tiers"]) for each in lines
    ]
    assert [f"{row.date}" for row in DailyCharge.objects.all()] == [DAY["date"]]
