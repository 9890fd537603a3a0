"""AMQP over WebSockets, through an HTTP proxy, with tokens of azure-identity, end to end in both worlds.

docs/specification.md, sections 3 and 4: credentials are connection strings or any azure-identity credential; the SDK's
keywords are passed through, and reach the administration too.
"""

import asyncio
import ssl
import threading
from dataclasses import replace
from datetime import timedelta

import azure.identity
import azure.identity.aio
import pytest
import trustme
from azure.servicebus import ServiceBusMessage, TransportType

import pairing.aio
from emulator.running import running
from pairing import BacklogCreationError, SendAvailabilityOptions
from pairing.drive import run_async
from tests.pace import Stopwatch, slowed
from tests.pairing import leftovers
from tests.pairing.gateway import CLIENT_ID, CLIENT_SECRET, TENANT, Gateway

pytestmark = [
    pytest.mark.sampled("world"),
    # the SDK still uses them
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'proxy_auth' parameter is deprecated:DeprecationWarning"),
]

PRIMARY, SECONDARY = "contoso.servicebus.windows.net", "contoso-dr.servicebus.windows.net"  # reached by the proxy only
KEY = "local-namespace-key"  # the one all local namespaces of these tests have
OPTIONS = SendAvailabilityOptions(
    backlog_queue_count=1,
    failover_interval=timedelta(0),
    creation_retry_interval=timedelta(0),
    enable_pings=False,
    send_timeout=timedelta(seconds=20),
)


def strings(*hosts):
    return [
        f"Endpoint=sb://{host}/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}" for host in hosts
    ]


@pytest.fixture
def gateway(primary, secondary, tmp_path):
    gateway = Gateway({PRIMARY: primary.port, SECONDARY: secondary.port}, KEY, tmp_path)
    yield gateway
    gateway.stop()


@pytest.fixture
async def opened(world, gateway):
    """Opens a client that reaches both namespaces through the gateway only, and closes it."""
    clients = []

    async def open_(credential=None, **keywords):
        settings = {
            "options": OPTIONS,
            "transport_type": TransportType.AmqpOverWebsocket,
            "http_proxy": gateway.proxy,
            "connection_verify": gateway.certificates,
        } | keywords
        class_ = world.module.PairedServiceBusClient
        if credential is None:
            client = class_.from_connection_string(*strings(PRIMARY, SECONDARY), **settings)
        else:
            client = class_(PRIMARY, SECONDARY, credential, **settings)
        clients.append(client)
        await world(client.open)
        return client

    yield open_
    for client in clients:
        await world(client.close)


@pytest.mark.parametrize("transport", [TransportType.AmqpOverWebsocket, None], ids=["reported", "left to the endpoint"])
async def test_a_custom_endpoint_leads_to_both_namespaces_there_and_back(
    world, gateway, opened, primary, secondary, queue, transport
):
    keywords = {} if transport is None else {"transport_type": transport}
    client = await opened(custom_endpoint_address=f"https://localhost:{gateway.port}", **keywords)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("healthy"))
    client.fail_over(queue, "test")
    await world(sender.send_messages, ServiceBusMessage("redirected"))
    [backlog] = client.backlog_paths
    assert [str(message) for message in primary.receive(queue, 1)] == ["healthy"]
    assert [str(message) for message in secondary.receive(backlog, 1)] == ["redirected"]


@pytest.mark.parametrize("spelling", ["127.0.0.1", "http://127.0.0.1"])
async def test_the_proxy_is_spelt_alike_in_both_worlds(world, gateway, opened, primary, queue, spelling):
    client = await opened(http_proxy=gateway.proxy | {"proxy_hostname": spelling})
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("healthy"))
    assert primary.stats(queue)["enqueued"] == 1


async def test_an_outage_behind_the_proxy_fails_over(world, gateway, opened, primary, secondary, queue):
    client = await opened()
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    before = secondary.stats(client.backlog_paths[0]).get("enqueued", 0)
    gateway.refuse(PRIMARY)
    await world(sender.send_messages, ServiceBusMessage("during"))
    assert client.entity_health(queue).state == "failed_over"
    assert secondary.stats(client.backlog_paths[0])["enqueued"] == before + 1
    gateway.refused.clear()
    result = await world(client.ping, queue)
    assert (result.accepted, client.entity_health(queue).state) == (True, "healthy")
    await world(sender.send_messages, ServiceBusMessage("after"))
    assert primary.stats(queue)["enqueued"] == 2
    assert PRIMARY in gateway.websockets
    assert gateway.administered_with == {"SharedAccessSignature"}
    assert {f"{host}:443" for host in (PRIMARY, SECONDARY)} <= set(gateway.tunnels)


@pytest.mark.parametrize("link", ["cold", "warm"])
async def test_a_frozen_server_behind_websockets_ends_within_the_timeout(world, gateway, opened, primary, queue, link):
    client = await opened()
    sender = client.get_queue_sender(queue)
    if link == "warm":
        await world(sender.send_messages, ServiceBusMessage("before"))
    primary.freeze()
    timeout = slowed(6.0)
    with Stopwatch() as watch:
        await world(sender.send_messages, ServiceBusMessage("during"), timeout=timeout)
    assert watch.took < timeout + 1.0
    assert client.entity_health(queue).state == "failed_over"


async def test_nothing_is_left_behind_of_websockets(world, opened, queue):
    client = await opened()
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    await world(client.close)
    await world.until(lambda: not leftovers.threads())
    await world.until(lambda: not leftovers.tasks())


def secret_of_entra(world, gateway, secret):
    module = azure.identity if world.name == "sync" else azure.identity.aio
    return module.ClientSecretCredential(
        TENANT,
        CLIENT_ID,
        secret,
        authority=f"https://localhost:{gateway.port}",
        disable_instance_discovery=True,
        connection_verify=gateway.certificates,
        retry_total=0,
    )


async def test_a_client_secret_of_azure_identity_opens_both_namespaces(
    world, gateway, opened, primary, secondary, queue
):
    credential = secret_of_entra(world, gateway, CLIENT_SECRET)
    client = await opened(credential)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("token"))
    client.fail_over(queue, "test")
    await world(sender.send_messages, ServiceBusMessage("token"))
    assert primary.stats(queue)["enqueued"] == 1
    assert gateway.administered_with == {"Bearer"}
    assert {scope.replace("//.", "/.") for scope in gateway.scopes} == {"https://servicebus.azure.net/.default"}
    await world(credential.close)


async def test_a_credential_that_gets_no_token_is_reported_when_opening(world, gateway, opened):
    credential = secret_of_entra(world, gateway, "wrong-secret")
    with pytest.raises(BacklogCreationError, match="contoso-dr") as raised:
        await opened(credential)
    assert "wrong-secret" not in str(raised.value)
    await world(credential.close)


async def test_a_wrong_password_for_the_proxy_is_reported_when_opening_and_not_repeated(world, gateway, opened):
    proxy = gateway.proxy | {"password": "wrong-password"}
    with pytest.raises(BacklogCreationError, match="contoso-dr") as raised:
        await opened(http_proxy=proxy)
    assert "wrong-password" not in str(raised.value)


# TLS contexts: an asyncio client makes its own once, on a thread, as each takes some 45 ms of a loop

LINKS = 3
LOCAL = replace(OPTIONS, primary_namespace="contoso", secondary_namespace="contoso-dr", require_secondary=False)
in_asyncio = pytest.mark.parametrize("world", ["asyncio"], indirect=True)


@pytest.fixture
def made(monkeypatch):
    """The threads that have made a TLS context."""
    threads, new = [], ssl.SSLContext.__new__

    def counted(class_, *arguments, **keywords):
        threads.append(threading.current_thread())
        return new(class_, *arguments, **keywords)

    monkeypatch.setattr(ssl.SSLContext, "__new__", staticmethod(counted))
    return threads


def made_on_the_loop(made):
    return [thread for thread in made if thread is threading.current_thread()]


async def send_in_both_directions(client, queue):
    for _ in range(LINKS):
        await client.get_queue_sender(queue).send_messages(ServiceBusMessage("healthy"))
    client.fail_over(queue, "test")
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("redirected"))
    client.mark_healthy(queue)
    await client.ping(queue)


@in_asyncio
async def test_no_context_is_made_on_the_loop_over_websockets(world, opened, secondary, queue, made):
    client = await opened()
    made_by_then = made_on_the_loop(made)
    await send_in_both_directions(client, queue)
    await run_async(client._find_backlog_again())
    assert (await client.get_queue_receiver(queue).receive_messages(max_wait_time=20))[0]
    await client.close()
    assert made_on_the_loop(made) == made_by_then
    assert len([thread for thread in made if thread.name.startswith("pairing-blocking")]) == 1
    assert secondary.drain(client.backlog_paths[0])


@pytest.mark.parametrize("whose", ["the library's", "the user's"])
async def test_amqp_over_tls_uses_one_context_that_was_made_on_a_thread(tmp_path, made, whose):
    authority, pem, authorities = trustme.CA(), str(tmp_path / "namespace.pem"), str(tmp_path / "authorities.pem")
    authority.cert_pem.write_to_path(authorities)
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    context = {"ssl_context": ssl.create_default_context(cafile=authorities)} if whose == "the user's" else {}
    with running("contoso", entities=["contoso/orders"], arguments=["--tls-cert", pem, "--tls-key", pem]) as namespaces:
        namespace = namespaces["contoso"]
        made.clear()
        async with pairing.aio.PairedServiceBusClient.from_connection_string(
            namespace.connection_string.replace("UseDevelopmentEmulator=true;", ""),
            *strings("localhost"),
            options=LOCAL,  # over HTTPS it would be at port 443
            custom_endpoint_address=f"sb://localhost:{namespace.url.rpartition(':')[2]}",
            transport_type=TransportType.Amqp,
            **context or {"connection_verify": authorities},
        ) as client:
            made_by_then = made_on_the_loop(made)
            for _ in range(LINKS):
                await client.get_queue_sender("orders").send_messages(ServiceBusMessage("encrypted"))
            assert made_on_the_loop(made) == made_by_then
            assert len(made) - len(made_by_then) == (whose == "the library's")
        assert namespace.stats()["orders"]["enqueued"] == LINKS


@in_asyncio
async def test_links_to_an_emulator_without_tls_load_no_authorities(world, queue, monkeypatch):
    loaded = []
    for name in ("load_verify_locations", "load_default_certs"):
        monkeypatch.setattr(ssl.SSLContext, name, lambda *_, name=name, **__: loaded.append(name))
    client = await world.open(enable_pings=False)
    loaded.clear()  # the administration client's, of aiohttp, once for each client
    await send_in_both_directions(client, queue)
    assert loaded == []


@in_asyncio
async def test_authorities_that_cannot_be_read_are_reported_where_the_sdk_reports_them(world, opened, tmp_path):
    client = await opened(
        options=replace(OPTIONS, require_secondary=False, failover_interval=timedelta(minutes=1)),
        connection_verify=str(tmp_path / "missing.pem"),
        transport_type=TransportType.Amqp,
        http_proxy=None,
    )
    async with asyncio.timeout(60):
        with pytest.raises(Exception, match=r"missing\.pem|No such file"):
            await client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        await client.close()
