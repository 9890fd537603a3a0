"""The pytest plugin. Installing the package activates it; in a checkout, `pytest_plugins = ["emulator.testing"]` does.

Settings are options of the ini file, `servicebus_entities` and `servicebus_config`, or fixtures: override
`emulator_entities`, `emulator_config` or `emulator_arguments` (scope "session") in a conftest.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from emulator.command_line.config_file import read_config
from emulator.running import RunningNamespace, running

PRIMARY, SECONDARY = "contoso", "contoso-dr"
ENTITIES, CONFIG = "servicebus_entities", "servicebus_config"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the ini file."""
    parser.addini(
        ENTITIES, "queues and topics (topic:NAME/SUBSCRIPTION) of the local namespace", "linelist", default=[]
    )
    parser.addini(CONFIG, "a Config.json of Microsoft's emulator, for the local namespace", default="")


def _option(config: pytest.Config, name: str) -> Any:
    """An option of the ini file; None if the plugin was loaded too late to declare it."""
    try:
        return config.getini(name)
    except ValueError:
        return None


@pytest.fixture(scope="session")
def emulator_config(pytestconfig: pytest.Config) -> Path | None:
    """A configuration file of Microsoft's emulator, whose entities are created; None for none."""
    name = _option(pytestconfig, CONFIG)
    return pytestconfig.rootpath / name if name else None


@pytest.fixture(scope="session")
def emulator_entities(pytestconfig: pytest.Config, emulator_config: Path | None) -> Sequence[str]:
    """The entities to create, as `--entity` takes them."""
    primary = _names(emulator_config)[0]
    paths = _option(pytestconfig, ENTITIES) or ([] if emulator_config else ["orders"])
    return tuple(f"{primary}/{path}" for path in paths)


@pytest.fixture(scope="session")
def emulator_arguments() -> Sequence[str]:
    """Further arguments of `python -m emulator`."""
    return ()


@pytest.fixture(scope="session")
def servicebus_namespaces(
    emulator_entities: Sequence[str], emulator_arguments: Sequence[str], emulator_config: Path | None
) -> Iterator[dict[str, RunningNamespace]]:
    """Two namespaces, `contoso` and `contoso-dr` or as configured, in a process of their own for the whole run."""
    arguments = ["--config", str(emulator_config), *emulator_arguments] if emulator_config else emulator_arguments
    with running(*_names(emulator_config), entities=emulator_entities, arguments=arguments) as namespaces:
        yield namespaces


def _names(config: Path | None) -> list[str]:
    """The names of the namespaces, the primary first: at least two."""
    names = [namespace.name for namespace in read_config(config)] if config else [PRIMARY]
    return names if len(names) > 1 else [*names, SECONDARY]


@pytest.fixture
def servicebus_pair(
    servicebus_namespaces: dict[str, RunningNamespace],
) -> Iterator[tuple[RunningNamespace, RunningNamespace]]:
    """Primary and secondary; faults that a test leaves are removed after it."""
    primary, secondary, *_ = servicebus_namespaces.values()
    yield primary, secondary
    for namespace in (primary, secondary):
        namespace.mend()


@pytest.fixture
def servicebus_namespace(servicebus_namespaces: dict[str, RunningNamespace]) -> Iterator[RunningNamespace]:
    """The primary namespace; faults that a test leaves are removed after it."""
    namespace = next(iter(servicebus_namespaces.values()))
    yield namespace
    namespace.mend()


@pytest.fixture
def namespace(servicebus_namespace: RunningNamespace) -> RunningNamespace:
    """The primary namespace, as `servicebus_namespace`."""
    return servicebus_namespace
