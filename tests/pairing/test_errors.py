"""Handlers that were written for the SDK catch the errors of this library, in other processes too."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, ServiceBusServerBusyError

import pairing
from pairing import BacklogUnavailableError, PairingError, ServerBusyError
from pairing.errors import Fault
from pairing.health.faults import classify

ERRORS = (
    *("BacklogCreationError", "BacklogUnavailableError", "PairedNamespaceFaultedError", "ScheduledInBacklogError"),
    "ServerBusyError",
)


def unavailable() -> BacklogUnavailableError:
    """An error as a send raises it: made and raised while errors of the SDK, and of a callback, are handled."""

    class LocalError(Exception):
        pass

    try:
        try:
            raise LocalError("of the application")
        except LocalError as local:
            raise OperationTimeoutError(message="No answer within 9.9 s.", error=local) from local
    except OperationTimeoutError as error:
        unavailable = BacklogUnavailableError("orders", {"x-servicebus-transfer/0": error})
        unavailable.__cause__ = error
        unavailable.add_note("tried")
        return unavailable


def fail() -> None:
    raise unavailable()


@pytest.mark.parametrize("name", ERRORS)
def test_the_errors_of_the_library_have_one_root_which_is_an_error_of_the_sdk(name):
    assert issubclass(getattr(pairing, name), PairingError)
    assert issubclass(PairingError, ServiceBusError)


def test_the_error_of_a_busy_server_tells_when_to_send_again():
    error = ServerBusyError(message="later")
    assert isinstance(error, ServiceBusServerBusyError)
    assert (error.retry_after, str(pickle.loads(pickle.dumps(error)))) == (10.0, "later")
    assert classify(error, known=True) is Fault.BUSY


def test_an_end_that_was_closed_counts_as_before():
    assert classify(PairingError("the secondary end is closed"), known=False) is Fault.OUTAGE


def test_an_error_comes_out_of_another_process_with_its_cause_and_those_of_the_queues():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(BacklogUnavailableError) as one:
        pool.submit(fail).result(60)
    error = pickle.loads(pickle.dumps(copy.copy(unavailable())))
    assert str(one.value) == str(error) == str(unavailable())
    assert (error.entity, error.message, error.__notes__) == ("orders", str(error), ["tried"])
    (of_queue,) = error.errors.values()
    for cause in (error.__cause__, of_queue):
        assert (type(cause), cause.message) == (OperationTimeoutError, "No answer within 9.9 s.")
        assert "of the application" in str(cause.__cause__)
