"""Sockets whose frames a test writes and reads by hand: a client of a gateway, and a primary behind it."""

import socket

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from tests.amqp10.peer import sent

PATIENCE_S = 10
NOTHING = b""


class Wire:
    """One end of a connection."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(PATIENCE_S)
        self.socket, self._data = connected, b""

    @classmethod
    def to(cls, place: str) -> "Wire":
        """A connection to a gateway's listener, by its connection string."""
        host, port = place.partition("sb://")[2].partition(";")[0].split(":")
        return cls(socket.create_connection((host, int(port)), PATIENCE_S))

    def say(self, *data: bytes) -> None:
        """Write bytes."""
        self.socket.sendall(b"".join(data))

    def hear(self) -> bytes:
        """The next protocol header or frame, heartbeats included; nothing at the end of the connection."""
        head = self._take(8)
        return head if head[:4] in (b"AMQP", NOTHING) else head + self._take(int.from_bytes(head[:4]) - 8)

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            data = self.socket.recv(65536)
            if not data:
                return NOTHING
            self._data += data
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def expect(self, *expected: bytes) -> None:
        """Read these headers and frames, and nothing else."""
        for each in expected:
            assert self.hear() == each

    def performative(self) -> object:
        """The performative of the next frame."""
        return p.decode_performative(self.hear()[8:])[0]


class FakePrimary:
    """A port on which a test is the primary namespace."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE_S)
        host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.connection_string = (
            f"Endpoint=sb://{host};SharedAccessKeyName=own;SharedAccessKey=secret;UseDevelopmentEmulator=true;"
        )

    def __enter__(self) -> "FakePrimary":
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def accept(self) -> Wire:
        """The next connection of the gateway."""
        return Wire(self._listening.accept()[0])

    def accept_open(self, **opened: object) -> tuple[Wire, p.SaslInit]:
        """The next connection, opened with these fields, and how it authenticated; its own `open` is not read yet."""
        wire = self.accept()
        wire.expect(SASL_HEADER)
        wire.say(sasl.greeting())
        init, _ = p.decode_performative(wire.hear()[8:], sasl=True)
        wire.say(frame(0, p.encode_performative(p.SaslOutcome(0)), SASL_FRAME), AMQP_HEADER)
        wire.expect(AMQP_HEADER)
        wire.say(sent(p.Open("primary", **opened), channel=0))
        return wire, init
