"""What is wrong in the configuration of a client is one sentence that says what to do, at once."""

import logging
import re
import subprocess
import sys
from datetime import timedelta

import azure.identity
import azure.identity.aio
import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import TransportType

import pairing
import pairing.aio
from pairing import BacklogCreationError, SendAvailabilityOptions
from pairing.ends import Endpoint
from tests.ports import free_port

HOSTS = ("contoso.servicebus.windows.net", "contoso-dr.servicebus.windows.net")
KEY = "SharedAccessKeyName=a;SharedAccessKey=s3cret"
STRINGS = [f"Endpoint=sb://{host};{KEY}" for host in HOSTS]
SIGNATURE = AzureSasCredential("signature")
TWINS = {
    "the same string": ("contoso.example", "contoso.example"),
    "another case": ("contoso.example", "Contoso.Example/"),
    "a port that the SDK drops": ("contoso.example", "contoso.example:5671"),
    "one emulator": ("127.0.0.1:5672;UseDevelopmentEmulator=true", "127.0.0.1:5672/;UseDevelopmentEmulator=true"),
}
NONE = "the credential of the {} is a {}: give one of azure-identity"
WRONG = {
    "no credential": ((*HOSTS, None), {}, TypeError, NONE.format("primary", "NoneType")),
    "a key of the other": (
        (*HOSTS, SIGNATURE),
        {"secondary_credential": "s3cret"},
        TypeError,
        NONE.format("secondary", "str"),
    ),
    "strings for hosts": (
        (*STRINGS, SIGNATURE),
        {},
        ValueError,
        "the primary namespace is a connection string: use from_conn",
    ),
    **{
        f"the host {host} shows nothing": ((host, HOSTS[1], SIGNATURE), {}, ValueError, "primary_namespace")
        for host in ("127.0.0.1:5672", "localhost", "[::1]:5672")
    },
    "a malformed string": ((STRINGS[0], "SharedAccessKey=s3cret"), {}, ValueError, "secondary connection string"),
    "an empty string": (("", STRINGS[1]), {}, ValueError, "the primary connection string is empty: copy it from"),
    "no string": ((None, STRINGS[1]), {}, ValueError, "the primary connection string is empty: copy it from"),
    "no options": (STRINGS, {"options": {}}, TypeError, "options must be SendAvailabilityOptions or None, not dict"),
    "a misspelt keyword": (STRINGS, {"transporttype": 1}, TypeError, "transporttype"),
    "a misspelt keyword beside a host": ((*HOSTS, object()), {"retry_totla": 3}, TypeError, "totla"),
    **{
        f"a namespace twice, {name}": (
            [f"Endpoint=sb://{host};{KEY}" for host in hosts],
            {"options": SendAvailabilityOptions(primary_namespace="contoso")},
            ValueError,
            "the same namespace",
        )
        for name, hosts in TWINS.items()
    },
}
LIBRARIES = pytest.mark.parametrize("library", [pairing, pairing.aio], ids=["blocking", "asyncio"])


@LIBRARIES
@pytest.mark.parametrize(("arguments", "keywords", "error", "text"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_is_refused_at_once_and_not_repeated(library, arguments, keywords, error, text):
    class_ = library.PairedServiceBusClient
    make = class_ if len(arguments) == 3 else class_.from_connection_string
    with pytest.raises(error, match=text) as raised:
        make(*arguments, **keywords)
    assert "s3cret" not in str(raised.value)


def test_the_name_of_the_primary_comes_from_its_host():
    client = pairing.PairedServiceBusClient(*HOSTS, SIGNATURE)
    assert (client.primary.namespace, client.secondary.namespace, client.pair) == ("contoso", "contoso-dr", "contoso")


@LIBRARIES
@pytest.mark.parametrize("name", ["", " ", None])
def test_a_sender_without_an_entity_is_refused_by_name(library, name):
    client = library.PairedServiceBusClient(*HOSTS, SIGNATURE)
    with pytest.raises(ValueError, match="queue_name must be the name of an entity"):
        client.get_queue_sender(name)
    with pytest.raises(ValueError, match="topic_name must be the name of an entity"):
        client.get_topic_sender(name)


def test_no_repr_holds_a_credential():
    client = pairing.PairedServiceBusClient.from_connection_string(*STRINGS)
    shown = [repr(thing) for thing in (client, client.primary, client.primary.endpoint, client.options, vars(client))]
    assert "s3cret" not in "".join(shown)


@pytest.mark.parametrize(
    ("library", "credential", "instead"),
    [
        (pairing, azure.identity.aio.DefaultAzureCredential, "from azure.identity, without .aio"),
        (pairing.aio, azure.identity.DefaultAzureCredential, "from azure.identity.aio"),
    ],
)
async def test_a_credential_of_the_other_world_is_refused(library, credential, instead):
    with pytest.raises(TypeError, match=f"import it {instead}"):
        library.PairedServiceBusClient(*HOSTS, credential())


@pytest.mark.parametrize(
    ("module", "spelt"), [(pairing, "proxy"), (pairing.aio, "http://proxy")], ids=["sync", "asyncio"]
)
async def test_the_sdks_keywords_are_passed_through(module, spelt):
    client = module.PairedServiceBusClient(
        *HOSTS,
        SIGNATURE,
        transport_type=TransportType.AmqpOverWebsocket,
        http_proxy={"proxy_hostname": "proxy", "proxy_port": 8080, "username": "u", "password": "p"},
        user_agent="mine",
        custom_endpoint_address="gateway.example",
    )
    for end in (client.primary, client.secondary):
        configuration = end.sdk._config
        assert configuration.transport_type == TransportType.AmqpOverWebsocket
        assert configuration.http_proxy["proxy_hostname"] == spelt
        assert configuration.user_agent == "mine"
        assert "gateway.example" in configuration.custom_endpoint_address
        assert configuration.retry_total == 0
    assert client.primary.receiving._config.retry_total == 3


def test_an_emulator_is_administered_over_plain_http():
    text = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    assert Endpoint.from_connection_string("primary", text, {}).emulator
    assert not Endpoint.from_connection_string("primary", text.replace("=true", "=True"), {}).emulator


@pytest.mark.parametrize(
    ("missing", "options", "extra"),
    [
        ("redis", "coordination='redis://localhost'", "coordination needs an extra: pip install '…[redis]'"),
        ("opentelemetry", "tracing=True", "tracing=True needs an extra: pip install '…[tracing]'"),
    ],
)
def test_a_missing_extra_is_named_when_the_client_is_made(missing, options, extra):
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
