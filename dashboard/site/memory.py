"""Memory of a process whose threads come and go: what they give back is used again.

A worker kept growing by 0.3 MiB an outage although it held nothing more: each thread takes memory from an arena of its
own, of glibc and of Arrow, and what is free in one is of no use to the others (docs/proof.md, "An hour of the demo").
Web has threads of the same kind: each request that is answered by blocking code has one.
"""

import ctypes
import os

_M_ARENA_MAX = -8
"""malloc.h"""
_ARENAS = 2


def share_arenas() -> None:
    """Let the threads of this process share few arenas; to be called before pyarrow is imported and threads start.

    What the environment says comes first. Where the C library has no arenas (musl, macOS), nothing changes there.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if "MALLOC_ARENA_MAX" not in os.environ and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_M_ARENA_MAX, _ARENAS)
