"""A client of raw frames over TCP, whose transactions move messages: each can be broken off anywhere."""

import random
import select
import socket
from pathlib import Path

from amqp10 import performatives as p
from amqp10.codec import decode, encode
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameBuffer, frame
from amqp10.types import Described, ULong
from tests.amqp10.peer import sent, source, target

COORDINATOR, ORDERS_IN, ORDERS_OUT, MOVED_OUT = range(4)
MOVED_IN = 0
LINKS = [
    (1, COORDINATOR, False, source("me"), Described(ULong(p.COORDINATOR), [])),
    (1, ORDERS_IN, True, source("orders"), target("me")),
    (1, ORDERS_OUT, False, source("me"), target("orders")),
    (1, MOVED_OUT, False, source("me"), target("moved")),
    (2, MOVED_IN, True, source("moved"), target("me")),
]


class Mover:
    """Each transaction completes all orders, sends some with a higher number, and this number to `moved`.

    Its coordinator comes first in the session: what goes to `moved` is sent through `orders`.
    """

    def __init__(self, connection_string: str) -> None:
        fields = dict(part.split("=", 1) for part in connection_string.rstrip(";").split(";"))
        host, _, port = fields["Endpoint"].removeprefix("sb://").partition(":")
        self.socket, self.buffer = socket.create_connection((host, int(port)), 60), FrameBuffer(1 << 24)
        self._delivery, self._taken, self._seen = 0, [], {}
        credentials = f"\0{fields['SharedAccessKeyName']}\0{fields['SharedAccessKey']}".encode()
        init = p.encode_performative(p.SaslInit("PLAIN", credentials, host))
        opening = SASL_HEADER + frame(0, init, SASL_FRAME) + AMQP_HEADER + sent(p.Open("mover"), channel=0)
        for channel in (1, 2):
            opening += sent(p.Begin(None, 0, 5000, 5000), channel=channel)
        for channel, handle, role, *ends in LINKS:
            deletes, count = int(channel == 2), None if role else 0
            attach = p.Attach(f"{channel}/{handle}", handle, role, deletes, 1, *ends, initial_delivery_count=count)
            opening += sent(attach, channel=channel)
        self.socket.sendall(opening)
        self._skip_header()
        self._until(p.SaslOutcome)
        self._skip_header()
        for _ in LINKS:
            self._until(p.Attach)

    def _skip_header(self) -> None:
        while self.buffer.take(8) is None:
            self.buffer.feed(self.socket.recv(65536))

    def _until(self, kind: type, **fields) -> list[tuple]:
        """The performatives and payloads up to the first of this kind with these fields."""
        found = []
        while True:
            for what, _, body in self.buffer.frames():
                performative, end = p.decode_performative(body, sasl=what == SASL_FRAME)
                found.append((performative, body[end:]))
                if (
                    isinstance(performative, kind)
                    and fields.items() <= {key: getattr(performative, key) for key in fields}.items()
                ):
                    return found
            self.buffer.feed(self.socket.recv(65536))

    def _transfer(self, handle: int, payload: bytes, state=None) -> bytes:
        self._delivery += 1
        return sent(p.Transfer(handle, self._delivery, b"t", 0, state=state), payload)

    def _control(self, code: int, *fields) -> bytes:
        return self._transfer(COORDINATOR, b"\x00\x53\x77" + encode(Described(ULong(code), list(fields))))

    def _drain(self, channel: int, handle: int) -> list[tuple]:
        """All messages of a receiver: the delivery id and the body of each."""
        seen = self._seen.get((channel, handle), 0)
        self.socket.sendall(sent(p.Flow(0, 5000, 0, 5000, handle, seen, 1000, drain=True), channel=channel))
        *heard, (flow, _) = self._until(p.Flow, drain=True)
        self._seen[channel, handle] = flow.delivery_count
        transfers = [each for each in heard if isinstance(each[0], p.Transfer)]
        bodies = [decode(payload, payload.index(b"\x00\x53\x75") + 3)[0] for _, payload in transfers]
        return [(transfer.delivery_id, body) for (transfer, _), body in zip(transfers, bodies, strict=True)]

    def orders(self) -> list[bytes]:
        self._taken += self._drain(1, ORDERS_IN)
        return [body for _, body in self._taken]

    def moved(self) -> list[bytes]:
        return [body for _, body in self._drain(2, MOVED_IN)]

    def move(self, chance: random.Random, number: int) -> None:
        """A whole transaction."""
        self.socket.sendall(self.transaction(chance, number))
        ((answer, _),) = self._until(p.Disposition, first=self._delivery, role=True)[-1:]
        assert p.outcome(answer.state) == (p.ACCEPTED, []), answer.state

    def transaction(self, chance: random.Random, number: int) -> bytes:
        """The frames of a transaction that is declared, its discharge last."""
        self.socket.sendall(self._control(p.DECLARE, None))
        _, (name,) = p.outcome(self._until(p.Disposition)[-1][0].state)
        settled = p.transactional(name, p.accepted())
        self.orders()
        frames = [sent(p.Disposition(True, delivery, None, False, settled)) for delivery, _ in self._taken]
        self._taken.clear()
        count = chance.randrange(1, 60)
        for handle, body in [(MOVED_OUT, b"%d" % number), *[(ORDERS_OUT, b"%d of %d" % (number, count))] * count]:
            frames.append(self._transfer(handle, b"\x00\x53\x75" + encode(body), p.transactional(name, None)))
        return b"".join(frames) + self._control(p.DISCHARGE, name, False)

    def wait_for_a_write(self, file: Path, before: int) -> None:
        """Until the store is being written, or the answer to the discharge is there."""
        while file.stat().st_mtime_ns == before and not select.select([self.socket], [], [], 0)[0]:
            pass
