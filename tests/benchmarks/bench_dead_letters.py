"""*Resubmit all* on a backlog queue with 10,000 dead letters, by one worker on local namespaces: messages a second."""

import json
import os
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

from tests.conftest import start_redis
from tests.ports import free_port

MESSAGES = 10_000
PATH = "contoso/x-servicebus-transfer/0"
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "BENCH_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "BENCH_SECONDARY", namespace = "contoso-dr" }
entities = ["orders"]
"""


def run(messages: int = MESSAGES) -> dict[str, Any]:
    """In a process and database of its own, between namespaces and a Redis of their own."""
    emulator = [sys.executable, "-m", "emulator", "--namespace", "contoso:0", "--namespace", "contoso-dr:0"]
    command = (sys.executable, "-m", "tests.benchmarks.bench_dead_letters", str(messages))
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([*emulator, "--entity", "contoso/orders"], stdout=subprocess.PIPE, text=True) as namespaces,
    ):
        assert namespaces.stdout is not None
        primary, secondary = (namespaces.stdout.readline().strip().split(" ", 2)[2] for _ in range(2))
        Path(folder, "pairs.toml").write_text(PAIRS)
        port = free_port()
        server = start_redis(Path(folder), port)
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "DATABASE_URL": f"sqlite:///{folder}/control-plane.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "STATE_DIR": folder,
            "PAIRS_FILE": f"{folder}/pairs.toml",
            "BENCH_PRIMARY": primary,
            "BENCH_SECONDARY": secondary,
        }
        try:
            done = subprocess.run(
                command, env=environment, cwd=Path(__file__).parents[2], check=True, capture_output=True
            )
        finally:
            namespaces.terminate()
            server.kill()
            server.wait(10)
    answer: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    return answer


def measure(messages: int) -> dict[str, Any]:
    """Fill the queue, and carry the job on as a worker does: slice by slice."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("sync_pairs", verbosity=0)
    _fill(messages)
    from dashboard.models import DeadLetterJob
    from workers import connections, dead_letters

    row = _job(messages)
    began = perf_counter()
    while not row.ended_at:
        dead_letters.carry_out(row.pk)
        row.refresh_from_db()
    took = perf_counter() - began
    connections.close_all()
    assert DeadLetterJob.objects.get().done == messages, row.detail
    return {"messages": messages, "seconds": round(took, 1), "messages_a_second": round(messages / took)}


def _fill(messages: int) -> None:
    """Messages that expire at once, in a queue that keeps what has expired as dead letters."""
    from azure.servicebus import ServiceBusClient, ServiceBusMessage
    from azure.servicebus.management import ServiceBusAdministrationClient

    from pairing import emulator_transport
    from pairing.backlog.administration import CREATED_WITH
    from pairing.messages.rewriting import to_backlog

    text, body = os.environ["BENCH_SECONDARY"], b"x" * 1000
    with ServiceBusAdministrationClient.from_connection_string(text, transport=emulator_transport()) as administration:
        administration.create_queue(PATH, **{**CREATED_WITH, "dead_lettering_on_message_expiration": True})
        with ServiceBusClient.from_connection_string(text) as client, client.get_queue_sender(PATH) as sender:
            for first in range(0, messages, 100):
                batch = [to_backlog(ServiceBusMessage(body, message_id=str(first + n)), "orders") for n in range(100)]
                for message in batch:
                    message.time_to_live = timedelta(seconds=1)
                sender.send_messages(batch)
        until = monotonic() + 120
        while administration.get_queue_runtime_properties(PATH).dead_letter_message_count != messages:
            assert monotonic() < until
            sleep(0.2)


def _job(messages: int) -> Any:
    from django.utils import timezone

    from dashboard.models import DeadLetterJob, Pair

    return DeadLetterJob.objects.create(
        pair=Pair.objects.get(),
        path=PATH,
        by="ada",
        at=timezone.now(),
        request_id="bench",
        kind="resubmit",
        upto=messages,
        total=messages,
    )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
