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
OF_A_PROCESS: dict[str, str] = {"reporter": "string"}
"""What a file of connections may have beside: whose own peak a row is; without it the row is the whole namespace's."""

NOTE = "paired-namespaces.record-ids"
"""Where a file of usage says in its footer what was found of its record_ids when it was written (docs/contract.md)."""
NAME_THEIR_MINUTE, ONCE_EACH = "name their minute", "name their minute, once each"
"""What it says, followed by the number of rows: that ids have their minute where the library's have it
(`pipeline.strays`), and so have no version in another minute; and that all rows have an id, each another one.
"""

KEPT_SHAPE = 8
"""Rises with every change of what an incremental run keeps of a day, or of how it judges rows: it is part of a day's
fingerprint, so that what was kept under other rules is summed again."""

LARGEST_MESSAGE_BYTES = 100 * 1024 * 1024  # Premium's limit, the highest of all tiers
MOST_UNITS = LARGEST_MESSAGE_BYTES // (64 * 1024)  # that one message, or one call, can cost
MOST = 10**12
"""What no process counts in a minute, and no namespace has of connections; millions of such rows can still be added
up."""


def ddl(columns: dict[str, str]) -> str:
    """The columns as a Spark schema, with the partition's `date` as text."""
    return ", ".join(f"{name} {kind}" for name, kind in (*columns.items(), ("date", "string")))
