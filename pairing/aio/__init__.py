"""The paired client for asyncio: the same names, awaited."""

from pairing.aio.administration import emulator_transport
from pairing.aio.client import PairedServiceBusClient
from pairing.aio.sender import PairedSender
from pairing.aio.syphon import Syphon

__all__ = ["PairedSender", "PairedServiceBusClient", "Syphon", "emulator_transport"]
