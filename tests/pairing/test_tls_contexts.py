"""An asyncio client makes its TLS context once, on a thread: each takes some 45 ms, for which it would hold the loop.

docs/specification.md, section 5: a send returns or raises within its timeout, so nothing may hold the loop for long.
"""

import asyncio
import ssl
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import trustme
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.management import ServiceBusAdministrationClient

from emulator.running import running
from pairing import SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient
from pairing.drive import run_async
from tests.pairing.gateway import Gateway
from tests.pairing.test_ways_to_a_namespace import KEY, OPTIONS, PRIMARY, SECONDARY, pytestmark  # noqa: F401

LINKS = 3


@pytest.fixture
def made(monkeypatch):
    """The threads that have made a TLS context."""
    threads, new = [], ssl.SSLContext.__new__

    def counted(class_, *arguments, **keywords):
        threads.append(threading.current_thread())
        return new(class_, *arguments, **keywords)

    monkeypatch.setattr(ssl.SSLContext, "__new__", staticmethod(counted))
    return threads


def strings(*hosts):
    return [
        f"Endpoint=sb://{host}/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}" for host in hosts
    ]


async def send_in_both_directions(client, queue):
    for _ in range(LINKS):
        await client.get_queue_sender(queue).send_messages(ServiceBusMessage("healthy"))
    client.fail_over(queue, "test")
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("redirected"))
    client.mark_healthy(queue)
    await client.ping(queue)


async def test_no_context_is_made_on_the_loop_over_websockets(primary, secondary, queue, tmp_path, made):
    gateway = Gateway({PRIMARY: primary.port, SECONDARY: secondary.port}, KEY, tmp_path)
    try:
        async with PairedServiceBusClient.from_connection_string(
            *strings(PRIMARY, SECONDARY),
            options=OPTIONS,
            transport_type=TransportType.AmqpOverWebsocket,
            http_proxy=gateway.proxy,
            connection_verify=gateway.certificates,
        ) as client:
            made_by_then = [thread for thread in made if thread is threading.current_thread()]
            await send_in_both_directions(client, queue)
            await run_async(client._find_backlog_again())
            assert (await client.get_queue_receiver(queue).receive_messages(max_wait_time=20))[0]
            [backlog] = client.backlog_paths
        assert [thread for thread in made if thread is threading.current_thread()] == made_by_then
        assert len([thread for thread in made if thread.name.startswith("asyncio")]) == 1
        assert secondary.drain(backlog)
    finally:
        gateway.stop()


@pytest.fixture
def authority(tmp_path):
    """The files of an authority, of a certificate for this machine, and of its key."""
    ca, files = trustme.CA(), [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    ca.cert_pem.write_to_path(files[0])
    leaf = ca.issue_cert("127.0.0.1", "localhost")
    leaf.cert_chain_pems[0].write_to_path(files[1])
    leaf.private_key_pem.write_to_path(files[2])
    return [str(file) for file in files]


@pytest.mark.parametrize("whose", ["the library's", "the user's"])
async def test_amqp_over_tls_uses_one_context_that_was_made_on_a_thread(authority, made, whose):
    authorities, certificate, key = authority
    keywords = {"connection_verify": authorities}
    if whose == "the user's":
        keywords = {"ssl_context": ssl.create_default_context(cafile=authorities)}
    options = SendAvailabilityOptions(
        primary_namespace="contoso",
        secondary_namespace="contoso-dr",
        backlog_queue_count=1,
        creation_retry_interval=timedelta(0),
        require_secondary=False,  # over HTTPS it would be at port 443
        enable_pings=False,
    )
    with running(
        "contoso", entities=["contoso/orders"], arguments=["--tls-cert", certificate, "--tls-key", key]
    ) as namespaces:
        string = namespaces["contoso"].connection_string
        port = int(string.partition("127.0.0.1:")[2].partition(";")[0])
        made.clear()
        async with PairedServiceBusClient.from_connection_string(
            string.replace("UseDevelopmentEmulator=true;", ""),
            *strings("localhost"),
            options=options,
            custom_endpoint_address=f"sb://localhost:{port}",
            transport_type=TransportType.Amqp,
            **keywords,
        ) as client:
            made_by_then = [thread for thread in made if thread is threading.current_thread()]
            for _ in range(LINKS):
                await client.get_queue_sender("orders").send_messages(ServiceBusMessage("encrypted"))
            assert [thread for thread in made if thread is threading.current_thread()] == made_by_then
            assert len(made) - len(made_by_then) == (whose == "the library's")
        with ServiceBusAdministrationClient.from_connection_string(
            string, connection_verify=authorities
        ) as administration:
            assert administration.get_queue_runtime_properties("orders").active_message_count == LINKS


async def test_links_to_an_emulator_without_tls_load_no_authorities(primary, secondary, queue, monkeypatch):
    loaded = []
    for name in ("load_verify_locations", "load_default_certs"):
        monkeypatch.setattr(ssl.SSLContext, name, lambda *_, name=name, **__: loaded.append(name))
    async with PairedServiceBusClient.from_connection_string(
        primary.connection_string,
        secondary.connection_string,
        options=replace(OPTIONS, primary_namespace="contoso", secondary_namespace="contoso-dr"),
    ) as client:
        loaded.clear()  # the administration client's, of aiohttp, once for each client
        await send_in_both_directions(client, queue)
    assert loaded == []


async def test_authorities_that_cannot_be_read_are_reported_where_the_sdk_reports_them(tmp_path):
    options = SendAvailabilityOptions(
        backlog_queue_count=1, creation_retry_interval=timedelta(0), require_secondary=False, enable_pings=False
    )
    client = PairedServiceBusClient.from_connection_string(
        *strings(PRIMARY, SECONDARY), options=options, connection_verify=str(tmp_path / "missing.pem")
    )
    await client.open()
    async with asyncio.timeout(60):
        with pytest.raises(Exception, match=r"missing\.pem|No such file"):
            await client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        await client.close()
