"""A namespace, a gateway before it, and what passes between them."""

import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.running import running
from tests.emulator.clients.conftest import Served, serving
from tests.gateway.recording import Recorder, recorder
from tests.gateway.running import RunningGateway, gateway

FLOW, CLOSE = b"\x00\x53\x13", b"\x00\x53\x18"


@dataclass(frozen=True)
class Watched:
    """A gateway with TLS, between two points that record what passes."""

    served: Served
    named: str
    """The connection string of the namespace, by the name that its clients know."""
    administered: str
    """The same at the gateway."""
    endpoint: str
    """Where clients connect to instead."""
    before: Recorder
    behind: Recorder
    is_guarded: bool

    def unequal(self) -> list[str]:
        """What the gateway has changed on its way; answers may come too late for a client. Credit is a guard's own."""
        arrived = dict(self._frames(self.behind))
        return [
            f"{len(said)} frames to the primary, {len(answered)} frames to the client"
            for said, answered in self._frames(self.before)
            if said not in arrived or arrived[said][: len(answered)] != answered
        ]

    def _frames(self, recorder: Recorder) -> list[tuple[tuple[bytes, ...], tuple[bytes, ...]]]:
        recorded = [each.frames() for each in recorder.connections]
        # Go ends a connection as soon as it has said `close`, and the gateway may see the end first.
        recorded = [(said[: -(said[-1][8:11] == CLOSE) or None], answered) for said, answered in recorded if said]
        if not self.is_guarded:
            return recorded
        kept = [tuple(each for each in way if each[8:11] != FLOW) for both in recorded for way in both]
        return list(zip(kept[::2], kept[1::2], strict=True))


@pytest.fixture(params=[False, True], ids=["relayed", "guarded"])
def watched(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    with ExitStack() as stack:
        served = stack.enter_context(serving(tmp_path))
        listens, dials = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=served.authority)
        listens.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        before, behind = (stack.enter_context(recorder(listens, dials)) for _ in range(2))
        named = re.sub(r"127\.0\.0\.1:\d+", "localhost", served.namespace.connection_string)
        named = named.replace("UseDevelopmentEmulator=true;", "")
        behind.to = int(served.namespace.url.rpartition(":")[2])
        options = with_tls(tmp_path, "--primary-address", f"127.0.0.1:{behind.port}")
        far = stack.enter_context(running("contoso-dr"))["contoso-dr"]
        secondary = far.connection_string if request.param else None
        trust = {"SSL_CERT_FILE": str(served.authority)}
        through = stack.enter_context(gateway(tmp_path, named, *options, secondary=secondary, **trust))
        before.to = int(through.places[0].rpartition(":")[2])
        administered = named.replace(f":{behind.to}", f":{before.to}").replace("localhost", f"localhost:{before.to}")
        yield Watched(served, named, administered, f"sb://localhost:{before.port}", before, behind, request.param)


def with_tls(folder: Path, *options: str) -> tuple[str, ...]:
    """Options of a gateway that listens with the certificate in this folder."""
    files = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    return ("--listen-tls", "127.0.0.1:0", *files, *options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("namespace")) as namespace:
        yield namespace


@pytest.fixture
def plain(served: Served, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway for clients of this machine."""
    with gateway(tmp_path, served.namespace.connection_string) as through:
        yield through
