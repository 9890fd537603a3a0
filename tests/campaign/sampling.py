"""One sample of a running demo: its processes by Linux' account, its Redis, the rows of its database."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import redis
from django.apps import apps

from dashboard.demo import guardian

PROGRAMS = {
    "namespaces": ("-m emulator ",),
    "worker-1": ("celery", "worker-1@"),
    "worker-2": ("celery", "worker-2@"),
    "beat": ("celery", " beat "),
    "web": ("uvicorn",),
    "sender": ("sender.py", "--rate"),
    "receiver": ("receiver.py",),
}
"""The processes of the demo that live as long as it, by words of their command lines."""
DATABASE = ".sqlite3"
PAGE = 4096
MIB = 1024 * 1024
SIZES = {"hash": "hlen", "list": "llen", "set": "scard", "zset": "zcard", "stream": "xlen"}
IDENTITY = re.compile(r"[0-9a-f]{8,}|\d{4,}")
"""What differs between keys of one kind."""


def processes(marker: str, demo: int, redis_pid: int) -> dict[str, int]:
    """The process ids by name: `sender-1`, `sender-2`, … in the order of their ids."""
    found: dict[str, list[int]] = {}
    for pid in sorted(guardian.survivors(marker, set())):
        name = name_of(_command(pid))
        if name and _is_leader(pid):
            found.setdefault(name, []).append(pid)
    several = {
        name if len(pids) == 1 else f"{name}-{number}": pid
        for name, pids in found.items()
        for number, pid in enumerate(pids, 1)
    }
    return {"demo": demo, "redis": redis_pid, **several}


def name_of(command: str) -> str | None:
    """The name of a program by its command line; None if it is not one of those that stay."""
    return next((name for name, words in PROGRAMS.items() if all(word in command for word in words)), None)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _is_leader(pid: int) -> bool:
    """Whether the demo started it; what it has started itself has another session."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3]) == pid
    return False


def of_processes(pids: Mapping[str, int]) -> dict[str, float]:
    """Resident memory, open descriptors, sockets among them, database files, and threads of each.

    Descriptors of a database's file are counted apart: while any connection of the process has a lock, SQLite keeps
    the file of a closed one open, and uses it for the next one. There are at most as many as connections at one time.
    """
    values: dict[str, float] = {}
    for name, pid in pids.items():
        with suppress(OSError):
            values |= {f"{kind}: {name}": value for kind, value in _of_process(Path(f"/proc/{pid}")).items()}
    return values


def _of_process(folder: Path) -> dict[str, float]:
    resident = int((folder / "statm").read_text().split()[1]) * PAGE / MIB
    targets = list(_targets(folder / "fd"))
    database = sum(target.endswith(DATABASE) for target in targets)
    return {
        "memory (MiB)": round(resident, 2),
        "descriptors": len(targets) - database,
        "database files": database,
        "connections": sum(target.startswith("socket:") for target in targets),
        "threads": len(list((folder / "task").iterdir())),
    }


def _targets(folder: Path) -> Iterator[str]:
    for descriptor in folder.iterdir():
        with suppress(OSError):  # closed meanwhile
            yield str(descriptor.readlink())


def of_redis(client: redis.Redis) -> dict[str, float]:
    """Its memory, its clients, its keys, and how many elements the keys of each kind have."""
    memory, clients = cast(dict[str, Any], client.info("memory")), cast(dict[str, Any], client.info("clients"))
    values = {
        "memory (MiB): redis, data": round(memory["used_memory"] / MIB, 2),
        "connections: redis, clients": float(clients["connected_clients"]),
        "keys": float(cast(int, client.dbsize())),
    }
    for key in client.scan_iter(count=1000):
        name = f"elements: {IDENTITY.sub('*', key.decode())}"
        values[name] = values.get(name, 0.0) + _elements(client, key)
    return values


def _elements(client: redis.Redis, key: bytes) -> int:
    """Of a string 1: its length is the number of messages, a bit for each."""
    length = SIZES.get(cast(bytes, client.type(key)).decode())
    return int(getattr(client, length)(key)) if length else 1


def of_database(file: Path) -> dict[str, float]:
    """The rows of each table, by model."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as reader:
        there = {name for (name,) in reader.execute("select name from sqlite_master where type = 'table'")}
        models = [model for model in apps.get_models(include_auto_created=True) if model._meta.db_table in there]
        count = 'select count(*) from "{}"'
        return {
            f"rows: {model.__name__}": float(reader.execute(count.format(model._meta.db_table)).fetchone()[0])
            for model in models
        }
