"""Several processes at once, on a database that lets them."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connection, connections

Found = TypeVar("Found")

ONLY_POSTGRESQL = "SQLite's database for tests is in memory and has one connection; test_postgres.py runs this"
SEVERAL_CONNECTIONS = (
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason=ONLY_POSTGRESQL),
)
"""The marks of such tests beside `postgres`, by which test_postgres.py finds their files."""


def in_a_thread(work: Callable[..., Found], *arguments: object) -> Found:
    """What the work came to; the connections of its thread are closed."""
    try:
        return work(*arguments)
    finally:
        connections.close_all()


def at_once(work: Callable[[], Found], count: int = 6) -> list[Found]:
    """What each of several workers came to; all begin together."""
    gate = threading.Barrier(count)

    def one(_: int) -> Found:
        gate.wait(60)
        return in_a_thread(work)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
