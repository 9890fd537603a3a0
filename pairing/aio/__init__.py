"""The paired client for asyncio: the same names, awaited."""

from typing import TYPE_CHECKING

from pairing.loading import loaded_on_use, needing

with needing("aio", "pairing.aio"):
    from pairing.aio.administration import emulator_transport
    from pairing.aio.client import PairedServiceBusClient
    from pairing.aio.sender import PairedSender

if TYPE_CHECKING:
    from pairing.aio.syphon import Syphon
else:
    __getattr__, __dir__ = loaded_on_use(__name__, {"Syphon": "pairing.aio.syphon"})

__all__ = ["PairedSender", "PairedServiceBusClient", "Syphon", "emulator_transport"]
