"""The library's threads and tasks that a test has left behind; what lived before the test is somebody else's."""

import asyncio
import contextlib
import gc
import os
import threading

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


def open_sockets() -> int:
    """How many sockets this process has open."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return found


def sockets() -> int:
    """How many are open once garbage is collected, if that is what holds some: nothing else need collect it."""
    gc.collect()
    return open_sockets()
