"""Faults of the administration, by what the SDK's administration clients raise for them."""

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceResponseError,
)

from emulator.running import running
from tests.administration import administration_of

STATUSES = [
    (401, ClientAuthenticationError),
    (404, ResourceNotFoundError),
    (409, ResourceExistsError),
    (400, HttpResponseError),
    (429, HttpResponseError),
    (503, HttpResponseError),
]


@pytest.fixture(scope="module")
def running_namespace():
    with running("contoso", entities=["contoso/orders"]) as namespaces:
        yield namespaces["contoso"]


@pytest.fixture
def namespace(running_namespace):
    yield running_namespace
    running_namespace.mend()


@pytest.fixture
def administration(namespace):
    with administration_of(namespace.connection_string, retry_total=0) as client:
        yield client


@pytest.mark.parametrize(("status", "raises"), STATUSES)
def test_a_status_raises_what_the_service_would(namespace, administration, status, raises):
    namespace.fault("admin", "status", status=status)
    with pytest.raises(HttpResponseError) as raised:
        administration.get_queue("orders")
    assert (type(raised.value), raised.value.status_code) == (raises, status)


def test_a_reset_is_a_lost_answer(namespace, administration):
    namespace.fault("admin", "reset")
    with pytest.raises(ServiceResponseError):
        administration.get_queue("orders")


def test_silence_is_a_timeout_of_reading(namespace, administration):
    namespace.fault("admin", "silent", entity="unheard")
    with pytest.raises(ServiceResponseError):
        administration.create_queue("unheard", read_timeout=1)
    namespace.mend()
    assert "unheard" not in [queue.name for queue in administration.list_queues()]


def test_a_lost_answer_is_a_timeout_of_reading_and_done(namespace, administration):
    namespace.fault("admin", "lose_ack", entity="done")
    with pytest.raises(ServiceResponseError):
        administration.create_queue("done", read_timeout=1)
    namespace.mend()
    assert administration.get_queue("done").name == "done"


def test_a_delay_passes(namespace, administration):
    namespace.fault("admin", "delay", delay_s=0.1)
    assert administration.get_queue("orders").name == "orders"
