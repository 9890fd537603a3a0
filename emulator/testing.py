"""A pytest plugin: `pytest_plugins = ["emulator.testing"]`, and tests can use the fixtures below.

Settings are fixtures too: override `emulator_entities` or `emulator_arguments` (scope "session") in a conftest.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from emulator.running import RunningNamespace, running

PRIMARY, SECONDARY = "contoso", "contoso-dr"


@pytest.fixture(scope="session")
def emulator_entities() -> Sequence[str]:
    """The entities to create, as `--entity` takes them."""
    return (f"{PRIMARY}/orders",)


@pytest.fixture(scope="session")
def emulator_arguments() -> Sequence[str]:
    """Further arguments of `python -m emulator`."""
    return ()


@pytest.fixture(scope="session")
def servicebus_namespaces(
    emulator_entities: Sequence[str], emulator_arguments: Sequence[str]
) -> Iterator[dict[str, RunningNamespace]]:
    """Two namespaces, `contoso` and `contoso-dr`, in a process of their own for the whole run."""
    with running(PRIMARY, SECONDARY, entities=emulator_entities, arguments=emulator_arguments) as namespaces:
        yield namespaces


@pytest.fixture
def servicebus_namespace(servicebus_namespaces: dict[str, RunningNamespace]) -> Iterator[RunningNamespace]:
    """The namespace `contoso`; faults that a test leaves are removed after it."""
    namespace = servicebus_namespaces[PRIMARY]
    yield namespace
    namespace.mend()


@pytest.fixture
def servicebus_pair(
    servicebus_namespaces: dict[str, RunningNamespace],
) -> Iterator[tuple[RunningNamespace, RunningNamespace]]:
    """Primary and secondary; faults that a test leaves are removed after it."""
    pair = servicebus_namespaces[PRIMARY], servicebus_namespaces[SECONDARY]
    yield pair
    for namespace in pair:
        namespace.mend()
