"""The threads of a process share few arenas, so that its memory does not grow with threads that come and go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
THREADS = 12
PROGRAM = f"""
import ctypes, importlib, re, sys, tempfile, threading
importlib.import_module(sys.argv[1])
import pyarrow

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p]
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
all_there = threading.Barrier({THREADS} + 1)

def use():
    all_there.wait()
    libc.malloc(2000)
    all_there.wait()

for _ in range({THREADS}):
    threading.Thread(target=use).start()
all_there.wait()
all_there.wait()
with tempfile.NamedTemporaryFile() as file:
    stream = libc.fdopen(file.fileno(), b"w")
    libc.malloc_info(0, stream)
    libc.fflush(ctypes.c_void_p(stream))
    arenas = len(re.findall(b"<heap nr=", open(file.name, "rb").read()))
print(arenas, pyarrow.default_memory_pool().backend_name)
"""


def arenas(module: str, **variables: str) -> tuple[int, str]:
    """How many arenas a process that loads the module has for many threads, and the name of Arrow's allocator."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX",)}
    kept.pop("ARROW_DEFAULT_MEMORY_POOL", None)
    argv = (sys.executable, "-c", PROGRAM, module)
    said = subprocess.run(argv, cwd=ROOT, env=kept | variables, capture_output=True, text=True, timeout=120)
    if "malloc_info" in said.stderr:
        pytest.skip("this C library does not tell its arenas")
    count, name = said.stdout.split()
    return int(count), name


@pytest.mark.parametrize("module", ["workers.celery", "dashboard.asgi"])
def test_many_threads_share_two_arenas_and_arrow_has_none_of_its_own(module: str) -> None:
    assert arenas(module) == (2, "system")
