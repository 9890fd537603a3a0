"""Any bytes to a gateway, as tests/emulator/fuzzing.py sends them to a namespace: of a client, and of the primary."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import patch

from amqp10 import performatives as p
from amqp10.frames import AMQP_HEADER
from amqp10.sasl import greeting
from amqp10.transport.dialled import Dialled
from gateway.access import Access
from gateway.guard.backlog import SharedSender
from gateway.guard.client import GatewayClient
from gateway.memory import Memory, Proofs
from gateway.metrics import Metrics
from gateway.namespace import Namespace
from gateway.relay import Relay
from gateway.standin import StandIn
from pairing import SendAvailabilityOptions
from tests.amqp10.peer import sent, source, target
from tests.emulator.fuzzing import ACCEPTED, HANDSHAKE, LINKS, Nowhere

END = "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true"
OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso", secondary_namespace="contoso-dr", failover_interval=timedelta(0)
)
PLACE = Namespace("127.0.0.1:1", "127.0.0.1", "127.0.0.1", 1, None, "n", "k")
ACCESS = Access({}, PLACE)
OPENED = greeting() + ACCEPTED + AMQP_HEADER + sent(p.Open("primary", max_frame_size=65536), channel=0)
ANSWERS = (
    OPENED
    + sent(p.Begin(1, 0, 5000, 5000))
    + b"".join(
        sent(
            p.Attach(f"link{handle}", handle, not handle % 2, 0, 0, source("x"), target("y"), initial_delivery_count=0)
        )
        for handle in range(6)
    )
    + sent(p.Flow(0, 5000, 0, 5000, 0, 0, 10))
)
"""What the primary says to a client with LINKS."""


def to_a_gateway(data: bytes) -> None:
    """A client with open links, of which one is guarded; now and then the primary has not answered yet."""
    asyncio.run(_through(lambda relay: relay.front.receive(data), answers=ANSWERS if len(data) % 4 else OPENED))


def to_a_gateway_from_its_primary(data: bytes) -> None:
    """The primary of a client that has sent two messages."""
    asyncio.run(_through(lambda relay: relay.upstream.received(data)))


def to_a_stand_in(data: bytes) -> None:
    """A client that the gateway serves, with a right to send, while the primary is away."""
    asyncio.run(_instead(data))


class Socket(Nowhere):
    is_reading = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


async def answered(*_: object) -> None:
    """Whatever is sent is accepted, and what is asked for a proof has none."""


async def _through(says, answers: bytes = ANSWERS) -> None:
    gateway = SimpleNamespace(primary=PLACE, access=ACCESS, client=_client(), memory=Memory(), metrics=Metrics())
    gateway.read_buffer, gateway.primary_lost, gateway.ended = bytearray(1), lambda: None, lambda relay: None
    with patch.object(Dialled, "_dial", answered), patch.object(SharedSender, "send", answered):
        relay = Relay(gateway, Socket())
        relay.upstream._transport = Socket()
        relay.front.receive(HANDSHAKE + LINKS)
        relay.upstream.connected()
        relay.upstream.received(answers)
        for number in range(2 * (answers is ANSWERS)):
            relay.front.receive(sent(p.Transfer(0, number, b"t", 0), b"\x00\x53\x75\xa0\x01x"))
        says(relay)
        await _work()
        relay.client_lost()


async def _instead(data: bytes) -> None:
    with patch.object(SharedSender, "send", answered), patch("gateway.standin.HELD_S", 0.0):
        proofs = Proofs(Memory())
        proofs.may_send = lambda path: True
        served = StandIn(_client(), proofs, ACCESS, Socket(), lambda served: None)
        served.receive(HANDSHAKE + LINKS)
        served.receive(data)
        await _work()
        served.lost()


def _client() -> GatewayClient:
    client = GatewayClient.from_connection_string(END.format(1), END.format(2), options=OPTIONS)
    client.backlog.proves = answered
    return client


async def _work() -> None:
    """Let what was begun go on for a while. An error of ours in it is raised."""
    for _ in range(5):
        await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Exception):
            raise found
