"""What each process of the control plane sets up: one line per log record on stderr, and few memory arenas.

A record is key=value pairs, or a JSON object if LOG_FORMAT says so. Lines of a request have `request_id`, those of a
task `task_id` and `task`, from any logger.
"""

import ctypes
import logging
import os
import re
from typing import Any

import structlog

FORMATS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
SERVER = ("uvicorn", "uvicorn.error", "uvicorn.access")
QUERY = re.compile(r"\?[^\s\"']*")
FIRST = ["timestamp", "level", "logger", "event"]


def formatter(format: str = "text", **_: Any) -> logging.Formatter:
    """The formatter of the control plane's processes, for loggers of structlog and of the standard library."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _ordered,
            structlog.processors.JSONRenderer(default=str)
            if format == "json"
            else structlog.processors.KeyValueRenderer(),
        ],
    )


class WithoutQueries(logging.Filter):
    """Takes the query off every address in the arguments of a line: it may be a search, or a code of a sign-in."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_query(one) if isinstance(one, str) else one for one in record.args)
        return True


class OneLine(logging.Filter):
    """Makes each request that Django refuses a warning of one line, without a traceback: strangers cause it."""

    def filter(self, record: logging.LogRecord) -> bool:
        is_refusal = record.name == "django.request" and record.levelno == logging.WARNING
        if is_refusal or record.name.startswith("django.security."):
            record.msg, record.args = _without_query(record.getMessage()), ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def adopt_server(format: str) -> None:
    """Lines of uvicorn like all others, and without queries. What `--no-access-log` or `--log-config` say stays so."""
    for name in SERVER:
        logger = logging.getLogger(name)
        logger.addFilter(WithoutQueries())
        for handler in logger.handlers:
            if type(handler.formatter).__module__ == "uvicorn.logging":
                handler.setFormatter(formatter(format))


def _without_query(text: str) -> str:
    return QUERY.sub("", text)


def _ordered(_: Any, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Time, level, logger and event come first."""
    return {name: line[name] for name in FIRST if name in line} | dict(line)


_M_ARENA_MAX = -8
"""malloc.h"""
_ARENAS = 2


def share_arenas() -> None:
    """Let the threads of this process share few arenas; to be called before pyarrow is imported and threads start.

    What the environment says comes first. Where the C library has no arenas (musl, macOS), nothing changes there.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_ARENA_MAX, _ARENAS)
