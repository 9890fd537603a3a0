"""A Redis with a replica, and Sentinels that promote it: real processes on the loopback, with TLS or without."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis
import trustme

from tests.ports import free_port

MASTER = "control-plane"
SENTINEL = """\
bind 127.0.0.1
dir {folder}
sentinel monitor {master} 127.0.0.1 {redis} 2
sentinel down-after-milliseconds {master} 3000
sentinel failover-timeout {master} 3000
"""
LIMIT_S = 120.0


def tls_is_built_in() -> bool:
    """Whether the redis-server of this machine knows TLS."""
    command = [_program(), "--port", "0", "--tls-port", str(free_port())]
    said = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)  # ends: no certificate
    return "configure TLS" in said.stdout


def _program() -> str:
    program = shutil.which("redis-server")
    assert program, "no redis-server found: run the tests with `make test`, which brings one"
    return program


class Sentinels:
    """Two servers, and three Sentinels that watch them; with ``tls`` none of them speaks without it."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self._folder = folder
        self._encryption = _certificates(folder) if tls else {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.servers = [free_port(), free_port()]
        self.ports = [free_port() for _ in range(3)]
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"redis+sentinel://{addresses}/{MASTER}/0"
        if tls:
            self.url = f"rediss+sentinel://{addresses}/{MASTER}/0?ssl_ca_certs={self._encryption['tls-ca-cert-file']}"
        for port in self.servers:
            self.start(port)
        self.client(self.servers[1]).replicaof("127.0.0.1", self.servers[0])
        for port in self.ports:
            self._watch(port)
        self.until(lambda: all(map(self._knows_all, self.ports)), "the Sentinels know the replica and each other")
        self.until(lambda: any(map(self._has_caught_up, self.servers)), "the replica has caught up")

    def start(self, port: int) -> None:
        """A server, with nothing in it."""
        options = {"bind": "127.0.0.1", "save": "", "dir": str(self._folder), **self._listening(port)}
        self._run(port, *(word for name, value in options.items() for word in (f"--{name}", value)))

    def _listening(self, port: int) -> dict[str, str]:
        """Redis' options for this port."""
        if not self._encryption:
            return {"port": str(port)}
        return {"port": "0", "tls-port": str(port), **self._encryption}

    def _watch(self, port: int) -> None:
        file = self._folder / f"sentinel-{port}.conf"
        text = SENTINEL.format(folder=self._folder, master=MASTER, redis=self.servers[0])
        file.write_text(text + "".join(f"{name} {value}\n" for name, value in self._listening(port).items()))
        self._run(port, str(file), "--sentinel")

    def _run(self, port: int, *arguments: str) -> None:
        with (self._folder / f"{port}.log").open("ab") as log:
            self._processes[port] = subprocess.Popen([_program(), *arguments], stdout=log, stderr=log)
        self.until(lambda: self._answers(port), f"the server at {port} answers")

    def _answers(self, port: int) -> bool:
        with suppress(redis.RedisError), self.client(port) as client:
            return bool(client.ping())
        return False

    def _knows_all(self, port: int) -> bool:
        with self.client(port) as client:
            known = client.sentinel_master(MASTER)
        return (known["num-slaves"], known["num-other-sentinels"]) == (1, 2)

    def _has_caught_up(self, port: int) -> bool:
        with self.client(port) as client:
            return client.info("replication").get("master_link_status") == "up"

    def client(self, port: int) -> redis.Redis:
        """A client of one process."""
        options = {"ssl": True, "ssl_ca_certs": self._encryption["tls-ca-cert-file"]} if self._encryption else {}
        return redis.Redis("127.0.0.1", port, decode_responses=True, socket_timeout=5, **options)

    def master(self) -> int:
        """The port of the master that the first Sentinel names."""
        with self.client(self.ports[0]) as client:
            return int(client.sentinel_get_master_addr_by_name(MASTER)[1])

    def fail_over(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill or freeze the master; returns its port once the replica is the master."""
        old = self.master()
        self._processes[old].send_signal(how)
        self.until(lambda: self.master() != old, "the replica is promoted")
        return old

    def bring_back(self, port: int) -> None:
        """The old master returns; it becomes the replica of the new one."""
        if self._processes[port].poll() is None:
            self._processes[port].send_signal(signal.SIGCONT)
        if self._processes[port].poll() is not None:
            self.start(port)
        self.until(lambda: self._has_caught_up(port), "the old master is a replica of the new one")

    @staticmethod
    def until(holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            with suppress(redis.RedisError):
                if holds():
                    return
            assert time.monotonic() < deadline, f"not in {LIMIT_S:.0f} s: {what}"
            time.sleep(0.05)  # between two looks

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(60)


def _certificates(folder: Path) -> dict[str, str]:
    """Redis' options for TLS: a certificate of the loopback, and the authority that clients trust."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "redis.pem")
    pem = str(folder / "redis.pem")
    return {
        "tls-cert-file": pem,
        "tls-key-file": pem,
        "tls-ca-cert-file": str(folder / "ca.pem"),
        "tls-auth-clients": "no",
        "tls-replication": "yes",
    }
