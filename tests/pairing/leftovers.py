"""The library's threads and tasks that a test has left behind; what lived before the test is somebody else's."""

import asyncio
import gc
import threading
from collections.abc import Callable

_before: set[threading.Thread] = set()


def begin() -> None:
    """Only what starts later counts: the control plane keeps a watchdog for as long as its process lives."""
    _before.clear()
    _before.update(threading.enumerate())


def threads() -> list[str]:
    """The names of the library's threads that are still alive."""
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("pairing") and thread not in _before
    ]


def tasks() -> list[str]:
    """The names of the library's tasks in the running loop that are not done."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("pairing")]


def sockets(count: Callable[[], int]) -> int:
    """What ``count`` tells once garbage is collected, if that is what holds some: nothing else need collect it."""
    gc.collect()
    return count()
