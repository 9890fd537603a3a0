"""Metrics of Azure Monitor for a month (docs/pricing.md, section 11): totals by day, connections by hour.

Users upload the files, so they may contain anything. An unusable file is rejected with one sentence; an unusable row is
skipped and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil
from typing import Any, BinaryIO

from dashboard.costs.statements import (
    Adder,
    Parsed,
    Peak,
    StatementError,
    Sum,
    Unusable,
    day_of,
    number_of,
    resource_of,
    text_of,
    why,
)

TOTALS = (
    "IncomingMessages",
    "OutgoingMessages",
    "IncomingBytes",
    "OutgoingBytes",
    "CompleteMessage",
    "AbandonMessage",
)
CONNECTIONS = "ActiveConnections"
GRAIN = re.compile(r"PT(?:(\d{1,2})H)?(?:(\d{1,2})M)?|(\d{1,2}):(\d{2}):00")
MOST_CONNECTIONS = 10**9


def read_metrics(file: BinaryIO, month: str) -> Parsed:
    """Read the metrics of the month from answers of the metrics API, or from JSON lines of diagnostic settings."""
    adder = Adder(month)
    adder.take(_points(text_of(file)), _measured)
    if not adder.rows:
        raise StatementError(f"The file has no metric of Service Bus in {month}{why(adder.skipped)}.")
    return Parsed(sums=adder.sums(False), rows=adder.rows, skipped=dict(adder.skipped), peaks=adder.peaks())


def _points(text: str) -> Iterator[Any]:
    try:
        whole = json.loads(text, parse_float=Decimal)
    except RecursionError:
        raise StatementError("The file cannot be parsed as JSON: it is nested too deeply.") from None
    except ValueError:
        yield from _lines(text)
        return
    answers = whole if isinstance(whole, list) else [whole]
    for answer in answers:
        if isinstance(answer, dict) and isinstance(answer.get("value"), list):
            for metric in answer["value"]:
                yield from _series(metric, answer.get("interval"))
        else:
            yield answer


def _lines(text: str) -> Iterator[Any]:
    for line in text.splitlines():
        if line.strip():
            try:
                yield json.loads(line, parse_float=Decimal)
            except (ValueError, RecursionError):
                raise StatementError(
                    "The file is not JSON: it contains neither one value nor one value per line."
                ) from None


def _series(metric: Any, grain: Any) -> Iterator[dict[str, Any]]:
    """The points of one metric of an API answer, in the shape of exported ones."""
    try:
        for series in metric["timeseries"]:
            for point in series["data"]:
                named = {"metricName": metric["name"]["value"], "resourceId": metric["id"], "timeGrain": grain}
                reported = {name: point.get(name) for name in ("total", "maximum")}
                yield named | reported | {"time": point["timeStamp"]}
    except (KeyError, TypeError, AttributeError):
        raise StatementError(
            "This is not an answer of the Azure Monitor metrics API: name, id, timeseries or data is missing."
        ) from None


def _measured(point: Any) -> Sum | Peak:
    if not isinstance(point, dict):
        raise Unusable("that are not metrics")
    if point.get("metricName") not in (*TOTALS, CONNECTIONS):
        raise Unusable("of other metrics")
    resource = resource_of(str(point.get("resourceId", "")))
    if resource is None:
        raise Unusable("of other services")
    scope, namespace = resource
    if point["metricName"] == CONNECTIONS:
        hour = _hour(str(point.get("time", "")))
        return Peak(hour=hour, scope=scope, namespace=namespace, connections=_connections(point))
    if point.get("total") is None:
        raise Unusable("without a total")
    return Sum(
        date=day_of(str(point.get("time", ""))[:10]),
        scope=scope,
        namespace=namespace,
        meter=str(point["metricName"]),
        quantity=number_of(str(point["total"])),
    )


def _connections(point: dict[str, Any]) -> int:
    """The most concurrent connections: the maximum of the interval, or the total of a one-minute sample."""
    minutes = _minutes(point.get("timeGrain"))
    if minutes > 60:
        raise Unusable("of connections over more than an hour")
    reported = point.get("maximum")
    if reported is None and minutes == 1:
        reported = point.get("total")
    if reported is None:
        raise Unusable("of connections over more than a minute, without a maximum")
    number = number_of(str(reported))
    if not 0 <= number <= MOST_CONNECTIONS:
        raise Unusable("with an unreadable number")
    return ceil(number)


def _minutes(grain: Any) -> int:
    """The interval of a point in minutes, from PT1M or 0:01:00. An hour if missing, so that a total is not used."""
    match = GRAIN.fullmatch(str(grain).strip().upper())
    if match is None:
        return 60 if grain in (None, "") else 24 * 60
    return sum(
        60 * int(hours or 0) + int(minutes or 0) for hours, minutes in ((match[1], match[2]), (match[3], match[4]))
    )


def _hour(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Unusable("with an unreadable date") from None
    return moment.replace(minute=0, second=0, microsecond=0)
