"""An application that receives, from the primary namespace only: what took the detour arrives there as well.

export CONTOSO_PRIMARY='Endpoint=sb://…' CONTOSO_SECONDARY='Endpoint=sb://…' REDIS_URL=redis://127.0.0.1:6379/0
python examples/receiver.py orders payments
"""

import argparse
import os
import signal
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import timedelta

import redis
from accounting import Accounts, number_of
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError

from pairing import PairedServiceBusClient, PairingError, SendAvailabilityOptions

LEAVING_S = 2.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Receives from queues of the namespace in CONTOSO_PRIMARY, checks that each message is as it was "
        "sent, and counts in the Redis of REDIS_URL what came and what came twice."
    )
    parser.add_argument("queues", nargs="+", metavar="QUEUE")
    parser.add_argument("--primary-namespace", help="its name, if the host does not contain it")
    parser.add_argument("--backlog-queues", type=int, default=10, help="backlog_queue_count (default: 10)")
    return parser.parse_args()


def connect(given: argparse.Namespace) -> PairedServiceBusClient:
    options = SendAvailabilityOptions(
        backlog_queue_count=given.backlog_queues,
        primary_namespace=given.primary_namespace,
        creation_retry_interval=timedelta(seconds=1),
        coordination=os.environ["REDIS_URL"],
        enable_pings=False,  # this application sends nothing
    )
    return PairedServiceBusClient.from_connection_string(
        os.environ["CONTOSO_PRIMARY"], os.environ["CONTOSO_SECONDARY"], options=options
    )


def receive(client: PairedServiceBusClient, queue: str, stop: threading.Event) -> None:
    """Receive from one queue until stop is set; outages are waited out."""
    accounts = Accounts.from_environment()
    was_connected = False
    while not stop.is_set():
        try:
            with client.get_queue_receiver(queue) as receiver:
                was_connected = True
                while not stop.is_set():
                    for message in receiver.receive_messages(max_message_count=50, max_wait_time=2):
                        take(receiver, message, queue, accounts)
        except ServiceBusError as error:
            if isinstance(error, ServiceBusAuthenticationError) and not was_connected:
                raise
            print(f"{queue}: {error}", file=sys.stderr, flush=True)
            stop.wait(1)


def take(receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, queue: str, accounts: Accounts) -> None:
    """Record the message, then complete it: a crash in between causes a duplicate, never a loss."""
    try:
        number = number_of(queue, str(message))
    except ValueError as error:
        accounts.damaged(queue)
        receiver.dead_letter_message(message, reason="damaged", error_description=str(error))
        return
    accounts.received(queue, number)
    receiver.complete_message(message)


def main() -> None:
    given = arguments()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with connect(given) as client:
        running = {start(client, queue, stop) for queue in given.queues}
        while not stop.is_set():  # in short waits, so that signals are heard
            ended, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            for one in ended:
                one.result()  # only an error ends it
        wait(running, timeout=LEAVING_S)


def start(client: PairedServiceBusClient, queue: str, stop: threading.Event) -> "Future[None]":
    """A daemon thread, because the SDK waits without a limit for a namespace that does not answer."""
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            receive(client, queue, stop)
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=run, name=queue, daemon=True).start()
    return outcome


if __name__ == "__main__":
    try:
        main()
    except KeyError as error:
        sys.exit(f"error: the environment variable {error} is not set; see --help")
    except redis.RedisError as error:
        sys.exit(f"error: Redis cannot be used: check REDIS_URL ({error})")
    except ServiceBusAuthenticationError as error:
        sys.exit(f"error: the primary refuses: check the key in CONTOSO_PRIMARY and the queues' names ({error})")
    except (PairingError, ValueError) as error:
        sys.exit(f"error: {error}; check CONTOSO_PRIMARY and CONTOSO_SECONDARY")
