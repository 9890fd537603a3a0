"""One trace tells of a message from its sender over the backlog and the syphon to its destination, in both worlds."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus import exceptions as sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pairing.telemetry.trace_context import carried, is_wanted, write
from pairing.telemetry.tracing import context_of

SECRET = "the body that nobody may read"
_EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="session")
def _provider():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture
def spans(_provider):
    """The spans that have ended since the test began, by name in the order of their ends."""
    _EXPORTER.clear()
    return lambda name=None: [span for span in _EXPORTER.get_finished_spans() if name in (None, span.name)]


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


# What is on the wire and on the spans


async def test_one_trace_reports_sender_backlog_syphon_and_destination(world, primary, queue, spans):
    client = await world.open(
        tracing=True, backlog_queue_count=1, enable_syphon=True, syphon_retry_interval=timedelta(seconds=1)
    )
    [backlog] = client.backlog_paths
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "to see the trace", hold=True)
    own = {"colour": SECRET}
    message = ServiceBusMessage(SECRET, message_id="m-1", application_properties=own)
    with trace.get_tracer("application").start_as_current_span("order") as order:
        await world(sender.send_messages, message)
    client.mark_healthy(queue)
    await world.until(lambda: spans(f"forward {backlog}"), within_s=30)
    [received] = primary.receive(queue, 1)
    await world.until(lambda: len(spans(f"send {queue}")) == 2)
    (sent, moved), [redirected], [forwarded] = map(spans, (f"send {queue}", f"send {backlog}", f"forward {backlog}"))

    trace_id = order.get_span_context().trace_id
    assert {span.context.trace_id for span in (sent, redirected, forwarded)} == {trace_id}
    assert parent_of(sent) == order.get_span_context().span_id
    assert parent_of(redirected) == parent_of(forwarded) == sent.context.span_id
    # the syphon's transfer is a trace of its own, for it may carry the messages of many: linked both ways
    assert (moved.parent, moved.context.trace_id == trace_id) == (None, False)
    assert [link.context.span_id for link in moved.links] == [sent.context.span_id]
    assert [link.context.span_id for link in forwarded.links] == [moved.context.span_id]
    # and the receiver finds the sender's context, whichever way the message took
    assert context_of(received).span_id == sent.context.span_id
    reported = {bytes(key).decode(): bytes(value).decode() for key, value in received.application_properties.items()}
    assert reported == {
        "colour": SECRET,
        "traceparent": f"00-{trace_id:032x}-{sent.context.span_id:016x}-{sent.context.trace_flags:02x}",
        "Diagnostic-Id": reported["traceparent"],
    }
    assert own == {"colour": SECRET}  # the application's own mapping stays as it is
    kinds = [span.kind for span in (sent, redirected, forwarded, moved)]
    assert kinds == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT]
    assert dict(sent.attributes) == {
        "messaging.system": "servicebus",
        "az.namespace": "Microsoft.ServiceBus",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": queue,
        "messaging.message.id": "m-1",
        "server.address": "127.0.0.1",
        "server.port": primary.port,
        "pairing.backlog_queue": backlog,
    }
    assert redirected.attributes["server.port"] == world.secondary.port
    assert redirected.attributes["pairing.entity"] == queue
    assert forwarded.attributes["messaging.operation.type"] == "process"
    assert forwarded.attributes["messaging.servicebus.message.enqueued_time"] > 1_500_000_000
    assert (moved.attributes["pairing.moved"], moved.attributes["pairing.backlog_queue"]) == (1, backlog)
    shown = "".join(span.to_json() for span in spans())
    assert not [secret for secret in (SECRET, "local-namespace-key") if secret in shown]


async def test_a_send_that_failed_is_reported_with_its_error_and_no_stack(world, primary, queue, spans):
    primary.fault(entity=queue, operation="send", effect="reject", condition="com.microsoft:server-busy")
    client = await world.open(tracing=True)
    with pytest.raises(sdk.ServiceBusServerBusyError):
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    [sent] = spans(f"send {queue}")
    assert (sent.status.status_code, sent.attributes["error.type"]) == (StatusCode.ERROR, "ServerBusyError")
    assert sent.events == ()


async def test_a_backlog_queue_that_refused_is_reported_beside_the_one_that_accepted(world, secondary, queue, spans):
    client = await world.open(tracing=True)
    sender = client.get_queue_sender(queue)
    client.fail_over(queue, "to see the trace")
    first = sender._backlog.choose(())
    secondary.fault(entity=first, operation="send", effect="reject")
    await world(sender.send_messages, ServiceBusMessage("x"))
    tries = [span for span in spans() if span.kind is SpanKind.CLIENT]
    assert [span.status.status_code for span in tries] == [StatusCode.ERROR, StatusCode.UNSET]
    assert tries[0].name == f"send {first}"
    [sent] = spans(f"send {queue}")
    assert (sent.status.status_code, f"send {sent.attributes['pairing.backlog_queue']}") == (
        StatusCode.UNSET,
        tries[1].name,
    )


async def test_the_messages_of_a_list_carry_the_send_those_of_a_batch_their_own_creation(world, primary, queue, spans):
    client = await world.open(tracing=True)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, [ServiceBusMessage("a"), {"body": "b"}])
    [listed] = spans(f"send {queue}")
    assert listed.attributes["messaging.batch.message_count"] == 2
    assert {context_of(message).span_id for message in primary.receive(queue, 2)} == {listed.context.span_id}

    batch = await world(sender.create_message_batch)
    for text in "cd":
        batch.add_message(ServiceBusMessage(text))
    await world(sender.send_messages, batch)
    created, batched = spans(f"create {queue}"), spans(f"send {queue}")[1]
    ids = {span.context.span_id for span in created}
    assert len(ids) == 2
    assert {link.context.span_id for link in batched.links} == ids
    assert {context_of(message).span_id for message in primary.receive(queue, 2)} == ids


async def test_a_context_that_the_application_has_set_stays_and_is_linked_to(world, primary, queue, spans):
    client = await world.open(tracing=True)
    own = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1"}
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x", application_properties=own))
    [sent] = spans(f"send {queue}")
    assert [f"{link.context.span_id:x}" for link in sent.links] == ["b7ad6b7169203331"]
    [received] = primary.receive(queue, 1)
    assert carried(received) == own


async def test_a_schedule_is_reported_as_one(world, queue, spans):
    client = await world.open(tracing=True)
    when = datetime.now(UTC) + timedelta(hours=1)
    await world(client.get_queue_sender(queue).schedule_messages, ServiceBusMessage("later"), when)
    [scheduled] = spans(f"schedule {queue}")
    assert scheduled.attributes["messaging.operation.type"] == "send"


async def test_without_being_wanted_nothing_is_traced_or_written(world, primary, queue, spans, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    client = await world.open()
    assert client.tracing is None
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    [received] = primary.receive(queue, 1)
    assert (spans(), received.application_properties) == ([], None)


# Whether it is wanted


@pytest.mark.parametrize(
    ("option", "environment", "wanted"),
    [
        (None, {}, False),
        (True, {}, True),
        (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "console"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        (None, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
    ],
)
def test_opentelemetrys_own_variables_say_whether_to_trace_unless_the_option_does(option, environment, wanted):
    assert is_wanted(option, environment) is wanted


# What a message carries


SENSELESS = [{"traceparent": 7}, {"traceparent": "nonsense"}, {b"traceparent": b"\xff\xfe"}, {"traceparent": ""}]


@pytest.mark.parametrize("properties", [None, {}, {1: 2}, *SENSELESS], ids=str)
def test_what_makes_no_sense_is_no_context(properties):
    message = ServiceBusMessage("x")
    message.application_properties = properties
    assert context_of(message) is None


def test_what_net_writes_is_a_context():
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = ServiceBusMessage("x", application_properties={"Diagnostic-Id": parent})
    assert carried(message) == {"traceparent": parent}


def test_nothing_is_written_of_a_trace_that_there_is_not():
    message = ServiceBusMessage("x")
    write(message, {})
    assert message.application_properties is None
