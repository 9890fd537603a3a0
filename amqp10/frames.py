"""Frames out of a stream of bytes, and back."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from amqp10.types import AmqpError

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_FRAME, SASL_FRAME = 0, 1
MIN_MAX_FRAME_SIZE = 512

_HEAD = struct.Struct(">IBBH")


class FrameBuffer:
    """Collects bytes and returns whole frames. Buffers at most one frame more than it was last fed.

    The pieces of a frame are joined once, when it is complete, so that sending it byte by byte costs no more.
    """

    __slots__ = ("_data", "_pieces", "_position", "_size", "_wanted", "max_frame_size")

    def __init__(self, max_frame_size: int) -> None:
        self._data = b""
        self._position = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = 8
        self.max_frame_size = max_frame_size

    def feed(self, data: bytes) -> None:
        """Append bytes from the socket."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= self._wanted:
            rest = self._data[self._position :]
            self._data = rest + b"".join(self._pieces) if rest or len(self._pieces) > 1 else data
            self._position = 0
            self._pieces.clear()
            self._size = 0

    def take(self, size: int) -> bytes | None:
        """The next `size` bytes, or None until they are there."""
        end = self._position + size
        if end > len(self._data):
            self._want(size)
            return None
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Type, channel and body of each whole frame. Raises AmqpError on an invalid frame."""
        while len(self._data) - self._position >= 8:
            size, offset, kind, channel = _HEAD.unpack_from(self._data, self._position)
            if size < 8 or size > self.max_frame_size or offset < 2 or offset * 4 > size:
                raise AmqpError("amqp:connection:framing-error", f"invalid frame of {size} bytes")
            end = self._position + size
            if end > len(self._data):
                self._want(size)
                return
            body = self._data[self._position + offset * 4 : end]
            self._position = end
            yield kind, channel, body
        self._want(8)

    def _want(self, size: int) -> None:
        """Join the next pieces once this many bytes are there, including those left over."""
        self._wanted = size - (len(self._data) - self._position)


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    """The bytes of one frame."""
    return _HEAD.pack(8 + len(body), 2, kind, channel) + body
