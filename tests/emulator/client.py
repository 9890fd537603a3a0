"""A client of a namespace in memory, made of raw frames, and what messages it sends."""

import time
import uuid

from amqp10 import performatives as p
from amqp10 import sas
from amqp10.codec import decode, encode
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameBuffer
from amqp10.sections import APPLICATION_PROPERTIES, VALUE, split
from amqp10.types import Described, Symbol, ULong
from emulator.conversation import Conversation
from emulator.host import KEY_NAME
from tests.amqp10.peer import OPENING, SESSION, sent, source, target

KEY = "key"


class Client:
    """A connection to a namespace, at the same time its socket."""

    def __init__(self, host, calls, opening=OPENING):
        self.calls, self.buffer, self.is_closed, self.was_reset = calls, FrameBuffer(1 << 24), False, False
        self.is_read = True
        self.conversation = Conversation(host, self)
        self.say(opening + SESSION)
        self.heard()
        self.handles = 0

    def write(self, data):
        for header in (SASL_HEADER, AMQP_HEADER):
            data = data.replace(header, b"")
        self.buffer.feed(data)

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def close(self):
        self.is_closed = True

    def reset(self):
        self.was_reset = True

    def say(self, data):
        self.conversation.receive(data)
        while self.calls:
            self.calls.pop(0)()

    def heard(self):
        """Each performative and its payload since the last call."""
        found = []
        for kind, _, body in self.buffer.frames():
            performative, end = p.decode_performative(body, sasl=kind == SASL_FRAME)
            found.append((performative, body[end:]))
        return found

    def attach(self, *, sends_to=None, receives_from=None, snd_settle_mode=0, **more):
        """Attach a link; returns its handle and what was answered."""
        handle = self.handles
        self.handles += 1
        ends = (source("me"), target(sends_to)) if sends_to is not None else (source(receives_from), target("me"))
        role = sends_to is None
        count = None if role else 0
        attach = p.Attach(f"l{handle}", handle, role, snd_settle_mode, 1, *ends, initial_delivery_count=count, **more)
        self.say(sent(attach))
        return handle, [performative for performative, _ in self.heard()]

    def node(self, name):
        """Both links of a node, with credit for its answers; returns a function that asks it."""
        receiver, _ = self.attach(receives_from=name)
        self.say(sent(p.Flow(0, 5000, 0, 5000, receiver, 0, 100)))
        handle, _ = self.attach(sends_to=name)
        return lambda properties, body: self.ask(handle, properties, body)

    def ask(self, handle, properties, body, state=None):
        """Ask a node, in this state of the delivery; returns the application properties and the value of its answer."""
        payload = b"\x00\x53\x73" + encode([uuid.uuid4()]) + b"\x00\x53\x74" + encode(properties)
        self.say(sent(p.Transfer(handle, 1, b"t", 0, state=state), payload + b"\x00\x53\x77" + encode(body)))
        answer, *repeated = [payload for performative, payload in self.heard() if isinstance(performative, p.Transfer)]
        assert {answer, *repeated} == {answer}
        parts = {part.code: decode(answer, part.value)[0] for part in split(answer)}
        return parts[APPLICATION_PROPERTIES], parts[VALUE]

    def put_token(self, audience, key=KEY, name=KEY_NAME, life_s=60):
        cbs = self.node("$cbs")
        token = sas.sign(name, key, audience, int(time.time()) + life_s)
        operation = {"operation": "put-token", "type": "jwt", "name": audience}
        return cbs(operation, token)[0]["status-code"]

    def manage(self, path):
        """Asks the `$management` node of an entity: operation and body to status, condition and answer."""
        node = self.node(f"{path}/$management")

        def ask(operation, body):
            properties, answer = node({"operation": f"com.microsoft:{operation}"}, body)
            return properties["statusCode"], properties.get("errorCondition"), answer

        return ask

    def put(self, payload, queue="orders"):
        """Send a message, settled."""
        handle, _ = self.attach(sends_to=queue)
        self.say(sent(p.Transfer(handle, 0, b"t", 0, settled=True), payload))

    def condition(self, performatives):
        """The condition of the detach among these."""
        return [p.error_parts(each.error)[0] for each in performatives if isinstance(each, p.Detach)]


def filtered(handle, value, address="sessions", name="com.microsoft:session-filter"):
    """The attach of a receiver with a filter."""
    there = Described(ULong(p.SOURCE), [address, *[None] * 6, {Symbol(name): value}])
    return sent(p.Attach(f"r{handle}", handle, True, 0, 1, there, target("me")))


def request(handle, operation="peek-message", reply_to=None, **asked):
    """A request of management."""
    asked = asked or {"from-sequence-number": 1, "message-count": 5}
    head = b"\x00\x53\x73" + encode([uuid.uuid4(), None, None, None, reply_to])
    properties = b"\x00\x53\x74" + encode({"operation": f"com.microsoft:{operation}"})
    return sent(p.Transfer(handle, 1, b"t", 0), head + properties + b"\x00\x53\x77" + encode(asked))


def body(text=b"x", session=None):
    return b"\x00\x53\x73" + encode([None] * 10 + [session]) + b"\x00\x53\x75" + encode(text)
