"""What senders send: each turn is a pure function of seed, sender and number, so that a killed sender can repeat it."""

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp._decode import _DECODE_BY_CONSTRUCTOR as DECODERS

from tests.campaign.plan import FEW, ORDERED

IDENTITY = "campaign-id"
"""The application property by which a message is known, whatever its message id is."""
FORMS = {"single": 6, "list": 2, "batch": 2, "schedule": 1}
TARGETS = {"orders": 3, "payments": 2, "sessions": 3, "events": 2}
SIZES = {200: 20, 4_000: 6, 60_000: 1}
SMALL_SIZES = {200: 20, 1_000: 1}
"""Bodies are smaller than these bytes, and how often."""
SESSIONS = 2
TYPES = ("UBYTE", "USHORT", "UINT", "ULONG", "BYTE", "SHORT", "LONG")
MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Letter:
    """One message before it is sent."""

    identity: str
    body: bytes
    properties: Mapping[str, Any]
    message_id: str | None
    session_id: str | None
    subject: str

    def message(self) -> ServiceBusMessage:
        """A new message with this content."""
        return ServiceBusMessage(
            self.body,
            application_properties={**self.properties, IDENTITY: self.identity},
            message_id=self.message_id,
            session_id=self.session_id,
            subject=self.subject,
            content_type="application/octet-stream",
            correlation_id=f"of {self.identity}",
        )

    @property
    def digest(self) -> str:
        """What must arrive, as `digest_of` finds it."""
        return digested(
            [self.body, self.session_id, self.subject, "application/octet-stream", f"of {self.identity}"],
            {**self.properties, IDENTITY: self.identity},
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a sender."""

    number: int
    target: str
    form: str
    letters: tuple[Letter, ...]
    schedule_s: float = 0.0

    @property
    def is_ordered(self) -> bool:
        """Whether it is repeated until it is accepted, because the next ones must follow it."""
        return self.target == ORDERED


def turn(seed: int, sender: str, number: int, batch: int = FEW) -> Turn:
    """What a sender does in one turn, with at most so many messages in a list or batch."""
    chance = random.Random(f"{seed} {sender} {number}")
    [target] = chance.choices(list(TARGETS), list(TARGETS.values()))
    [form] = chance.choices(list(FORMS), list(FORMS.values()))
    if target == ORDERED and form == "schedule":
        form = "single"
    count = chance.randint(2, batch) if form in ("list", "batch") else 1
    session = f"{sender}/{chance.randrange(SESSIONS)}" if target == ORDERED else None
    sizes = SIZES if count <= FEW else SMALL_SIZES
    letters = tuple(letter(chance, f"{sender}-{number}-{index}", target, session, sizes) for index in range(count))
    return Turn(number, target, form, letters, chance.uniform(0.5, 5.0) if form == "schedule" else 0.0)


def letter(chance: random.Random, identity: str, target: str, session: str | None, sizes: Mapping[int, int]) -> Letter:
    """A message with this identity, of one of these sizes."""
    size = chance.choices([chance.randrange(below) for below in sizes], list(sizes.values()))[0]
    properties: dict[str, Any] = {"number": chance.randrange(2**31), "name": "ä" * chance.randrange(20)}
    properties["typed"] = {"TYPE": chance.choice(TYPES), "VALUE": chance.randrange(128)}
    if chance.random() < 0.3:
        properties |= {"is_urgent": chance.random() < 0.5, "due": MOMENT}
    is_nameless = target == "orders" and chance.random() < 0.4
    return Letter(identity, chance.randbytes(size), properties, None if is_nameless else identity, session, target)


def identity_of(message: ServiceBusReceivedMessage) -> str:
    """The identity of a received message; its message id in angle brackets if nobody gave it one."""
    properties = message.application_properties or {}
    found = properties.get(IDENTITY.encode(), properties.get(IDENTITY))
    return _text(found) if found is not None else f"<{message.message_id}>"


def digest_of(message: ServiceBusReceivedMessage) -> str:
    """The digest of everything a sender set, as it arrived where `keep_types` was called before."""
    body = b"".join(bytes(part) for part in message.body)
    properties = {_text(name): value for name, value in (message.application_properties or {}).items()}
    fields = [body, message.session_id, message.subject, message.content_type, message.correlation_id]
    return digested(fields, properties)


def digested(fields: list[Any], properties: Mapping[str, Any]) -> str:
    described = [_described(value) for value in fields]
    named = sorted((name, _described(value)) for name, value in properties.items())
    return hashlib.sha256(json.dumps([described, named]).encode()).hexdigest()[:32]


def _described(value: Any) -> Any:
    """A value with its AMQP type."""
    match value:
        case None | bool():
            return value
        case {"TYPE": str(name), "VALUE": inner}:
            return f"{name.lower()} {inner}"
        case datetime():
            return f"timestamp {round(value.timestamp() * 1000)}"
        case bytes():
            name = NAMES.get(type(value), type(value).__name__)
            return f"{name} {value.decode() if name != 'binary' else hashlib.sha256(value).hexdigest()}"
    return f"{NAMES.get(type(value), type(value).__name__)} {value}"


NAMES: dict[type, str] = {int: "int", float: "double", str: "string", bytes: "binary"}
"""What is meant by the types of Python."""
CODES: dict[str, tuple[type, tuple[int, ...]]] = {
    "ubyte": (int, (0x50,)), "ushort": (int, (0x60,)), "uint": (int, (0x43, 0x52, 0x70)),
    "ulong": (int, (0x44, 0x53, 0x80)), "byte": (int, (0x51,)), "short": (int, (0x61,)), "int": (int, (0x54, 0x71)),
    "long": (int, (0x55, 0x81)), "timestamp": (int, (0x83,)), "float": (float, (0x72,)), "double": (float, (0x82,)),
    "binary": (bytes, (0xA0, 0xB0)), "string": (bytes, (0xA1, 0xB1)), "symbol": (bytes, (0xA3, 0xB3)),
}  # fmt: skip
"""The codes of each AMQP type, and what the SDK decodes it to."""


@cache
def keep_types() -> None:
    """Receive values in classes named after their AMQP types, which the SDK drops, from now on."""
    for name, (base, codes) in CODES.items():
        kept = type(name, (base,), {})
        for code in codes:
            DECODERS[code] = _keeping(DECODERS[code], kept)


def _keeping(decode: Callable[..., Any], kept: Any) -> Callable[..., Any]:
    def decode_kept(buffer: memoryview, depth: int = 0) -> tuple[memoryview, Any]:
        rest, value = decode(buffer, depth)
        return rest, kept(value)

    return decode_kept


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
