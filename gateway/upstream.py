"""The connection to the primary of one client: opened with what the client said, written once the primary agrees."""

from __future__ import annotations

import logging

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.transport.dialled import Dialled
from amqp10.types import AmqpError
from gateway.namespace import Namespace
from gateway.side import Phase, Side, SideRelay

log = logging.getLogger("gateway")


class Upstream(Side, Dialled):
    """The primary's side of a relay. What is sent waits until the primary has accepted the client's SASL."""

    def __init__(self, primary: Namespace, relay: SideRelay, read_buffer: bytearray) -> None:
        Side.__init__(self)
        Dialled.__init__(self, primary, read_buffer)
        self.relay = relay
        self._init: bytes | None = None
        self._has_begun = False
        self.is_full = False  # the primary does not read what is written

    def begin(self, init: bytes | None) -> None:
        """Speak as the client does: with this `sasl-init`, or without SASL."""
        self._init, self._has_begun = init, True
        self.connected()

    def stop(self) -> None:
        self.is_full = False
        super().stop()

    def end(self) -> None:
        """Close the connection once everything is written."""
        self.stop()
        self.hang_up()

    # --- gateway.side.Side and amqp10.transport.dialled.Dialled ----------------------------------------------------

    write = Dialled.write_raw

    @property
    def is_reading(self) -> bool:
        return self._transport is not None and self._transport.is_reading()

    def flush(self) -> None:
        if self.phase in (Phase.AMQP_HEADER, Phase.FRAMES):
            super().flush()

    def silent(self) -> None:
        self.lose("it sent nothing within the client's idle time-out")

    def pause_writing(self) -> None:
        self.is_full = True
        self.relay.read_client()

    def resume_writing(self) -> None:
        self.is_full = False
        self.relay.read_client()

    def lost(self, reason: str) -> None:
        log.info("the primary of a client is lost: %s", reason)
        self.stop()
        self.relay.primary_lost(reason)

    def connected(self) -> None:
        """Greet the primary once it is there and the client has spoken."""
        if self.is_ready and self._has_begun and self.phase is Phase.HEADER:
            self.phase = Phase.AMQP_HEADER if self._init is None else Phase.SASL
            self.write(AMQP_HEADER if self._init is None else SASL_HEADER)
            self.flush()

    def received(self, data: bytes) -> None:
        self.has_read = True
        try:
            self.buffer.feed(data)
            self._process()
        except AmqpError as error:
            self.lose(f"it does not speak AMQP as agreed: {error}")
        self.relay.flush()

    # --- layers ----------------------------------------------------------------------------------------------------

    def _process(self) -> None:
        while self.phase in (Phase.SASL, Phase.OUTCOME):
            if self.phase is Phase.SASL and not self._read_header(SASL_HEADER, Phase.OUTCOME):
                return
            for kind, _, body in self.buffer.frames():
                self._read_sasl(kind, body)
                if self.phase is not Phase.OUTCOME:
                    break
            else:
                return
        if self.phase is Phase.AMQP_HEADER and not self._read_header(AMQP_HEADER, Phase.FRAMES):
            return
        if self.phase is Phase.FRAMES:
            for _, channel, body in self.buffer.frames():
                if body:
                    self.relay.from_primary(channel, body)

    def _read_header(self, expected: bytes, then: Phase) -> bool:
        header = self.buffer.take(8)
        if header is not None and header != expected:
            raise AmqpError("amqp:connection:framing-error", "another protocol header")
        if header is not None:
            self.phase = then
        return header is not None

    def _read_sasl(self, kind: int, body: bytes) -> None:
        said, _ = p.decode_performative(body, sasl=True)
        if kind != SASL_FRAME or not isinstance(said, p.SaslMechanisms | p.SaslOutcome):
            raise AmqpError("amqp:not-allowed", "SASL was expected")
        if isinstance(said, p.SaslMechanisms):
            self.write(frame(0, self._init or b"", SASL_FRAME))
            return
        if said.code == sasl.OK:
            self.phase = Phase.AMQP_HEADER
            self.write(AMQP_HEADER)
        self.relay.sasl_ended(body, said.code)
