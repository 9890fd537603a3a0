"""A client's connection: its protocol header and SASL are answered here, its frames are the relay's."""

from __future__ import annotations

from amqp10 import performatives as p
from amqp10 import sasl
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from amqp10.transport.listener import AcceptedConnection
from amqp10.types import AmqpError
from gateway.access import Access, name_and_key
from gateway.metrics import Metrics
from gateway.side import Phase, Side, SideRelay

_ACCEPTED = frame(0, p.encode_performative(p.SaslOutcome(sasl.OK)), SASL_FRAME)


class Front(Side):
    """The client's side of a relay, served by the listener."""

    def __init__(self, connection: AcceptedConnection, relay: SideRelay, access: Access, metrics: Metrics) -> None:
        super().__init__()
        self.connection, self.relay = connection, relay
        self._access, self._metrics = access, metrics
        self.is_open = False  # both have opened

    # --- amqp10.transport.listener.Served --------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Process bytes of the client."""
        self.has_read = True
        self._metrics.from_clients_bytes_total += len(data)
        try:
            self.buffer.feed(data)
            self._process()
        except AmqpError as error:
            self.relay.close(error.condition, str(error))
        self.relay.flush()

    def pause(self) -> None:
        """Read less of the primary, as the client reads too slowly."""
        self.relay.read_primary(False)

    def resume(self) -> None:
        """Read the primary again."""
        self.relay.read_primary(True)

    def lost(self) -> None:
        """The socket was lost."""
        self.relay.client_lost()

    # --- gateway.side.Side -----------------------------------------------------------------------------------------

    @property
    def is_reading(self) -> bool:
        return self.connection.is_reading

    def write(self, data: bytes) -> None:
        self._metrics.to_clients_bytes_total += len(data)
        self.connection.write(data)

    def silent(self) -> None:
        self.relay.close("amqp:resource-limit-exceeded", "The client sent nothing within the idle time-out.")

    # --- layers ----------------------------------------------------------------------------------------------------

    def _process(self) -> None:
        while self.phase in (Phase.HEADER, Phase.AMQP_HEADER, Phase.SASL):
            if self.phase is Phase.SASL:
                first = next(self.buffer.frames(), None)
                if first is None:
                    return
                self._authenticate(*first)
            else:
                header = self.buffer.take(8)
                if header is None:
                    return
                self._read_header(header)
        if self.phase is Phase.FRAMES:
            for _, channel, body in self.buffer.frames():
                if body:
                    self.relay.from_client(channel, body)

    def _read_header(self, header: bytes) -> None:
        if header == SASL_HEADER and self.phase is Phase.HEADER:
            self.phase = Phase.SASL
            self.write(sasl.greeting())
        elif header == AMQP_HEADER:
            if self.phase is Phase.HEADER:
                self.relay.begin(None)
            self.phase = Phase.FRAMES
            self.write(AMQP_HEADER)
        else:  # A peer of another protocol gets our header and nothing else (AMQP 1.0, section 2.2).
            self.write(AMQP_HEADER)
            self.relay.end()

    def _authenticate(self, kind: int, _: int, body: bytes) -> None:
        init, _ = p.decode_performative(body, sasl=True)
        if kind != SASL_FRAME or not isinstance(init, p.SaslInit):
            raise AmqpError("amqp:not-allowed", "sasl-init was expected")
        own = self._access.plain(init)
        if init.mechanism == "PLAIN":
            self.relay.show(name_and_key(init), is_proof=own is not None)
        is_known = own is not None or init.mechanism != "PLAIN"
        self.phase = Phase.AMQP_HEADER if is_known else Phase.OUTCOME
        self.relay.begin(own or self._access.for_primary(init) or body)
        if is_known:
            self.write(_ACCEPTED)

    def answer_sasl(self, body: bytes, *, is_accepted: bool) -> None:
        """Pass on whether the primary accepts the client's name and key."""
        self.phase = Phase.AMQP_HEADER
        self.write(frame(0, body, SASL_FRAME))
        if is_accepted:
            self._process()
        else:
            self.relay.end()
