"""An unavailable database: the errors that indicate it, and one sentence about the cause."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import structlog
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model
from django.http import HttpRequest, HttpResponse

AWAY = (OperationalError, InterfaceError)
"""Errors of Django when the database does not respond, closes a connection, or remains locked."""
RETRY_AFTER_S = 5
SENTENCE = "The database does not answer. Nothing was changed; try again in a few seconds."
NOT_MIGRATED = "The database {} is not migrated: run manage.py migrate first."
UNRELEASED = (
    "The database {} is of a version before the first release, from which none is migrated: with that version, export "
    "/events.csv, /audit.csv and the /costs.csv of each month that you need, delete the database (of a demo, its "
    "folder .demo), and run manage.py migrate."
)
INITIAL = ("dashboard", "0001_control_plane")
REFUSALS = ("42501", "3F000")
"""SQLSTATE of a missing right, and of a schema that the role cannot see."""
MOST_OF_A_REASON = 300
BATCH = 500
"""Rows in one statement of Django's own."""


class Unavailable(Exception):
    """An external service that is needed does not respond or refuses. The text is for people."""


log = structlog.get_logger(__name__)


def problem_of(error: DatabaseError) -> str:
    """The problem of the database and what to do about it, found by querying it. The text contains no credentials."""
    try:
        missing = _unmigrated()
    except DatabaseError as now:
        if _is_refusal(now):
            return _refusal(now)
        return f"The database {_name()} does not answer ({_first_line(error)}). Start it, or correct DATABASE_URL."
    if _is_refusal(error):
        return _refusal(error)
    if missing:
        return missing
    return f"The database {_name()} rejected a statement ({_first_line(error)})."


def note_sizes() -> None:
    """Let SQLite note how much its tables hold, by which it chooses indexes; PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA analysis_limit = 1000")
            cursor.execute("ANALYZE")


def upsert(rows: Sequence[Model], key: Sequence[str], sets: Sequence[str]) -> None:
    """Store rows; of one whose key is known, set these fields.

    It is one statement for all: Django's own takes at most 999 values on SQLite, which is few rows.
    """
    if not rows:
        return
    meta, quoted = type(rows[0])._meta, connection.ops.quote_name
    fields = [field for field in meta.concrete_fields if not field.primary_key or "pk" in key]
    columns = {"pk" if field.primary_key else field.name: quoted(str(field.column)) for field in fields}
    changed = ", ".join(f"{columns[name]} = excluded.{columns[name]}" for name in sets)
    # The names are those of the model.
    statement = (
        f"INSERT INTO {quoted(meta.db_table)} ({', '.join(columns.values())}) "  # noqa: S608
        f"VALUES ({', '.join(['%s'] * len(columns))}) "
        f"ON CONFLICT ({', '.join(columns[name] for name in key)}) DO UPDATE SET {changed}"
    )
    values = [[field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields] for row in rows]
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.executemany(statement, values)


def report() -> None:
    """Log what is wrong with the database, if anything is, without waiting for it: a process has started."""
    threading.Thread(target=_report, name="database-check", daemon=True).start()


def problem_now() -> str:
    """The present problem of the database, as in ``problem_of``; empty if it answers and is migrated."""
    try:
        return _unmigrated()
    except DatabaseError as error:
        return problem_of(error)


def refuse_unreleased(using: str, **_: Any) -> None:
    """Before a migration: raise ImproperlyConfigured if the database is of a version before the first release."""
    if _is_unreleased(MigrationRecorder(connections[using])):
        raise ImproperlyConfigured(UNRELEASED.format(_name()))


def _is_unreleased(recorder: MigrationRecorder) -> bool:
    applied = recorder.applied_migrations()
    return INITIAL not in applied and any(app == INITIAL[0] for app, _ in applied)


def _unmigrated() -> str:
    """The sentence about missing migrations; empty if none is missing."""
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return ""
    return (UNRELEASED if _is_unreleased(executor.recorder) else NOT_MIGRATED).format(_name())


def _report() -> None:
    try:
        problem = problem_now()
    finally:
        connection.close()
    if problem:
        log.error("the database cannot be used", problem=problem)


def _refusal(error: DatabaseError) -> str:
    return f"The role of DATABASE_URL has no right to use the database {_name()} ({_first_line(error)})."


def _is_refusal(error: BaseException | None) -> bool:
    """Whether the error, or one that caused it, says that the role has no right to do this."""
    if error is None:
        return False
    is_it = getattr(error, "sqlstate", None) in REFUSALS
    return is_it or _is_refusal(error.__cause__ or error.__context__)


def _name() -> str:
    settings = connection.settings_dict
    host, port = settings.get("HOST"), settings.get("PORT")
    return f"{settings['NAME']}" + (f" at {host}" if host else "") + (f":{port}" if port else "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:MOST_OF_A_REASON]


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
