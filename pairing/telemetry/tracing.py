"""Spans of sends, redirections and drains, by OpenTelemetry's conventions for messaging.

Imported only if tracing is enabled (``pairing.telemetry.trace_context``). A message carries the context of its send,
also through the backlog, and is received with it. No span contains a body, a property or a credential.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pairing.health.faults import describe
from pairing.health.flows import Failed
from pairing.telemetry.trace_context import carried, write

BACKLOG_QUEUE, ENTITY, MOVED = "pairing.backlog_queue", "pairing.entity", "pairing.moved"

_W3C = TraceContextTextMapPropagator()
_SYSTEM = {"messaging.system": "servicebus", "az.namespace": "Microsoft.ServiceBus"}

Attributes = Mapping[str, str | int]


class Work(Protocol):
    """The messages of one call (``pairing.messages.payload.Payload``)."""

    messages: list[ServiceBusMessage]
    outgoing: Any
    path: str


class Item(Protocol):
    """A message that leaves the backlog (``pairing.drain.backlog_queue.Item``)."""

    received: Any
    path: str
    message: Any


class Tracing:
    """The spans of one paired client."""

    def __init__(self, primary_host: str, secondary_host: str) -> None:
        self._tracer = trace.get_tracer("pairing")  # the provider that the application sets, now or later
        self._primary, self._secondary = _server(primary_host), _server(secondary_host)

    @contextmanager
    def sending(self, operation: str, path: str) -> Iterator[None]:
        """One call of the application: ``send`` or ``schedule``."""
        with self._span(operation, path, SpanKind.PRODUCER, self._primary, type_="send"):
            yield

    def carry(self, work: Work) -> None:
        """Add the context of the current send to the messages; messages with a context are linked to."""
        span, context = trace.get_current_span(), dict[str, str]()
        _W3C.inject(context)
        span.set_attributes(_message_attributes(work.messages))
        for message in work.messages:
            own = context_of(message)
            if own is not None:
                span.add_link(own)
            elif not isinstance(work.outgoing, ServiceBusMessageBatch):  # which is encoded already
                write(message, context)

    def create(self, message: ServiceBusMessage, path: str) -> None:
        """A message is added to a batch: it gets its own context."""
        if context_of(message) is None:
            with self._span("create", path, SpanKind.PRODUCER, self._primary) as span:
                context: dict[str, str] = {}
                _W3C.inject(context)
                span.set_attributes(_message_attributes([message]))
            write(message, context)

    @contextmanager
    def redirecting(self, queue: str, work: Work) -> Iterator[Callable[[Any], None]]:
        """An attempt on a backlog queue, within the send; call the result with its outcome."""
        found = {BACKLOG_QUEUE: queue}
        trace.get_current_span().set_attributes(found)
        attributes = {ENTITY: work.path, **_message_attributes(work.messages)}
        with self._span("send", queue, SpanKind.CLIENT, self._secondary, attributes) as span:

            def ended(outcome: Any) -> None:
                if isinstance(outcome, Failed):
                    _failed(span, type(outcome.error).__name__, describe(outcome.error))

            yield ended

    @contextmanager
    def moving(self, queue: str, path: str, items: Sequence[Item]) -> Iterator[Callable[[int, str | None, str], None]]:
        """Messages on their way from the backlog to the primary; call the result with how many arrived and why no more.

        One span for the transfer, linked to the traces of its messages, and in each of these one for the message.
        """
        began, contexts = time.time_ns(), [context_of(item.message) for item in items]
        links = [Link(context) for context in contexts if context is not None]
        attributes = {BACKLOG_QUEUE: queue, **_message_attributes([item.message for item in items])}
        with self._span(
            "send", path, SpanKind.CLIENT, self._primary, attributes, context=Context(), links=links
        ) as span:

            def ended(count: int, why: str | None, text: str) -> None:
                span.set_attribute(MOVED, count)
                if why is not None:
                    _failed(span, why, text)
                for item, context in zip(items[:count], contexts, strict=False):
                    if context is not None:
                        self._moved(item, context, queue, began, Link(span.get_span_context()))

            yield ended

    def _moved(self, item: Item, context: SpanContext, queue: str, began: int, link: Link) -> None:
        attributes: dict[str, str | int] = {ENTITY: item.path, **_message_attributes([item.message])}
        enqueued = getattr(item.received, "enqueued_time_utc", None)
        if enqueued is not None:
            attributes["messaging.servicebus.message.enqueued_time"] = int(enqueued.timestamp())
        span = self._tracer.start_span(
            f"forward {queue}",
            context=trace.set_span_in_context(NonRecordingSpan(context), Context()),
            kind=SpanKind.CONSUMER,
            attributes=_all("forward", "process", queue, self._secondary) | attributes,
            links=[link],
            start_time=began,
        )
        span.end()

    @contextmanager
    def _span(
        self,
        operation: str,
        path: str,
        kind: SpanKind,
        server: Attributes,
        attributes: Attributes | None = None,
        *,
        type_: str | None = None,
        **given: Any,
    ) -> Iterator[Span]:
        all_attributes = _all(operation, type_ or operation, path, server) | dict(attributes or {})
        with self._tracer.start_as_current_span(
            f"{operation} {path}",
            kind=kind,
            attributes=all_attributes,
            record_exception=False,  # its text may contain secrets
            set_status_on_exception=False,
            **given,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _failed(span, type(error).__name__, describe(error))
                raise


def context_of(message: ServiceBusMessage) -> SpanContext | None:
    """The context of a sent or received message; None if it has no valid one."""
    properties = carried(message)
    context = trace.get_current_span(_W3C.extract(properties, Context())).get_span_context() if properties else None
    return context if context is not None and context.is_valid else None


def _failed(span: Span, kind: str, text: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, text)


def _all(operation: str, type_: str, path: str, server: Attributes) -> dict[str, str | int]:
    return {
        **_SYSTEM,
        **server,
        "messaging.operation.name": operation,
        "messaging.operation.type": type_,
        "messaging.destination.name": path,
    }


def _message_attributes(messages: list[ServiceBusMessage]) -> dict[str, str | int]:
    if len(messages) != 1:
        return {"messaging.batch.message_count": len(messages)}
    found = messages[0].message_id
    return {"messaging.message.id": str(found)} if found else {}


def _server(host: str) -> dict[str, str | int]:
    where = urlsplit(f"//{host}")
    address: dict[str, str | int] = {"server.address": where.hostname or host}
    return address if where.port is None else address | {"server.port": where.port}
