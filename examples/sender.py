"""An application that sends: it goes on while the primary namespace is down.

export CONTOSO_PRIMARY='Endpoint=sb://…' CONTOSO_SECONDARY='Endpoint=sb://…' REDIS_URL=redis://127.0.0.1:6379/0
python examples/sender.py orders payments --rate 2
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import timedelta

import redis
from accounting import Accounts, letter
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError

from pairing import PairedServiceBusClient, PairingError, SendAvailabilityOptions


def number(least: float, most: float) -> Callable[[str], float]:
    """A number of this range, for the parser; nan is none."""

    def read(text: str) -> float:
        if not least <= float(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:,} to {most:,}")
        return float(text)

    return read


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Sends numbered messages to queues of the namespace in CONTOSO_PRIMARY, paired with the one in "
        "CONTOSO_SECONDARY; counts in the Redis of REDIS_URL what was accepted and what was refused."
    )
    parser.add_argument("queues", nargs="+", metavar="QUEUE")
    parser.add_argument(
        "--rate", type=number(0.001, 1_000_000), default=2.0, help="messages a second and queue (default: 2)"
    )
    parser.add_argument("--count", type=int, help="end after so many messages a queue (default: never)")
    parser.add_argument("--primary-namespace", help="its name, if the host does not contain it")
    parser.add_argument("--backlog-queues", type=int, default=10, help="backlog_queue_count (default: 10)")
    interval = {"type": number(0, 3600), "default": 60.0, "metavar": "S", "help": "seconds (default: 60)"}
    parser.add_argument("--failover-interval", **interval)
    parser.add_argument("--ping-interval", **interval)
    return parser.parse_args()


def connect(given: argparse.Namespace) -> PairedServiceBusClient:
    options = SendAvailabilityOptions(
        backlog_queue_count=given.backlog_queues,
        failover_interval=timedelta(seconds=given.failover_interval),
        ping_primary_interval=timedelta(seconds=given.ping_interval),
        primary_namespace=given.primary_namespace,
        creation_retry_interval=timedelta(seconds=1),
        coordination=os.environ["REDIS_URL"],
    )
    return PairedServiceBusClient.from_connection_string(
        os.environ["CONTOSO_PRIMARY"], os.environ["CONTOSO_SECONDARY"], options=options
    )


def send(client: PairedServiceBusClient, queue: str, given: argparse.Namespace, stop: threading.Event) -> None:
    """Send to one queue until stop is set or the count is reached; a rejected message is counted, not repeated."""
    accounts = Accounts.from_environment()
    was_accepted = False
    sent = 0
    with client.get_queue_sender(queue) as sender:
        while not stop.is_set() and sent != given.count:
            number = accounts.next_number(queue)
            try:
                sender.send_messages(ServiceBusMessage(letter(queue, number)), timeout=10)
            except ServiceBusError as error:
                if isinstance(error, ServiceBusAuthenticationError) and not was_accepted:
                    raise
                accounts.refused(queue)
                print(f"{queue}: {number} refused: {error}", file=sys.stderr, flush=True)
            else:
                was_accepted = True
                accounts.accepted(queue, number)
            sent += 1
            stop.wait(1 / given.rate)


def main() -> None:
    given = arguments()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with connect(given) as client, ThreadPoolExecutor(len(given.queues)) as threads:
        sending = [threads.submit(send, client, queue, given, stop) for queue in given.queues]
        pending = set(sending)
        while pending:  # in short waits, so that signals are heard
            ended, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            if any(one.exception() for one in ended):
                stop.set()
        for one in sending:
            one.result()


if __name__ == "__main__":
    try:
        main()
    except ServiceBusAuthenticationError as error:
        sys.exit(f"error: the primary refuses: check the key in CONTOSO_PRIMARY and the queues' names ({error})")
    except KeyError as error:
        sys.exit(f"error: the environment variable {error} is not set; see --help")
    except redis.RedisError as error:
        sys.exit(f"error: Redis cannot be used: check REDIS_URL ({error})")
    except (PairingError, ValueError) as error:
        sys.exit(f"error: {error}; check CONTOSO_PRIMARY and CONTOSO_SECONDARY")
