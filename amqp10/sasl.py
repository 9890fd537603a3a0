"""The SASL layer of both roles. SDKs use ANONYMOUS and put tokens on `$cbs`; other clients PLAIN with name and key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from amqp10 import performatives as p
from amqp10.frames import SASL_FRAME, SASL_HEADER, frame
from amqp10.types import AmqpError, Array, Symbol

MECHANISMS = ("ANONYMOUS", "MSSBCBS", "PLAIN", "EXTERNAL")
OK, AUTHENTICATION_FAILED = 0, 1

Authenticate = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Credentials:
    """How a client authenticates: one of MECHANISMS, and what is sent with it."""

    mechanism: str
    response: bytes = field(default=b"", repr=False)

    @classmethod
    def plain(cls, name: str, key: str) -> Self:
        """The name and the value of a shared access key."""
        return cls("PLAIN", f"\0{name}\0{key}".encode())


ANONYMOUS = Credentials("ANONYMOUS")


def greeting() -> bytes:
    """The answer to the client's SASL header: ours, and the mechanisms."""
    offered = p.SaslMechanisms(Array(Symbol(name) for name in MECHANISMS))
    return SASL_HEADER + frame(0, p.encode_performative(offered), SASL_FRAME)


def outcome(body: bytes, authenticate: Authenticate) -> tuple[bytes, bool]:
    """The answer to a `sasl-init`, and whether the client may continue. Raises AmqpError.

    `authenticate` gets the user name and the password of PLAIN.
    """
    init, _ = p.decode_performative(body, sasl=True)
    if not isinstance(init, p.SaslInit):
        raise AmqpError("amqp:not-allowed", "sasl-init was expected")
    accepted = init.mechanism in MECHANISMS
    if init.mechanism == "PLAIN":
        accepted = _authenticates(init.initial_response or b"", authenticate)
    outcome = p.SaslOutcome(OK if accepted else AUTHENTICATION_FAILED)
    return frame(0, p.encode_performative(outcome), SASL_FRAME), accepted


def client_answer(body: bytes, credentials: Credentials, hostname: str | None) -> tuple[bytes | None, bool]:
    """A client's answer to the server's mechanisms, or None after its outcome, with whether it is good.

    Raises AmqpError if the server does not offer the mechanism.
    """
    said, _ = p.decode_performative(body, sasl=True)
    if isinstance(said, p.SaslOutcome):
        return None, said.code == OK
    offered = said.mechanisms if isinstance(said, p.SaslMechanisms) else ()
    if credentials.mechanism not in ([offered] if isinstance(offered, str) else offered):
        raise AmqpError("amqp:unauthorized-access", f"the server does not offer {credentials.mechanism}")
    init = p.SaslInit(credentials.mechanism, credentials.response, hostname)
    return frame(0, p.encode_performative(init), SASL_FRAME), True


def _authenticates(response: bytes, authenticate: Authenticate) -> bool:
    try:
        _, user, password = response.decode().split("\0")
    except ValueError:
        return False
    return authenticate(user, password)
