"""docs/specification.md, section 5: which errors of the SDK mean an outage; docs/wire.md, section 8."""

import errno
import struct
from collections.abc import Callable
from datetime import timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from azure.servicebus import ServiceBusMessage
from azure.servicebus import exceptions as sdk
from azure.servicebus._pyamqp.error import AMQPConnectionError, ErrorCondition
from azure.servicebus.exceptions import ServiceBusError

from pairing import Fault, SendAvailabilityOptions, classify
from pairing.drain.refusals import why_refused
from pairing.health.faults import TABLE, describe, is_ambiguous, without_secrets
from pairing.testing import InMemoryNamespace, InMemoryPairedClient

BY_CLASS = [
    ("no answer in time", sdk.OperationTimeoutError(), Fault.OUTAGE),
    ("a timeout of Python's own", TimeoutError(), Fault.OUTAGE),
    ("connection lost", sdk.ServiceBusConnectionError(), Fault.OUTAGE),
    ("no communication", sdk.ServiceBusCommunicationError(), Fault.OUTAGE),
    ("socket error", OSError(), Fault.OUTAGE),
    ("connection refused", ConnectionRefusedError(), Fault.OUTAGE),
    ("entity disabled", sdk.MessagingEntityDisabledError(), Fault.OUTAGE),
    ("quota exceeded", sdk.ServiceBusQuotaExceededError(), Fault.OUTAGE),
    ("server busy", sdk.ServiceBusServerBusyError(), Fault.BUSY),
    ("wrong key", sdk.ServiceBusAuthenticationError(), Fault.CONFIGURATION),
    ("missing right", sdk.ServiceBusAuthorizationError(), Fault.CONFIGURATION),
    ("no token", ClientAuthenticationError(), Fault.CONFIGURATION),
    ("message too large", sdk.MessageSizeExceededError(), Fault.CALLER),
    ("wrong value", ValueError(), Fault.CALLER),
    ("wrong type", TypeError(), Fault.CALLER),
    ("message settled", sdk.MessageAlreadySettled(), Fault.CALLER),
    ("message lock lost", sdk.MessageLockLostError(), Fault.CALLER),
    ("session lock lost", sdk.SessionLockLostError(), Fault.CALLER),
    ("session locked by another", sdk.SessionCannotBeLockedError(), Fault.CALLER),
    ("message not found", sdk.MessageNotFoundError(), Fault.CALLER),
    ("entity exists", sdk.MessagingEntityAlreadyExistsError(), Fault.CALLER),
    ("renewal failed", sdk.AutoLockRenewFailed("x"), Fault.CALLER),
    ("renewal timed out", sdk.AutoLockRenewTimeout("x"), Fault.CALLER),
    ("an error without a condition", ServiceBusError("?"), Fault.OUTAGE),
]


@pytest.mark.parametrize(("error", "fault"), [row[1:] for row in BY_CLASS], ids=[row[0] for row in BY_CLASS])
@pytest.mark.parametrize("known", [True, False], ids=["entity known", "entity unknown"])
def test_each_class_has_its_row(error, fault, known):
    assert classify(error, known=known) is fault


def test_no_error_class_of_the_sdk_is_forgotten():
    errors = {value for value in vars(sdk).values() if isinstance(value, type) and issubclass(value, Exception)}
    decided_apart = {sdk.MessagingEntityNotFoundError, ServiceBusError, sdk.AzureError}
    assert errors - set(TABLE) == decided_apart, "a new error class needs a row in the table"


def test_an_error_class_of_tomorrow_is_not_about_sending():
    class TomorrowsError(ServiceBusError):
        pass

    assert classify(TomorrowsError("?"), known=True) is Fault.CALLER


@pytest.mark.parametrize("inner", [ValueError(), TypeError(), struct.error(), UnicodeEncodeError("a", "b", 0, 1, "c")])
def test_a_message_that_the_sdk_cannot_encode_is_the_callers_fault(inner):
    error = ServiceBusError("Handler failed", error=inner)
    assert classify(error, known=True) is Fault.CALLER
    assert not is_ambiguous(error)


@pytest.mark.parametrize("inner", [ClientAuthenticationError("no secret"), ServiceRequestError("no answer")])
def test_a_credential_without_a_token_is_no_outage_of_the_entity(inner):
    error = ServiceBusError(f"Handler failed: {inner}.", error=inner)
    assert classify(error, known=True) is Fault.CONFIGURATION
    assert describe(error) == f"refused: the credential gives no token: {describe(inner)}"


@pytest.mark.parametrize("class_", [ValueError, TypeError, RuntimeError, TimeoutError, KeyError])
def test_a_credential_that_raises_anything_is_no_outage_of_the_entity(class_):
    def _asked() -> None:
        raise class_("of the application")

    with pytest.raises(class_) as raised:
        _asked()
    error = ServiceBusError("Handler failed", error=raised.value)
    assert classify(error, known=True) is Fault.CONFIGURATION
    assert describe(error) == f"refused: the credential gives no token: {describe(raised.value)}"


def as_the_sdk_raises(cause: BaseException) -> ServiceBusError:
    """What a send raises where the SDK could not connect."""
    lower = AMQPConnectionError(ErrorCondition.SocketError, error=cause)
    lower.__cause__ = cause
    return sdk.ServiceBusConnectionError(message="Failed to initiate the connection", error=lower)


SHORTAGES = [
    MemoryError(),
    RuntimeError("can't start new thread"),
    *(OSError(number, "?") for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)),
]


@pytest.mark.parametrize("cause", SHORTAGES, ids=repr)
def test_what_this_process_lacks_is_no_outage_of_the_entity(cause):
    for error in (cause, as_the_sdk_raises(cause), ServiceBusError("Handler failed", error=cause)):
        assert classify(error, known=True) is Fault.CALLER
        assert why_refused(error) == "shortage"  # so that the syphon neither counts an attempt nor dead-letters


@pytest.mark.parametrize("cause", [OSError(errno.ECONNREFUSED, "?"), OSError(errno.ENETUNREACH, "?"), RuntimeError()])
def test_what_the_network_or_the_sdk_lacks_qualifies(cause):
    assert classify(as_the_sdk_raises(cause), known=False) is Fault.OUTAGE


def test_a_process_without_file_descriptors_leaves_the_backlog_queues_in_their_rotation():
    secondary = InMemoryNamespace("contoso-dr")
    with InMemoryPairedClient(InMemoryNamespace("contoso"), secondary) as client:
        events: list[str] = []
        client.on_event(lambda event: events.append(event.kind))
        client.fail_over("orders", "test")
        for path in client.backlog_paths:
            secondary.fail(as_the_sdk_raises(OSError(errno.EMFILE, "Too many open files")), path)
        with pytest.raises(sdk.ServiceBusConnectionError):
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        assert events == ["forced", "out_of_resources"]


TORN_OR_SILENT = [
    sdk.ServiceBusConnectionError(),
    sdk.OperationTimeoutError(),
    sdk.ServiceBusCommunicationError(),
    ConnectionResetError(),
    ServiceBusError("Handler failed", error=AttributeError()),
]
ANSWERS = [
    ServiceBusError("no", condition=b"amqp:internal-error"),
    sdk.MessagingEntityDisabledError(),
    sdk.ServiceBusServerBusyError(),
    ValueError(),
]


@pytest.mark.parametrize("error", TORN_OR_SILENT + ANSWERS, ids=lambda error: type(error).__name__)
def test_a_torn_or_silent_link_hides_the_cause_and_an_answer_nothing(error):
    assert is_ambiguous(error) == (error in TORN_OR_SILENT)


def test_nothing_secret_is_revealed():
    text = (
        "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey=abc123=; "
        "SharedAccessSignature sr=x&sig=abc123&se=1 redis://:abc123@host/0 password=abc123"
    )
    assert "abc123" not in without_secrets(text)
    assert "abc123" not in describe(OSError(text))


def test_a_description_is_one_line_of_bounded_length():
    assert describe(OSError("first\nsecond " + "x" * 1000)) == "OSError: first"
    assert len(describe(OSError("y" * 1000))) < 400


def fails_over(rule: Callable[..., object], error: Exception) -> bool:
    """Whether a send that fails with this error ends in a failover, where the user has this rule."""
    primary, secondary = InMemoryNamespace("contoso"), InMemoryNamespace("contoso-dr")
    primary.fail(error, "orders")
    options = SendAvailabilityOptions(classify=rule, failover_interval=timedelta(0))  # type: ignore[arg-type]
    with InMemoryPairedClient(primary, secondary, options=options) as client:
        client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
        return client.entity_health("orders").state == "failed_over"


@pytest.mark.parametrize(
    "mistaken", [lambda error, *, known: None, lambda error, *, known: "outage", lambda error, *, known: 1 / 0]
)
def test_a_mistake_in_a_users_classification_does_not_prevent_a_failover(mistaken, caplog):
    assert fails_over(mistaken, sdk.ServiceBusConnectionError())
    assert "the default applies" in caplog.text


def test_a_user_can_replace_the_classification():
    def everything_is_an_outage(error: BaseException, *, known: bool) -> Fault:
        return Fault.OUTAGE

    assert fails_over(everything_is_an_outage, sdk.ServiceBusAuthenticationError())
