"""The paired client of a gateway: the library's own, whose backlog queues are sent bytes."""

from __future__ import annotations

from itertools import count
from typing import Any

from gateway.guard.backlog import Outgoing, SharedSender
from gateway.guard.work import Delivery
from gateway.metrics import Metrics
from gateway.namespace import Namespace
from pairing.aio.client import PairedServiceBusClient
from pairing.clock import Clock
from pairing.drive import Operation
from pairing.ends import Endpoint
from pairing.health.availability import State
from pairing.links.failures import AnyLink, LinkFailure
from pairing.operations.sender import SendOperations
from pairing.options import SendAvailabilityOptions

MOST_KEPT = 32 * 1024 * 1024


class QueueLink:
    """The link to a backlog queue, or to an entity of the primary, as far as a send uses it."""

    def __init__(self, namespace: SharedSender, path: str) -> None:
        self._namespace, self._path = namespace, path

    async def send(self, outgoing: Outgoing, timeout_s: float) -> LinkFailure | None:
        """Send within this time; None if the queue has accepted everything."""
        return await self._namespace.send(self._path, outgoing, timeout_s)


class GatewayClient(PairedServiceBusClient):
    """Opens no links of the SDK but those of pings, and of the syphon where it is enabled."""

    def _build(
        self, primary: Endpoint, secondary: Endpoint, options: SendAvailabilityOptions | None, clock: Clock | None
    ) -> None:
        super()._build(primary, secondary, options, clock)
        self.backlog, self.direct = (SharedSender(Namespace.of(end)) for end in (secondary, primary))
        self.metrics = Metrics()
        self.numbers = count(1)  # of messages scheduled in the backlog
        self.kept = 0  # bytes of deliveries without an outcome
        if self.tracing is not None:
            from gateway.guard.tracing import Redirections  # only if needed: it is slow to import

            self.tracing = Redirections(primary.host, secondary.host)

    def _backlog_link(self, path: str) -> Any:
        return QueueLink(self.backlog, path)

    def _warm(self, path: str) -> None:
        """The connection to the secondary is dialled by the first send."""

    def batch_limit(self) -> int:
        """The most bytes of a batch that a backlog queue accepts, as far as it is known."""
        return self.backlog.max_message_size or self._backlog_batch_limit

    @property
    def is_full(self) -> bool:
        """Whether no more may be kept."""
        return self.kept > MOST_KEPT

    async def close(self) -> None:
        """As the library's client; the connections to both namespaces end with it."""
        await super().close()
        for sender in (self.backlog, self.direct):
            sender.close()


class GuardedSends(SendOperations):
    """The sends of one guarded link: the library's operations, on deliveries."""

    def __init__(self, client: GatewayClient, path: str, link: AnyLink) -> None:
        super().__init__(client, path, link)
        self._limit, self._metrics = client.batch_limit, client.metrics

    def delivery(self, data: bytes, message_format: int) -> Delivery:
        """What a client sent, measured. Raises DecodeError and MessageSizeExceededError."""
        made = Delivery(data, message_format, self.entity_name, self._limit)
        self._measured(made)
        _ = self._has_warmed or made.messages[0].session_id  # which the library wants to know once it is accepted
        return made

    def deliver(self, delivery: Delivery, failure: LinkFailure | None, began_at: float) -> Operation[str | None]:
        """Send by the rules; returns the backlog queue, or None for the primary. Raises the error for the client.

        `failure`: why the attempt that was made when the delivery arrived failed; None if there was none.
        """
        count = len(delivery.messages)
        try:
            self._check_live()
            queue = yield from self._deliver(failure, delivery, self._timeout_s, began_at)
        except Exception:
            self.refused(count)
            raise
        if queue is not None:
            self._metrics.redirected_total += count
        return queue

    def refused(self, count: int) -> None:
        """Count messages that are stored nowhere, and whose client gets an error."""
        self._metrics.refused_total += count

    def accepted(self, delivery: Delivery) -> None:
        """The primary accepted a delivery that was passed on when it arrived."""
        client = self._client
        client._count_send("send", client.primary.namespace, delivery, accepted=True)
        self._entity.sent(self._now())
        if not self._has_warmed:
            self._warm_backlog(delivery.messages[0])

    @property
    def state(self) -> State:
        """Whether deliveries are passed on when they arrive, go by the rules, or go to a backlog queue at once."""
        return self._machine.state
