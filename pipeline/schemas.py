"""The columns of the files the pipeline reads, and what their values may be (docs/costs.md)."""

from __future__ import annotations

SETTLEMENTS = ("settle", "syphon_settle")
TRANSFERS = ("send", "send_backlog", "ping", "syphon_receive", "syphon_send", "receive")
KINDS = (*TRANSFERS, "receive_empty", "syphon_receive_empty", *SETTLEMENTS, "manage")
RULES = ("published", "settlements")
ALLOCATIONS = ("time", "pro-rata")

USAGE: dict[str, str] = {
    "record_id": "string",
    "minute": "timestamp",
    "scope": "string",
    "pair": "string",
    "namespace": "string",
    "entity": "string",
    "kind": "string",
    "reporter": "string",
    "seq": "long",
    "operations": "long",
    "messages": "long",
    "bytes": "long",
    "billing_units": "long",
}
CONNECTIONS: dict[str, str] = {"hour": "timestamp", "scope": "string", "namespace": "string", "peak": "long"}

KEY = ("scope", "pair", "namespace", "entity", "kind")
SUMS = ("operations", "messages", "bytes", "billing_units", "rows")
"""What the day sums have of each hour and KEY."""
LONGEST = {"scope": 200, "pair": 63, "namespace": 260, "entity": 300}
"""Bytes; no longer name can be stored."""

FUTURE = "the minute lies in the future"
LARGEST_MESSAGE_BYTES = 100 * 1024 * 1024  # Premium's limit, the highest of all tiers
MOST_UNITS = LARGEST_MESSAGE_BYTES // (64 * 1024)  # that one message, or one call, can cost
MOST = 10**12
"""What no process counts in a minute, and no namespace has of connections; millions of such rows can still be added
up."""


def ddl(columns: dict[str, str]) -> str:
    """The columns as a Spark schema, with the partition's `date`."""
    return ", ".join(f"{name} {kind}" for name, kind in (*columns.items(), ("date", "date")))
