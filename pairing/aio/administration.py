"""Administration from asyncio: plain HTTP for emulators, and lists of queues."""

import ssl
from typing import Any

from azure.core.async_paging import AsyncItemPaged
from azure.core.pipeline.transport import AioHttpTransport

from pairing.backlog.administration import Q, checked, plain, understood


class PlainHttpTransport(AioHttpTransport):  # type: ignore[misc]  # azure.core resolves the name lazily
    """Sends over plain HTTP what an administration client addresses to HTTPS: emulators have no certificate."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"use_env_settings": False} | kwargs)

    async def send(self, request: Any, **kwargs: Any) -> Any:
        """The answer to ``request``, whose address is https again afterwards: retries check it."""
        addressed, request.url = request.url, plain(request.url)
        try:
            return await super().send(request, **kwargs)
        finally:
            request.url = addressed


class TlsTransport(AioHttpTransport):  # type: ignore[misc]  # as above
    """Sends with a TLS context that exists already."""

    def __init__(self, context: ssl.SSLContext, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._context = context

    async def send(self, request: Any, **kwargs: Any) -> Any:
        """The answer to ``request``."""
        return await super().send(request, **{"ssl": self._context} | kwargs)


def emulator_transport(**keywords: Any) -> PlainHttpTransport:
    """The ``transport=`` that lets an asyncio ServiceBusAdministrationClient of your own reach an emulator.

    ``keywords`` are the transport's own, such as ``read_timeout``: the client does not pass its own on.
    """
    return PlainHttpTransport(**keywords)


async def listed(queues: AsyncItemPaged[Q]) -> list[Q]:
    """All queues of a list; raises the SDK's errors, DecodeError for an answer that makes no sense or never ends."""
    found: list[Q] = []
    number, pages = 0, queues.by_page()
    with understood():
        async for page in pages:
            found += checked([item async for item in page], number, pages)
            number += 1
    return found
