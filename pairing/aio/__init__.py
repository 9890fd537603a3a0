"""The paired client for asyncio: the same names, awaited."""

from typing import TYPE_CHECKING, Any

from pairing.errors import needing

with needing("aio", "pairing.aio"):
    from pairing.aio.administration import emulator_transport
    from pairing.aio.client import PairedServiceBusClient
    from pairing.aio.sender import PairedSender

if TYPE_CHECKING:
    from pairing.aio.syphon import Syphon

__all__ = ["PairedSender", "PairedServiceBusClient", "Syphon", "emulator_transport"]


def __getattr__(name: str) -> Any:
    """The syphon is loaded when it is first asked for: most applications send only."""
    if name == "Syphon":
        from pairing.aio.syphon import Syphon

        return Syphon
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
