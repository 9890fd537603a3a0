"""The SASL layer: Service Bus clients use ANONYMOUS here and authenticate on `$cbs` afterwards."""

from __future__ import annotations

from emulator.amqp import performatives as p
from emulator.amqp.frames import SASL_FRAME, SASL_HEADER, frame
from emulator.encoding.types import AmqpError, Array, Symbol

MECHANISMS = ("ANONYMOUS", "MSSBCBS", "EXTERNAL")


def greeting() -> bytes:
    """The answer to the client's SASL header: ours, and the mechanisms."""
    offered = p.SaslMechanisms(Array(Symbol(name) for name in MECHANISMS))
    return SASL_HEADER + frame(0, p.encode_performative(offered), SASL_FRAME)


def outcome(body: bytes) -> tuple[bytes, bool]:
    """The answer to a `sasl-init`, and whether the client may go on. Raises AmqpError."""
    init, _ = p.decode_performative(body, sasl=True)
    if not isinstance(init, p.SaslInit):
        raise AmqpError("amqp:not-allowed", "sasl-init was expected")
    accepted = init.mechanism in MECHANISMS
    return frame(0, p.encode_performative(p.SaslOutcome(0 if accepted else 1)), SASL_FRAME), accepted
