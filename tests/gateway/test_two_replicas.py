"""Two gateways behind one address, as a service of Kubernetes is; one of them is killed while clients send."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from emulator.running import running
from tests.gateway.recording import recorder
from tests.gateway.running import gateway
from tests.gateway.test_away import Program
from tests.gateway.test_sdks_in_faults import InPython
from tests.selection import nightly

pytestmark = pytest.mark.slow
CLIENTS, MESSAGES = 4, 60


def send_all(client, of, is_halfway, tries):
    """Send messages one after the other; returns their ids."""
    names = [f"{of}-{number}" for number in range(MESSAGES)]
    for name in names:
        assert any(client.ask(name).startswith("accepted") for _ in range(tries))
        if name == names[MESSAGES // 2]:
            is_halfway()
    return names


@pytest.mark.parametrize("language", ["Python", *nightly("JavaScript", "Java", "Go")])
def test_clients_reconnect_to_the_other_and_nothing_accepted_is_lost(tmp_path, redis_url, monkeypatch, language):
    monkeypatch.setenv("TRY_S", "20")
    (key := tmp_path / "key").write_text("a-key", encoding="utf-8")
    with ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, secondary = (namespaces[name].connection_string for name in ("contoso", "contoso-dr"))
        options = {"secondary": secondary, "GATEWAY_COORDINATION": redis_url}
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        replicas = [stack.enter_context(gateway(at, primary, "--key-file", str(key), **options)) for at in folders]
        ports = [int(one.connection_string.partition(";")[0].rpartition(":")[2]) for one in replicas]
        service = stack.enter_context(recorder())
        service.to = ports[0]
        string = replicas[0].connection_string.replace(f":{ports[0]};", f":{service.port};")
        string = string.replace(f"SharedAccessKeyFile={key}", "SharedAccessKey=a-key")

        def kill():
            service.to = ports[1]
            replicas[0].process.send_signal(signal.SIGKILL)

        threads = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        clients = [InPython(string) if language == "Python" else Program(language, string) for _ in range(CLIENTS)]
        for client in clients:
            stack.callback(client.end)
        tries = 3 if language == "JavaScript" else 1  # its SDK does not retry an error while it opens a link
        sending = [threads.submit(send_all, one, of, int if of else kill, tries) for of, one in enumerate(clients)]
        accepted = [name for each in as_completed(sending) for name in each.result(60)]
        assert replicas[0].process.wait(10) == -signal.SIGKILL
        assert len(accepted) == CLIENTS * MESSAGES
        stored = set()
        with (
            ServiceBusClient.from_connection_string(primary) as client,
            client.get_queue_receiver("orders", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
        ):
            until = time.monotonic() + 60
            while not stored.issuperset(accepted) and time.monotonic() < until:
                stored |= {one.message_id for one in receiver.receive_messages(100, max_wait_time=1)}
        assert stored == set(accepted)
