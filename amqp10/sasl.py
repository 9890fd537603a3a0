"""The SASL layer. SDKs use ANONYMOUS and put tokens on `$cbs`; general AMQP clients use PLAIN with name and key."""

from __future__ import annotations

from collections.abc import Callable

from amqp10 import performatives as p
from amqp10.frames import SASL_FRAME, SASL_HEADER, frame
from amqp10.types import AmqpError, Array, Symbol

MECHANISMS = ("ANONYMOUS", "MSSBCBS", "PLAIN", "EXTERNAL")
OK, AUTHENTICATION_FAILED = 0, 1

Authenticate = Callable[[str, str], bool]


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


def _authenticates(response: bytes, authenticate: Authenticate) -> bool:
    try:
        _, user, password = response.decode().split("\0")
    except ValueError:
        return False
    return authenticate(user, password)
