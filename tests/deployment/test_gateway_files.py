"""The gateway in deploy/: beside an application, shared, and as a unit. What the files start is started here."""

import fcntl
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType

from emulator.running import running
from gateway.command import parser
from tests.deployment import product, systemd

PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
"""
MANIFESTS = product.DEPLOY / "kubernetes" / "gateway"
COMPOSE, BY_NAME = (
    product.documents(product.DEPLOY / "container" / f"{name}.yaml")[0] for name in ("gateway", "gateway-by-name")
)
SIDECAR, SHARED = (product.documents(MANIFESTS / name) for name in ("sidecar.yaml", "shared.yaml"))
POD = SIDECAR[0]["spec"]["template"]["spec"]
IN_POD, FOR_ALL = POD["initContainers"][0], SHARED[0]["spec"]["template"]["spec"]["containers"][0]
UNIT = systemd.read(systemd.FOLDER / "paired-namespaces-gateway@.service", systemd.SECRETS)
Way = tuple[list[str], dict[str, str]]


def of_container(container: dict[str, Any]) -> Way:
    return container["args"], {one["name"]: one["value"] for one in container["env"]}


def of_unit() -> Way:
    (line,) = UNIT["ExecStart"]
    variables = {name: value for one in UNIT["Environment"] for name, value in systemd.assignments(one).items()}
    return line.replace("%i", "contoso").split()[1:], variables


WAYS: dict[str, Way] = {
    "compose": (COMPOSE["services"]["gateway"]["command"], COMPOSE["services"]["gateway"]["environment"]),
    "by name": (BY_NAME["services"]["gateway"]["command"], BY_NAME["services"]["gateway"]["environment"]),
    "sidecar": of_container(IN_POD),
    "shared": of_container(FOR_ALL),
    "systemd": of_unit(),
}


def placed(text: str, folder: Path) -> str:
    """The text with this folder in the place of those of secrets and of the pairs file; 443 is root's."""
    primary = (folder / "contoso_primary").read_text(encoding="utf-8").partition("sb://")[2]
    text = text.replace("0.0.0.0:443", "127.0.0.1:0").replace("${PRIMARY_ADDRESS:?}", primary.partition(";")[0])
    for place in ("/run/secrets/paired-namespaces", "/run/secrets/tls", "/run/secrets", "/etc/paired-namespaces", "%d"):
        text = text.replace(place, str(folder))
    return text


@contextmanager
def started(way: Way, folder: Path) -> Iterator[None]:
    """The process of a file, on the file's own ports, which one test at a time has."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    arguments, variables = [placed(one, folder) for one in way[0]], {k: placed(v, folder) for k, v in way[1].items()}
    command = [sys.executable, "-m", "gateway.command", *arguments]
    with (Path(tempfile.gettempdir()) / "ports-of-the-gateway.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(command, env=inherited | variables, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert [process.stdout.readline().split()[0] for _ in range(2)] == ["health", "ready"]
                yield
            finally:
                process.terminate()
                process.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_what_a_file_starts_is_ready_on_its_ports_and_accepts_a_send(name: str, tmp_path: Path, redis_url: str) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1")
    for key_file, file in (("tls.key", "tls.crt"), ("key.pem", "cert.pem")):
        made.private_key_pem.write_to_path(tmp_path / key_file)
        made.cert_chain_pems[0].write_to_path(tmp_path / file)
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    key = "SharedAccessKeyName=gateway;SharedAccessKey=a-key"
    for file in ("gateway_key", "gateway_keys"):
        (tmp_path / file).write_text("gateway a-key\n", encoding="utf-8")
    with running("contoso", "contoso-dr", entities=["contoso/orders"]) as namespaces:
        primary = namespaces["contoso"].connection_string
        strings = {"contoso_primary": primary, "contoso_secondary": namespaces["contoso-dr"].connection_string}
        for file, text in (strings | {"redis_url": redis_url, "pairs.toml": PAIRS}).items():
            (tmp_path / file).write_text(f"{text}\n", encoding="utf-8")
        with started(WAYS[name], tmp_path):
            assert urllib.request.urlopen("http://127.0.0.1:8081/readyz", timeout=60).status == 200
            string = f"Endpoint=sb://127.0.0.1:5672;{key};UseDevelopmentEmulator=true"
            keywords: dict[str, Any] = {}
            if name in ("shared", "by name"):
                string = f"{primary.partition('UseDevelopment')[0]}"
                keywords = {"custom_endpoint_address": "sb://localhost:5671", "ssl_context": context}
                keywords["transport_type"] = TransportType.Amqp
            with ServiceBusClient.from_connection_string(string, **keywords) as client:
                client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        assert namespaces["contoso"].stats()["orders"]["enqueued"] == 1


@pytest.mark.parametrize("name", WAYS)
def test_options_and_secrets_are_the_commands(name: str) -> None:
    arguments, variables = WAYS[name]
    known = {option.upper() for option in vars(parser({}).parse_args(arguments))}
    own = {one.removeprefix("GATEWAY_") for one in variables if one.startswith("GATEWAY_")}

    assert {one if one in known else one.removesuffix("_FILE") for one in own} <= known
    secrets = {one.removesuffix("_FILE") for one in variables if one != "GATEWAY_PAIRS_FILE"}
    assert product.PAIR | {"GATEWAY_COORDINATION"} <= secrets
    assert all(one.endswith("_FILE") for one in {*variables} - {"GATEWAY_PRIMARY_ADDRESS"})


def test_probes_and_services_lead_to_the_ports_that_are_listened_on() -> None:
    for container in (IN_POD, FOR_ALL):
        given, ports = parser({}).parse_args(container["args"]), container["ports"]
        assert given.health == f"0.0.0.0:{ports[-1]['containerPort']}"
        probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
        assert {probe["path"] for probe in probes} == {"/readyz", "/healthz"}
        assert {probe["port"] for probe in probes} == {"health"}
    (port,) = SHARED[1]["spec"]["ports"]
    assert given.listen_tls == f"0.0.0.0:{FOR_ALL['ports'][0]['containerPort']}"
    assert (port["port"], port["targetPort"]) == (5671, FOR_ALL["ports"][0]["name"])
    labels = SHARED[0]["spec"]["template"]["metadata"]["labels"]
    assert [SHARED[1]["spec"]["selector"], SHARED[2]["spec"]["selector"]["matchLabels"]] == [labels, labels]
    assert SHARED[0]["spec"]["replicas"] == 2
    assert IN_POD["restartPolicy"] == "Always"
    assert COMPOSE["services"]["orders"]["network_mode"] == "service:gateway"


def test_a_gateway_under_the_name_of_the_namespace_listens_where_sdks_look_for_it() -> None:
    services = BY_NAME["services"]
    given = parser({}).parse_args(services["gateway"]["command"])
    assert (given.listen_tls, given.listen_websocket) == ("0.0.0.0:5671", "0.0.0.0:443")
    assert {Path(file).name for file in (given.tls_cert, given.tls_key)} <= set(services["gateway"]["secrets"])
    (network,) = services["orders"]["networks"]
    assert services["gateway"]["networks"][network]["aliases"] == ["contoso.servicebus.windows.net"]
    files = {one["file"] for one in BY_NAME["secrets"].values()}
    assert {"tls/cert.pem", "tls/key.pem"} < files
