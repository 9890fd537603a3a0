"""The SDK's links without its pauses: it sleeps half a second to open one, and up to a second to close it again.

docs/wire.md, section 9. What a link says, and how long it waits for an answer, stays as it is.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from azure.servicebus import _servicebus_receiver, _servicebus_sender, _session_browser
from azure.servicebus._pyamqp import client as amqp

BETWEEN_POLLS_S = 0.05
"""What the SDK sleeps after each frame while a link opens, though the read of the next frame waits by itself."""
PAUSE_S = 0.001


def _sleep(seconds: float) -> None:
    """Sleep as reported, but for the SDK's pause between two polls: back-offs and keep-alives keep their times."""
    time.sleep(PAUSE_S if seconds <= BETWEEN_POLLS_S else seconds)


@contextmanager
def prompt_links() -> Iterator[None]:
    """Blocking links of this process open as fast as their peer answers, and close without joining a sleeping thread.

    The keep-alive thread of a closed link ends by itself, at its next look, a second later at most.
    """
    close, clock = amqp.AMQPClient.close, SimpleNamespace(**{**vars(time), "sleep": _sleep})

    def close_at_once(link: amqp.AMQPClient) -> None:
        link._keep_alive_thread = None
        close(link)

    with pytest.MonkeyPatch.context() as patched:
        for module in (_servicebus_receiver, _servicebus_sender, _session_browser, amqp):
            patched.setattr(module, "time", clock)
        patched.setattr(amqp.AMQPClient, "close", close_at_once)
        yield
