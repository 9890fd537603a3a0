"""The application's credential, asked with a time limit: it may be slow, or never answer.

A credential that gives no token is no outage of the namespace (docs/failures.md).
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError

from pairing.clock import start

_ASK_S = 10.0
_SHARE = 0.75
_MOST_ASKED = 8

opens_until: ContextVar[float] = ContextVar("opens_until", default=float("inf"))
"""The deadline of the link that is being opened."""


class AskedCredential:
    """A credential for the blocking SDK, asked on threads of its own: one that hangs keeps eight of them."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._places = threading.BoundedSemaphore(_MOST_ASKED)

    @classmethod
    def of(cls, credential: Any) -> Any:
        """The credential, asked in this way; keys and signatures are never asked."""
        return credential if isinstance(credential, AzureNamedKeyCredential | AzureSasCredential) else cls(credential)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._credential, name)
        return partial(self._asked, found) if name in ("get_token", "get_token_info") else found

    def _asked(self, give: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        until, answer = time.monotonic() + _left_s(), Future[Any]()
        if not self._places.acquire(timeout=_left_s()):
            raise _silent()
        try:
            ask = partial(self._ask, answer, partial(give, *arguments, **options))
            start(threading.Thread(target=ask, name="pairing-token", daemon=True))
        except RuntimeError:
            self._places.release()
            raise
        try:
            return _complete(answer.result(max(until - time.monotonic(), 0.0)))
        except TimeoutError:
            raise _silent() from None

    def _ask(self, answer: "Future[Any]", give: Callable[[], Any]) -> None:
        try:
            answer.set_result(give())
        except BaseException as error:
            answer.set_exception(_ordinary(error))
        finally:
            self._places.release()


class AwaitedCredential(AskedCredential):
    """A credential for the asyncio SDK."""

    async def _asked(self, give: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        import asyncio  # 60 modules that blocking clients do without

        try:
            async with asyncio.timeout(_left_s()):
                return _complete(await give(*arguments, **options))
        except TimeoutError:
            raise _silent() from None
        except (KeyboardInterrupt, GeneratorExit):  # after the latter there is no loop
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _ordinary(error) from error.__cause__


def _complete(token: Any) -> Any:
    attrgetter("token", "expires_on")(token)  # where it lacks these, the SDK would fail as in an outage
    return token


def _ordinary(error: BaseException) -> Exception:
    """The error of a credential; SystemExit would end the thread of the link, or the loop, StopIteration the send."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return ClientAuthenticationError(message=f"the credential raised {error!r}")


def _left_s() -> float:
    """How long the credential may take: less than the link that is being opened, which would end as an outage."""
    return min(_ASK_S, max((opens_until.get() - time.monotonic()) * _SHARE, 0.0))


def _silent() -> ClientAuthenticationError:
    return ClientAuthenticationError(message="the credential has not answered in time")
