"""A pytest plugin that gives the tests of azure-servicebus for Python a local namespace in place of one in Azure.

The tests need modules of Microsoft's that are published nowhere: `devtools_testutils`, which records what is sent, and
the resource manager that creates namespaces and queues. Small ones of ours stand in for them. Each worker process of a
parallel run has a namespace of its own, with TLS on the ports 5671 and, for WebSockets, 443 of an address of its own,
as clients find it in Azure.
Tests that cannot pass are listed in `sdk_suite_failures.py`, and must fail.
"""

import contextlib
import functools
import inspect
import itertools
import os
import socket
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import azure.servicebus
import azure.servicebus.aio
import azure.servicebus.aio.management
import azure.servicebus.management
import certifi
import pytest
import trustme
from azure.core.exceptions import HttpResponseError
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncSharedKeyCredential
from azure.servicebus.management import AuthorizationRule

import emulator.running
from emulator.running import RunningNamespace, running
from pairing.aio.administration import emulator_transport as async_emulator_transport
from pairing.backlog.administration import emulator_transport
from tests.emulator.clients.sdk_suite_failures import FAILURES, OVER_WEBSOCKETS

START_TIMEOUT_S = 300
AMQPS, HTTPS = 5671, 443
ADDRESS = f"127.79.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
NAME, _, _last = ADDRESS.rpartition(".")
SUFFIX = f".{_last}:{AMQPS}"
"""The end of the namespace's address, which the tests append to NAME. Messaging clients take the port off."""
RIGHTS = types.SimpleNamespace(manage="Manage", send="Send", listen="Listen")
_numbers = itertools.count()
_stack = contextlib.ExitStack()
namespace: RunningNamespace
key_name = key = ""


def pytest_configure(config: pytest.Config) -> None:
    global namespace, key_name, key
    for marker in ("liveTest", "live_test_only", "playback_test_only"):
        config.addinivalue_line("markers", f"{marker}: of the SDK")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    folder = Path(_stack.enter_context(tempfile.TemporaryDirectory()))
    emulator.running.START_TIMEOUT_S = START_TIMEOUT_S  # all workers start theirs at the same time
    arguments = [*_tls(folder), "--host", ADDRESS, "--key", "bG9jYWw="]
    if may_open_https():
        arguments += ["--admin-port", str(HTTPS)]
    namespaces = running(f"contoso:{AMQPS}", arguments=arguments)
    (namespace,) = _stack.enter_context(namespaces).values()
    parts = dict(part.partition("=")[::2] for part in namespace.connection_string.split(";") if part)
    key_name, key = parts["SharedAccessKeyName"], parts["SharedAccessKey"]
    vars(sys.modules["servicebus_preparer"])["SERVICEBUS_ENDPOINT_SUFFIX"] = SUFFIX
    _lead_clients_here()


@functools.cache
def may_open_https() -> bool:
    """Whether this user may listen on the port of WebSockets, which clients do not let one choose."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((ADDRESS, HTTPS))
        except PermissionError:
            return False
    return True


def _tls(folder: Path) -> list[str]:
    """Arguments of a namespace whose certificate is signed by an authority that clients trust by default."""
    authority = trustme.CA()
    certificate = authority.issue_cert(ADDRESS)
    authority.cert_pem.write_to_path(folder / "authorities.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
    certifi.where = lambda: str(folder / "authorities.pem")
    return ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.name.partition("[")[0]
        reason = FAILURES.get(name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if {item.name, name} & OVER_WEBSOCKETS and not may_open_https():
            item.add_marker(pytest.mark.skip(reason="WebSockets need port 443, which this user may not open."))


def pytest_unconfigure() -> None:
    _stack.close()


@pytest.fixture(scope="session")
def test_proxy() -> None:
    """The proxy that records."""


def _lead_clients_here() -> None:
    """The administration speaks plain HTTP."""
    _default(azure.servicebus.management.ServiceBusAdministrationClient, transport=emulator_transport)
    _default(azure.servicebus.aio.management.ServiceBusAdministrationClient, transport=async_emulator_transport)


def _default(client: type, **defaults: Callable[[], object]) -> None:
    original = client.__init__

    @functools.wraps(original)
    def made(self: object, *arguments: Any, **more: Any) -> None:
        original(self, *arguments, **{name: make() for name, make in defaults.items() if name not in more}, **more)

    client.__init__ = made  # type: ignore[misc]


class Credential(ServiceBusSharedKeyCredential):
    """A key, where the tests have an identity."""

    def close(self) -> None: ...
    def __enter__(self) -> "Credential":
        return self

    def __exit__(self, *error: object) -> None: ...


class AsyncCredential(AsyncSharedKeyCredential):
    """The same for clients of asyncio."""

    async def close(self) -> None: ...
    async def __aenter__(self) -> "AsyncCredential":
        return self

    async def __aexit__(self, *error: object) -> None: ...


def get_credential(*, is_async: bool = False, **_: object) -> Credential | AsyncCredential:
    return (AsyncCredential if is_async else Credential)(key_name, key)


def _administration() -> Any:
    text = namespace.connection_string
    return azure.servicebus.management.ServiceBusAdministrationClient.from_connection_string(text)


class Prepared:
    """A decorator that gives a test more arguments."""

    def __init__(self, name_prefix: str = "", *_: object, **properties: Any) -> None:
        self.prefix, self.properties = name_prefix, properties
        self.is_cached = properties.pop("use_cache", False)
        self.cached: dict[str, Any] | None = None

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(test).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())

        def given(arguments: dict[str, Any]) -> dict[str, Any]:
            made = self._made(arguments)
            return arguments | {name: made[name] for name in made if takes_all or name in parameters}

        if inspect.iscoroutinefunction(test):

            async def wrapper(self: object, **arguments: Any) -> None:
                await test(self, **given(arguments))
        else:

            def wrapper(self: object, **arguments: Any) -> None:
                test(self, **given(arguments))

        functools.update_wrapper(wrapper, test)
        del wrapper.__wrapped__
        kept = [each for each in parameters.values() if each.name in PASSED_ON]
        wrapper.__signature__ = inspect.Signature([*kept, _MORE])  # type: ignore[attr-defined]
        return wrapper

    def _made(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self.is_cached:
            return self.make(arguments)
        found = _cache.setdefault((type(self), self.prefix, repr(sorted(self.properties.items()))), {})
        if not found:
            found.update(self.make(arguments))
        return found

    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments by their names."""
        return {}

    def name(self) -> str:
        return f"{self.prefix}{next(_numbers)}"


PASSED_ON = ("self", "test_class", "uamqp_transport", "socket_transport")
_MORE = inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD)
_cache: dict[Any, dict[str, Any]] = {}


def _resource(name: str) -> Any:
    return types.SimpleNamespace(name=name, id=name)


class Namespace(Prepared):
    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "servicebus_namespace": _resource(NAME),
            "servicebus_namespace_connection_string": namespace.connection_string,
            "servicebus_namespace_key_name": key_name,
            "servicebus_namespace_primary_key": key,
        }


class Queue(Prepared):
    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        properties = {"lock_duration": "PT30S", **self.properties}
        parameter = properties.pop("parameter_name", "servicebus_queue")
        with _administration() as administration:
            return {parameter: _resource(administration.create_queue(self.name(), **properties).name)}


class Topic(Prepared):
    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        with _administration() as administration:
            return {"servicebus_topic": _resource(administration.create_topic(self.name()).name)}


class Subscription(Prepared):
    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        properties = {"lock_duration": "PT60S", **self.properties}
        topic = arguments["servicebus_topic"].name
        with _administration() as administration:
            found = administration.create_subscription(topic, self.name(), **properties)
        return {"servicebus_subscription": _resource(found.name)}


class QueueRule(Prepared):
    """An authorization rule of a queue."""

    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name, rights = self.name(), self.properties.get("access_rights", ["Manage", "Send", "Listen"])
        secrets = {"primary_key": "cHJpbWFyeQ==", "secondary_key": "c2Vjb25kYXJ5"}
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule", claim_type="SharedAccessKey", claim_value="None",
            rights=rights, key_name=name, **secrets,
        )  # fmt: skip
        with _administration() as administration:
            queue = administration.get_queue(arguments["servicebus_queue"].name)
            queue.authorization_rules = [rule]
            administration.update_queue(queue)
        text = namespace.connection_string.replace(key_name, name).replace(key, secrets["primary_key"])
        given = "servicebus_queue_authorization_rule"
        return {given: _resource(name), f"{given}_connection_string": f"{text}EntityPath={queue.name}"}


class NamespaceRule(QueueRule):
    """A rule of the queue in place of one of the namespace: the emulator has one key of the whole namespace."""

    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if "servicebus_queue" not in arguments:  # the only test that asks for it so does not use it
            return {}
        made = {name.replace("_queue_", "_"): value for name, value in super().make(arguments).items()}
        given = "servicebus_authorization_rule_connection_string"
        return made | {given: made[given].partition("EntityPath=")[0]}


class Environment(Prepared):
    """What the tests of the administration get by environment variables."""

    def make(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "servicebus_connection_str": namespace.connection_string,
            "servicebus_fully_qualified_namespace": NAME + SUFFIX,
            "servicebus_sas_policy": key_name,
            "servicebus_sas_key": key,
        }


def _cached(kind: type[Prepared]) -> Callable[..., Prepared]:
    return functools.partial(kind, use_cache=True)


class TestCase:
    """The base of the SDK's test classes."""

    __test__ = False
    is_live = True

    @staticmethod
    def await_prepared_test(test: Any) -> Any:
        """The test as it is: pytest-asyncio awaits it."""
        return test

    def __init_subclass__(cls) -> None:
        cls.__test__ = True


def _unchanged(test: Any) -> Any:
    return test


def _nothing(*_: object, **__: object) -> None: ...


def _module(name: str, **contents: Any) -> None:
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(contents)
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, sys.modules[name])


_module(
    "devtools_testutils",
    **dict.fromkeys(("AzureMgmtRecordedTestCase", "AzureRecordedTestCase"), TestCase),
    **dict.fromkeys(("CachedResourceGroupPreparer", "RandomNameResourceGroupPreparer", "PowerShellPreparer"), Prepared),
    **dict.fromkeys(("set_custom_default_matcher", "add_general_regex_sanitizer"), _nothing),
    get_credential=get_credential,
    recorded_by_proxy=_unchanged,
)
_module("devtools_testutils.aio", recorded_by_proxy_async=_unchanged)
_module(
    "devtools_testutils.sanitizers",
    **dict.fromkeys(
        ("add_remove_header_sanitizer", "add_general_regex_sanitizer", "add_oauth_response_sanitizer"), _nothing
    ),
)
_module("azure.common", AzureHttpError=HttpResponseError, AzureConflictHttpError=HttpResponseError)
_module("azure.mgmt")
_module("azure.mgmt.servicebus")
_module("azure.mgmt.servicebus.models", AccessRights=RIGHTS)
_module("sb_env_loader", ServiceBusPreparer=Environment)
_module(
    "servicebus_preparer",
    CachedServiceBusResourceGroupPreparer=Prepared,
    **dict.fromkeys(("ServiceBusNamespacePreparer", "CachedServiceBusNamespacePreparer"), Namespace),
    ServiceBusQueuePreparer=Queue,
    CachedServiceBusQueuePreparer=_cached(Queue),
    ServiceBusTopicPreparer=Topic,
    CachedServiceBusTopicPreparer=_cached(Topic),
    ServiceBusSubscriptionPreparer=Subscription,
    CachedServiceBusSubscriptionPreparer=_cached(Subscription),
    ServiceBusNamespaceAuthorizationRulePreparer=NamespaceRule,
    ServiceBusQueueAuthorizationRulePreparer=QueueRule,
)
