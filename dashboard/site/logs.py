"""One line per log record on stderr: key=value pairs, or a JSON object if LOG_FORMAT says so.

Lines of a request have `request_id`, those of a task `task_id` and `task`, from any logger.
"""

import logging
from typing import Any

import structlog

FORMATS = ("text", "json")
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


def _ordered(_: Any, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Time, level, logger and event come first."""
    return {name: line[name] for name in FIRST if name in line} | dict(line)
