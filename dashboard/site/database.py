"""An unavailable database: the errors that indicate it, and one sentence about the cause."""

import threading

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

AWAY = (OperationalError, InterfaceError)
"""Errors of Django when the database does not respond, closes a connection, or remains locked."""
RETRY_AFTER_S = 5
SENTENCE = "The database does not answer. Nothing was changed; try again in a few seconds."
NOT_MIGRATED = "The database {} is not migrated: run manage.py migrate first."
REFUSALS = ("42501", "3F000")
"""SQLSTATE of a missing right, and of a schema that the role cannot see."""
MOST_OF_A_REASON = 300
log = structlog.get_logger(__name__)


def problem_of(error: DatabaseError) -> str:
    """The problem of the database and what to do about it, found by querying it. The text contains no credentials."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as now:
        if _is_refusal(now):
            return _refusal(now)
        return f"The database {_name()} does not answer ({_first_line(error)}). Start it, or correct DATABASE_URL."
    if _is_refusal(error):
        return _refusal(error)
    if missing:
        return NOT_MIGRATED.format(_name())
    return f"The database {_name()} rejected a statement ({_first_line(error)})."


def note_sizes() -> None:
    """Let SQLite note how much its tables hold, by which it chooses indexes; PostgreSQL does so by itself."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA analysis_limit = 1000")
            cursor.execute("ANALYZE")


def report() -> None:
    """Log what is wrong with the database, if anything is, without waiting for it: a process has started."""
    threading.Thread(target=_report, name="database-check", daemon=True).start()


def problem_now() -> str:
    """The present problem of the database, as in ``problem_of``; empty if it answers and is migrated."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        return NOT_MIGRATED.format(_name()) if missing else ""
    except DatabaseError as error:
        return problem_of(error)


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
