"""One of the two connections of a relay: frames in, bytes out, and how long it may be silent."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import Protocol

from amqp10.connection import EMPTY_FRAME
from amqp10.events import MAX_HEARTBEAT_S, MIN_HEARTBEAT_S
from amqp10.frames import FrameBuffer, frame

MAX_FRAME_SIZE = 1024 * 1024
_MAX_FIRST_FRAMES = 64 * 1024  # until both have opened
_SILENCES = 2  # A peer announces about half of how long it waits.


class Phase(Enum):
    """What is read next."""

    HEADER = auto()
    SASL = auto()
    OUTCOME = auto()
    AMQP_HEADER = auto()
    FRAMES = auto()
    CLOSED = auto()


class SideRelay(Protocol):
    """The relay of a client, as its two sides see it."""

    def begin(self, init: bytes | None) -> None: ...
    def show(self, shown: str, *, is_proof: bool) -> None: ...
    def sasl_ended(self, outcome: bytes, code: int) -> None: ...
    def from_client(self, channel: int, body: bytes) -> None: ...
    def from_primary(self, channel: int, body: bytes) -> None: ...
    def flush(self) -> None: ...
    def read_client(self) -> None: ...
    def read_primary(self, is_read: bool) -> None: ...
    def client_lost(self) -> None: ...
    def primary_lost(self, reason: str) -> None: ...
    def close(self, condition: str, description: str) -> None: ...
    def end(self) -> None: ...


class Side(ABC):
    """The connection to a client, or the one to the primary."""

    def __init__(self) -> None:
        self.phase = Phase.HEADER
        self.buffer = FrameBuffer(_MAX_FIRST_FRAMES)
        self.has_read = self._has_written = False
        self._output: list[bytes] = []
        self._pulse: asyncio.TimerHandle | None = None
        self._silent_s = 0.0

    @property
    @abstractmethod
    def is_reading(self) -> bool:
        """Whether the peer could be heard."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Write bytes to the socket."""

    @abstractmethod
    def silent(self) -> None:
        """The peer has sent nothing for too long."""

    def send(self, channel: int, body: bytes) -> None:
        """Write a frame with the next `flush`."""
        self._output.append(frame(channel, body))

    @property
    def held(self) -> int:
        """How many bytes wait to be written."""
        return sum(map(len, self._output))

    def flush(self) -> None:
        """Write the frames since the last call at once."""
        if self._output:
            data = b"".join(self._output) if len(self._output) > 1 else self._output[0]
            self._output.clear()
            self._has_written = True
            self.write(data)

    # --- heartbeats ------------------------------------------------------------------------------------------------

    def keep_alive(self, peer_ms: int | None, own_ms: int | None) -> None:
        """Send heartbeats to a peer that announced an idle time-out; expect them by the one announced to it."""
        beat_s = min(max(peer_ms / 2000, MIN_HEARTBEAT_S), MAX_HEARTBEAT_S) if peer_ms else None
        limit_s = own_ms / 1000 * _SILENCES if own_ms else None
        if beat_s or limit_s:
            self._rest(beat_s, limit_s)

    def _rest(self, beat_s: float | None, limit_s: float | None) -> None:
        pause_s = min(beat_s or MAX_HEARTBEAT_S, limit_s or MAX_HEARTBEAT_S) / _SILENCES  # as one pause may be skipped
        self._pulse = asyncio.get_running_loop().call_later(pause_s, self._beat, beat_s, limit_s, pause_s)

    def _beat(self, beat_s: float | None, limit_s: float | None, passed_s: float) -> None:
        self._silent_s = 0.0 if self.has_read or not self.is_reading else self._silent_s + passed_s
        if beat_s and not self._has_written:
            self.write(EMPTY_FRAME)
        self.has_read = self._has_written = False
        if limit_s and self._silent_s >= limit_s:
            self.silent()
        else:
            self._rest(beat_s, limit_s)

    def stop(self) -> None:
        """The connection is over."""
        self.phase = Phase.CLOSED
        self._output.clear()
        if self._pulse is not None:
            self._pulse.cancel()
