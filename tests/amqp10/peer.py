"""A client by hand: the frames a test sends to a connection, and what it answers."""

from amqp10 import performatives as p
from amqp10.connection import Connection
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameBuffer, frame
from amqp10.types import Described, ULong


def sent(performative, payload=b"", channel=1):
    """The bytes of one frame."""
    return frame(channel, p.encode_performative(performative) + payload)


def source(address):
    return Described(ULong(p.SOURCE), [address])


def target(address):
    return Described(ULong(p.TARGET), [address])


SASL = SASL_HEADER + frame(0, p.encode_performative(p.SaslInit("ANONYMOUS", b"", "host")), SASL_FRAME)
OPENING = SASL + AMQP_HEADER + sent(p.Open("client", max_frame_size=65536), channel=0)
SESSION = sent(p.Begin(None, 0, 5000, 5000))
SENDER = sent(p.Attach("s", 0, False, 0, 1, source("me"), target("orders"), initial_delivery_count=0))
RECEIVER = sent(p.Attach("r", 1, True, 0, 1, source("orders"), target("me")))


class Peer:
    """A connection and the client at its other end."""

    def __init__(self, *opening):
        self.connection = Connection("server")
        self.events = []
        self.buffer = FrameBuffer(1 << 24)
        for data in opening:
            self.say(data)
        self.heard()

    def say(self, data):
        """Let the connection read these bytes; returns what happened."""
        events = self.connection.receive(data)
        self.events += events
        return events

    def heard(self):
        """The performatives the connection has answered since the last call, with their channels."""
        output = self.connection.take_output()
        for header in (SASL_HEADER, AMQP_HEADER):
            output = output.replace(header, b"")
        self.buffer.feed(output)
        return [
            (channel, *p.decode_performative(body, sasl=kind == SASL_FRAME))
            for kind, channel, body in self.buffer.frames()
            if body
        ]

    def heard_only(self):
        """The one performative it answered."""
        ((_, performative, _),) = self.heard()
        return performative
