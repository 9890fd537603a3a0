"""Several runs, closings and uploads of one month at once, on a database that lets them."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dashboard.costs import storing
from dashboard.costs.charges import request_run
from dashboard.costs.reconciliation import take_statement
from dashboard.costs.storing import close_month, finish, store
from dashboard.costs.terms import set_terms
from dashboard.models import Adjustment, ChargeRun, CostTerms, Invoice, Statement
from tests.dashboard.costs.test_costs import MONTH, RUN, invoice, line, new_run
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.dashboard.costs.test_costs_statements import rows
from tests.dashboard.together import SEVERAL_CONNECTIONS, at_once, in_a_thread

pytestmark = [pytest.mark.postgres, *SEVERAL_CONNECTIONS]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def result(tmp_path: Path) -> Callable[[int], Path]:
    """The result of a run of which the month costs this many cents."""

    def write(cents: int) -> Path:
        path = tmp_path / f"{cents}.jsonl"
        path.write_text("\n".join(map(json.dumps, [RUN, invoice("published", cents), line("send", cents)])))
        return path

    return write


@contextmanager
def while_storing(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> Iterator[None]:
    """The first transaction that stores waits until the other one has ended, or waits for it."""
    save, is_first = storing._Storing.save, threading.Event()

    def save_and_wait(self: Any) -> None:
        save(self)
        if not is_first.is_set():
            is_first.set()
            other = pool.submit(in_a_thread, meanwhile)
            others.append(other)
            with connection.cursor() as cursor:
                while not other.done() and not cursor.execute(WAITING).fetchone()[0]:
                    pass

    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool, monkeypatch.context() as patched:
        patched.setattr(storing._Storing, "save", save_and_wait)
        yield
        others[0].result(60)


def test_of_two_runs_at_once_the_later_one_counts(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
    later = new_run()
    with while_storing(monkeypatch, lambda: store(later, result(900))):
        store(new_run(), result(800))
    assert [(each.run, each.cents) for each in Invoice.objects.all()] == [(later, 900)]


def test_two_runs_at_once_adjust_a_closed_month_once(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
    store(new_run(), result(800))
    close_month(MONTH, timezone.now())
    with while_storing(monkeypatch, lambda: store(new_run(), result(900))):
        store(new_run(), result(900))
    assert [each.cents for each in Adjustment.objects.all()] == [100]
    assert ChargeRun.objects.filter(status="succeeded").count() == 3


def test_a_month_that_is_closed_while_a_run_stores_it_is_closed_with_its_rows(
    monkeypatch: pytest.MonkeyPatch, result: Any
) -> None:
    store(new_run(), result(800))
    with while_storing(monkeypatch, lambda: close_month(MONTH, timezone.now())):
        store(new_run(), result(900))
    store(new_run(), result(950))
    made = Invoice.objects.get()
    assert (made.cents, made.closed_at is None, made.charges.count()) == (900, False, 1)
    assert [each.cents for each in Adjustment.objects.all()] == [50]


def test_uploads_at_once_are_one_statement() -> None:
    bill = rows(billed()).encode()
    at_once(lambda: take_statement(MONTH, "export", "bill.csv", bill, "olga", timezone.now()))
    assert Statement.objects.get().days.count() == 1


def test_terms_chosen_at_once_are_one_choice() -> None:
    at_once(lambda: set_terms(MONTH, {"rule": "settlements"}, "olga", timezone.now()))
    assert CostTerms.objects.get().rule == "settlements"


def test_a_month_that_is_requested_at_once_is_computed_once() -> None:
    finish(new_run(), ChargeRun.Status.SUCCEEDED)
    at_once(lambda: request_run(MONTH, "olga", timezone.now()))
    assert ChargeRun.objects.filter(status=ChargeRun.Status.WANTED).count() == 1
