"""The endpoint of a link, and what it needs of the connection it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from amqp10 import events as e
from amqp10 import performatives as p
from amqp10.codec import encode
from amqp10.link import Link
from amqp10.types import Raw
from emulator.access import CBS_NODE, Grant
from emulator.broker.errors import MessageTooLarge
from emulator.broker.namespace import parse_address
from emulator.broker.transactions import Transactions
from emulator.faults import Fault
from emulator.host import MAX_MESSAGE_SIZE, Host


@dataclass
class Waiting:
    """What waits on the response links of one connection, in bytes."""

    answers: int = 0
    """Answers that are made, and wait for credit or for the client's window."""
    requests: int = 0
    """Requests that are not performed yet, as there is no room for their answers."""


class ClientConnection(Protocol):
    """The connection of a client, as the endpoints of its links see it."""

    host: Host
    is_paused: bool
    waiting: Waiting
    transactions: Transactions
    drops_early_responses: bool
    """Whether it is a client that drops the response to a request which it has sent, but not registered yet."""

    def request_flush(self) -> None:
        """Have the output written at the end of this turn."""

    def authorize(self, path: str, *rights: str) -> None:
        """Raise Unauthorized unless a token put on this connection gives one of these rights to the entity."""

    def add_grant(self, grant: Grant) -> None:
        """Record what a token that was put allows, and until when."""

    def attempt(
        self,
        operation: str,
        entity: str | None,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
        transaction: bytes | None = None,
    ) -> None:
        """Perform an operation, unless a fault is triggered by it.

        `perform` gets whether to answer; the others answer with a condition, a status or another encoded outcome.
        An operation that is not performed undoes its transaction.
        """

    def apply_fault(
        self,
        fault: Fault,
        link: Link | None,
        perform: Callable[[bool], Any],
        refuse: Callable[[str, str], Any],
        status: Callable[[Fault], Any] | None = None,
        outcome: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Apply the effect of a triggered fault."""


class Endpoint:
    """Our side of a link. Subclasses implement a kind of node."""

    _via = ""  # the entity that transactions are about

    def __init__(self, client: ClientConnection, link: Link) -> None:
        self.client = client
        self.host = client.host
        self.link = link
        self.entity = parse_address(link.address).path

    def open(self) -> None:
        """Answer the attach. Raises BrokerError if the link must be refused."""
        self.link.accept()

    def transaction_entity(self, *, receives: bool) -> str:
        """The top-level entity that transactions are about on this link, which is to be opened. Raises NotAllowed."""
        top_level, _ = self.host.namespace.authorization_rules(self.entity)
        return self.client.transactions.entity_of(self.link.session, top_level.lower(), receives=receives)

    def accept(self, **answer: Any) -> None:
        """Accept a link to an entity."""
        self.link.accept(**answer)
        self.client.transactions.accepted(self.link.session, self._via)

    def nodes(self) -> list[str]:
        """The nodes for which the link needs a token."""
        address = self.link.address  # a coordinator has none
        return [parse_address(address).node] if address and address != CBS_NODE else []

    def message(self, event: e.MessageReceived) -> None:
        """A message arrived."""

    def credit(self, event: e.CreditGranted) -> None:
        """The receiver set its credit."""

    def settled(self, event: e.Settled) -> None:
        """The receiver sent the outcome of a delivery."""

    def detached(self) -> None:
        """The link has ended."""

    def resumed(self) -> None:
        """The client reads again, or its session window opened."""


def in_transaction(transaction: bytes | None, outcome: bytes) -> bytes:
    """An encoded outcome as it is answered: within the state of its transaction, if there is one."""
    return outcome if transaction is None else encode(p.transactional(transaction, Raw(outcome)))


def check_size(size: int) -> None:
    """Raise MessageTooLarge for a message beyond the limit of the Standard tier."""
    if size > MAX_MESSAGE_SIZE:
        raise MessageTooLarge(f"The message has {size} bytes; the limit is {MAX_MESSAGE_SIZE}.")
