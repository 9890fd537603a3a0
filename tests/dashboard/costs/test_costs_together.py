"""Several runs and uploads of one month at once, on a database that lets them."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dashboard.costs.bill.reconciliation import import_bill
from dashboard.costs.runs import storing
from dashboard.costs.runs.charges import request_run
from dashboard.costs.runs.storing import finish, store
from dashboard.models import ChargeRun, Invoice, Statement
from tests.dashboard.costs.test_costs import MONTH, RUN, invoice, line, new_run
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.dashboard.costs.test_costs_statements import rows
from tests.dashboard.results import result_of
from tests.dashboard.together import SEVERAL_CONNECTIONS, at_once, in_a_thread

pytestmark = [pytest.mark.postgres, *SEVERAL_CONNECTIONS]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def result(tmp_path: Path) -> Callable[[int], Path]:
    """The result of a run of which the month costs this many cents."""

    def write(cents: int) -> Path:
        folder = tmp_path / f"{cents}"
        folder.mkdir()
        return result_of(folder, [RUN, invoice("published", cents), line("send", cents)])

    return write


@contextmanager
def while_storing(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> Iterator[None]:
    """The first transaction that stores waits until the other one has ended, or waits for it."""
    save, is_first = storing.keep_report, threading.Event()

    def save_and_wait(run: ChargeRun) -> None:
        save(run)
        if not is_first.is_set():
            is_first.set()
            other = pool.submit(in_a_thread, meanwhile)
            others.append(other)
            with connection.cursor() as cursor:
                while not other.done() and not cursor.execute(WAITING).fetchone()[0]:
                    pass

    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patched:
        patched.setattr(storing, "keep_report", save_and_wait)
        yield
        others[0].result(60)


def test_of_two_runs_at_once_the_later_one_counts(monkeypatch, result):
    later = new_run()
    with while_storing(monkeypatch, lambda: store(later, result(900))):
        store(new_run(), result(800))
    assert [(each.run, each.cents) for each in Invoice.objects.all()] == [(later, 900)]


def test_uploads_at_once_are_one_statement():
    bill = rows(billed()).encode()
    at_once(lambda: import_bill(MONTH, "bill.csv", bill, "olga", timezone.now()))
    assert Statement.objects.get().days.count() == 1


def test_a_month_that_is_requested_at_once_is_computed_once():
    finish(new_run(), ChargeRun.Status.SUCCEEDED)
    at_once(lambda: request_run(MONTH, "olga", timezone.now()))
    assert ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).count() == 1
