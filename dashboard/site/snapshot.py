"""One reading of the database for all figures of a page: what workers store meanwhile is in the next reading."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse

View = Callable[..., HttpResponse]
READ_ONCE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@contextmanager
def one_reading() -> Iterator[None]:
    """All queries of the block see the database at one moment. Nothing is locked, and the block must not write."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(READ_ONCE)
            yield
    else:
        with _deferred(), transaction.atomic():
            yield


@contextmanager
def _deferred() -> Iterator[None]:
    """SQLite reads a snapshot within a transaction; it must not begin with the lock of a writer."""
    sqlite: Any = connection
    before = sqlite.transaction_mode
    sqlite.transaction_mode = "DEFERRED"
    try:
        yield
    finally:
        sqlite.transaction_mode = before


def from_one_reading(view: View) -> View:
    """A page whose figures are all from one reading."""

    @wraps(view)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with one_reading():
            return view(request, *args, **kwargs)

    return page
