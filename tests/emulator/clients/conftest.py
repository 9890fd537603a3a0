"""A namespace for clients of others, which speaks TLS on the same port."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

from emulator.running import RunningNamespace, running

PROGRAM_TIMEOUT_S = 600


@dataclass(frozen=True)
class Served:
    """The namespace, and the file with the authority of its certificate."""

    namespace: RunningNamespace
    authority: Path

    @property
    def over_tls(self) -> str:
        """Without the hint that this is an emulator the SDKs use TLS; the name has to be that of the certificate."""
        text = self.namespace.connection_string.replace("UseDevelopmentEmulator=true;", "")
        return text.replace("127.0.0.1", "localhost")

    def run(
        self, command: Sequence[str], connection_string: str | None = None, *, status: int = 0, **environment: str
    ) -> str:
        """The output of a program that gets the namespace by its environment; fails unless it ends with this status."""
        known = {
            "SERVICEBUS_CONNECTION_STRING": connection_string or self.namespace.connection_string,
            "NODE_EXTRA_CA_CERTS": str(self.authority),
            "SSL_CERT_FILE": str(self.authority),
            "JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={self.authority}.p12",
        }
        without = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NODE_"))}
        outcome = subprocess.run(
            command,
            env=without | known | environment,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
        assert outcome.returncode == status, outcome.stdout[-6000:] + outcome.stderr[-6000:]
        return outcome.stdout


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(serving(tmp_path_factory.mktemp("tls")))


@contextlib.contextmanager
def serving(folder: Path, name: str = "contoso:0", host: str = "127.0.0.1") -> Iterator[Served]:
    """A namespace with TLS; its certificate is for its address, and for localhost."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", host)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trusted = PKCS12Certificate(load_pem_x509_certificate(authority.cert_pem.bytes()), b"ca")
    (folder / "ca.pem.p12").write_bytes(serialize_java_truststore([trusted], NoEncryption()))
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
    tls = [
        "--tls-cert",
        str(folder / "cert.pem"),
        "--tls-key",
        str(folder / "key.pem"),
        "--host",
        host,
        "--key",
        "local",
    ]
    with running(name, entities=["contoso/orders"], arguments=tls) as namespaces:
        (namespace,) = namespaces.values()
        yield Served(namespace, folder / "ca.pem")
