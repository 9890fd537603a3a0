"""A process that runs a syphon under leases and stops itself (SIGSTOP) between its first send and what follows it."""

import signal
import sys
import threading

from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.books import Books
from pairing.ledger import Ledger

keep = Books.keep


def freeze_and_keep(books: Books, ledger: Ledger) -> bool:
    if not ledger.pending:
        return keep(books, ledger)
    Books.keep = keep
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: another would let it run on a little
    may_go_on = keep(books, ledger)
    print("went on" if may_go_on else "gave way", flush=True)
    return may_go_on


Books.keep = freeze_and_keep
primary, secondary, pair, redis_url = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *told: stop.set())
options = SendAvailabilityOptions(
    primary_namespace=pair, backlog_queue_count=2, enable_pings=False, coordination=redis_url
)
with PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as client:
    Syphon(client).run(stop)
