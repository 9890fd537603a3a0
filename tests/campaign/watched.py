"""A gateway whose clients' frames are watched: `python -m tests.campaign.watched JOURNAL …`, then as the command.

Its journal has what a client saw of a guarded delivery that a safeguard should have kept from it, and each outcome that
came late: how long the SDK waits beyond that is its own.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from amqp10 import performatives as p
from amqp10.codec import decode
from amqp10.frame_fields import FrameFields, outcome_of
from gateway import command
from gateway.guard.guard import guarded_path
from gateway.server import Gateway
from tests.campaign.journal import Journal, now

LATE_S = 5.0
KNOWN = (p.ACCEPTED, p.REJECTED)
Note = Callable[[str, float], None]


class Watch:
    """One client's connection, from the bytes of both ways."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._said, self._answered = bytearray(), bytearray()
        self._channels: dict[int, int] = {}
        """The client's, by the gateway's."""
        self._links: dict[tuple[int, str], int] = {}
        """The client's handles of guarded links, by channel and name."""
        self._behind: dict[tuple[int, int], int] = {}
        """The same by the gateway's handles, once it has accepted a link."""
        self._begun: dict[tuple[int, int], int] = {}
        """Incomplete deliveries, by channel and handle."""
        self._unsettled: dict[tuple[int, int], tuple[int, float]] = {}
        """The handle, and since when, by channel and delivery."""

    def said(self, data: bytes) -> None:
        """Bytes of the client."""
        for channel, fields in _frames(self._said, data):
            match fields.code:
                case p.Attach.CODE:
                    target = p.terminus(decode(fields.encoded("target"))[0])
                    if guarded_path(fields.value("role"), target, None) is not None:
                        self._links[channel, fields.value("name")] = fields.value("handle")
                case p.Transfer.CODE if fields.value("handle") in self._links.values():
                    self._transfer(channel, fields)
                case p.Detach.CODE:
                    self._left(channel, fields.value("handle"))
                case p.End.CODE:
                    self._left(channel, None)

    def _transfer(self, channel: int, fields: FrameFields) -> None:
        handle, number = fields.value("handle"), fields.value("delivery_id")
        number = self._begun.pop((channel, handle), number)
        if fields.value("more"):
            self._begun[channel, handle] = number
        elif not (fields.value("aborted") or fields.value("settled")):
            self._unsettled[channel, number] = handle, time.monotonic()

    def _left(self, channel: int, handle: int | None) -> int:
        """Forget what the client, or the gateway, ends; returns how many deliveries had no outcome."""
        gone = [key for key, (of, _) in self._unsettled.items() if key[0] == channel and handle in (of, None)]
        for key in gone:
            del self._unsettled[key]
        return len(gone)

    def answered(self, data: bytes) -> None:
        """Bytes of the gateway."""
        for back, fields in _frames(self._answered, data):
            channel = self._channels.get(back, -1)
            match fields.code:
                case p.Begin.CODE:
                    self._channels[back] = fields.value("remote_channel")
                case p.Attach.CODE if p.terminus(decode(fields.encoded("target"))[0]) is not None:
                    if (handle := self._links.get((channel, fields.value("name")))) is not None:
                        self._behind[back, fields.value("handle")] = handle
                case p.Disposition.CODE if fields.value("role"):
                    self._settled(channel, fields)
                case p.Detach.CODE if (handle := self._behind.pop((back, fields.value("handle")), None)) is not None:
                    if count := self._left(channel, handle):
                        self._note(f"a detach with {count} deliveries without an outcome", 0.0)

    def _settled(self, channel: int, fields: FrameFields) -> None:
        first, last = fields.value("first"), fields.value("last")
        for number in range(first, (first if last is None else last) + 1):
            _, since = self._unsettled.pop((channel, number), (0, time.monotonic()))
            code, took_s = outcome_of(fields.encoded("state"))[0], time.monotonic() - since
            if code not in KNOWN or took_s > LATE_S:
                self._note("" if code in KNOWN else f"the outcome {code:#x}", took_s)

    def lost(self) -> None:
        """The connection has ended: what it took so far for what has no outcome."""
        for _, since in self._unsettled.values():
            if (took_s := time.monotonic() - since) > LATE_S:
                self._note("", took_s)


def _frames(buffer: bytearray, data: bytes) -> Iterator[tuple[int, FrameFields]]:
    """The frames that are complete, with their channels; without heartbeats, and without SASL."""
    buffer += data
    while len(buffer) >= 8:
        size = 8 if buffer.startswith(b"AMQP") else int.from_bytes(buffer[:4])
        if len(buffer) < size:
            return
        whole = bytes(buffer[:size])
        del buffer[:size]
        if size > 8 and whole[5] == 0:
            yield int.from_bytes(whole[6:8]), FrameFields(whole[8:])


def watch(gateway: Any, note: Note) -> None:
    """Watch all clients that connect from now on."""
    serve = gateway._serve

    def watched(self: Any, connection: Any) -> Any:
        served, one = serve(self, connection), Watch(note)
        receive, write, lost = served.receive, connection.write, served.lost
        served.receive = lambda data: (one.said(data), receive(data))
        connection.write = lambda data: (one.answered(data), write(data))
        served.lost = lambda: (one.lost(), lost())
        return served

    gateway._serve = watched


def main() -> int:
    journal = Journal(Path(sys.argv[1]))
    watch(Gateway, lambda what, took_s: journal.write({"kind": "seen", "at": now(), "what": what, "took_s": took_s}))
    return command.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
