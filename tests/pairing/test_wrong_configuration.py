"""What is wrong in the configuration of a client is one sentence that says what to do, at once."""

import logging
import re
import subprocess
import sys
from datetime import timedelta
from typing import Any

import azure.identity
import azure.identity.aio
import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

import pairing
import pairing.aio
from pairing import BacklogCreationError, SendAvailabilityOptions
from tests.ports import free_port

HOSTS = ("contoso.servicebus.windows.net", "contoso-dr.servicebus.windows.net")
STRINGS = [f"Endpoint=sb://{host};SharedAccessKeyName=a;SharedAccessKey=s3cret" for host in HOSTS]
SIGNATURE = AzureSasCredential("signature")
LIBRARIES = pytest.mark.parametrize("library", [pairing, pairing.aio], ids=["blocking", "asyncio"])


@LIBRARIES
@pytest.mark.parametrize(
    ("own", "of_the_secondary", "wrong"),
    [
        (None, None, "primary"),
        ("s3cret", None, "primary"),
        (object(), SIGNATURE, "primary"),
        (SIGNATURE, "s3cret", "secondary"),
        (SIGNATURE, object(), "secondary"),
    ],
)
async def test_what_is_no_credential_is_refused_when_the_client_is_made(
    library: Any, own: object, of_the_secondary: object, wrong: str
) -> None:
    with pytest.raises(TypeError, match=f"the credential of the {wrong} is a .*: give one of azure-identity") as raised:
        library.PairedServiceBusClient(*HOSTS, own, secondary_credential=of_the_secondary)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("library", "credential", "instead"),
    [
        (pairing, azure.identity.aio.DefaultAzureCredential, "from azure.identity, without .aio"),
        (pairing.aio, azure.identity.DefaultAzureCredential, "from azure.identity.aio"),
    ],
)
async def test_a_credential_of_the_other_world_is_refused(library: Any, credential: Any, instead: str) -> None:
    with pytest.raises(TypeError, match=f"import it {instead}"):
        library.PairedServiceBusClient(*HOSTS, credential())


@LIBRARIES
async def test_credentials_of_both_kinds_are_accepted(library: Any) -> None:
    own = (azure.identity.aio if library is pairing.aio else azure.identity).DefaultAzureCredential()
    for credential in (own, AzureNamedKeyCredential("name", "key"), SIGNATURE):
        client = library.PairedServiceBusClient(*HOSTS, credential, secondary_credential=own)
        assert client.state == "created"


@LIBRARIES
async def test_a_connection_string_in_place_of_a_host_is_recognized_and_not_repeated(library: Any) -> None:
    with pytest.raises(ValueError, match="the primary namespace is a connection string: use from_conn") as raised:
        library.PairedServiceBusClient(*STRINGS, SIGNATURE)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("missing", "options", "extra"),
    [
        ("redis", "coordination='redis://localhost'", "coordination needs an extra: pip install '…[redis]'"),
        ("opentelemetry", "tracing=True", "tracing=True needs an extra: pip install '…[tracing]'"),
    ],
)
def test_a_missing_extra_is_named_when_the_client_is_made(missing: str, options: str, extra: str) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None; import pairing;"
        "from azure.core.credentials import AzureSasCredential as Credential;"
        f"pairing.PairedServiceBusClient(*{HOSTS}, Credential('s'), options=pairing.SendAvailabilityOptions({options}))"
    )
    assert extra.replace("…", "paired-namespaces") in last_line_of_the_error(script)


def test_the_library_for_asyncio_names_its_extra() -> None:
    printed = last_line_of_the_error("import sys; sys.modules['aiohttp'] = None; import pairing.aio")
    assert "pairing.aio needs an extra: pip install 'paired-namespaces[aio]'" in printed


def last_line_of_the_error(script: str) -> str:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode
    return ended.stderr.strip().splitlines()[-1]


def test_opening_says_why_it_tries_again_before_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    string = f"Endpoint=sb://127.0.0.1:{free_port()};SharedAccessKeyName=a;SharedAccessKey=s3cret"
    options = SendAvailabilityOptions(primary_namespace="contoso", creation_retry_interval=timedelta(milliseconds=1))
    client = pairing.PairedServiceBusClient.from_connection_string(
        STRINGS[0], f"{string};UseDevelopmentEmulator=true", options=options
    )
    with caplog.at_level(logging.WARNING, "pairing"), pytest.raises(BacklogCreationError) as raised:
        client.open()
    said = [record.getMessage() for record in caplog.records if record.name == "pairing"]
    assert len(said) == 2
    assert all(
        re.fullmatch(r"secondary namespace .*: it cannot be reached: .*; trying again in 0 s", one) for one in said
    )
    assert str(raised.value) in said[0]
