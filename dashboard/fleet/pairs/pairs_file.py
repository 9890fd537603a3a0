"""The pairs of an installation, read from PAIRS_FILE (TOML), which names credentials but does not contain them."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dashboard.site.environment import Environment
from pairing.ends import Endpoint

EntityKind = Literal["queue", "topic"]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Tier = Annotated[Literal["basic", "standard", "premium"], BeforeValidator(lambda tier: str(tier).lower())]


class PairsFileError(ImproperlyConfigured):
    """PAIRS_FILE is invalid; the text names the file, the key and the expected value."""


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """A queue or topic of the primary namespace that is watched even if no process sends to it."""

    path: str
    kind: EntityKind


class Table(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EndpointConfig(Table):
    """One namespace of a pair: its host, its subscription, and the variable with its connection string."""

    namespace: str = Field("", min_length=1)
    connection_string_env: Variable | None = None
    fully_qualified_namespace: Text | None = None
    subscription: Text | None = None
    region: Text | None = None
    tier: Tier = "standard"
    messaging_units: int = Field(1, ge=1, le=64, strict=True)

    @model_validator(mode="after")
    def _require_one_host(self) -> "EndpointConfig":
        if (self.connection_string_env is None) == (self.fully_qualified_namespace is None):
            raise ValueError("give connection_string_env or fully_qualified_namespace, one of the two")
        return self

    def connection_string(self, variables: Mapping[str, str] | None = None) -> str:
        """The connection string, read from the environment. Raises PairsFileError if it is not set."""
        if self.connection_string_env is None:
            raise PairsFileError(
                f"Namespace {self.namespace} has no connection string: it is reached with azure-identity."
            )
        value = Environment(variables).text(self.connection_string_env, "")
        if not value:
            raise PairsFileError(
                f"The connection string of namespace {self.namespace} is missing: set {self.connection_string_env}."
            )
        return value

    def address(self, variables: Mapping[str, str] | None = None) -> str:
        """The address as the library connects to it. Raises PairsFileError if the connection string is missing or is
        none.
        """
        if self.connection_string_env is None:
            return Endpoint.from_host("primary", self.fully_qualified_namespace or "", None, {}).address
        text = self.connection_string(variables)
        try:
            return Endpoint.from_connection_string("primary", text, {}).address
        except ValueError:
            name = self.connection_string_env
            problem = f"{name} holds no connection string: give Endpoint=sb://…, as the portal shows it."
            raise PairsFileError(problem) from None

    def is_emulator(self, variables: Mapping[str, str] | None = None) -> bool:
        """Whether the connection string contains UseDevelopmentEmulator=true. False without a connection string."""
        try:
            parts = connection_string_parts(self.connection_string(variables))
        except PairsFileError:
            return False
        return parts.get("usedevelopmentemulator", "").lower() == "true"


class DrillConfig(Table):
    """The queue or topic for drills, and the interval of scheduled drills; None: only on request."""

    entity: str = Field(pattern=r"\S")
    every_days: float | None = Field(None, gt=0, le=366, strict=True)


class PairConfig(Table):
    """One primary and one secondary namespace, with the options that all processes of the fleet use."""

    name: str = ""
    """The key of its table."""
    primary: EndpointConfig
    secondary: EndpointConfig
    backlog_queue_count: int = Field(10, ge=1, le=10_000, strict=True)
    failover_interval_s: float = Field(60, ge=0, le=3600, strict=True)
    ping_primary_interval_s: float = Field(60, ge=1, le=1800, strict=True)
    syphon_retry_interval_s: float = Field(1, ge=1, le=120, strict=True)
    watched: Literal["*"] | tuple[Text, ...] = Field("*", alias="entities")
    bandwidth_per_gb: float | None = Field(None, ge=0, le=100, strict=True)
    bandwidth_meter: str = ""
    drill: DrillConfig | None = None

    @model_validator(mode="after")
    def _require_distinct_entities(self) -> "PairConfig":
        paths = {entity.path.lower() for entity in self.entities}
        if len(paths) != len(self.entities) or "" in paths:
            raise ValueError("entities names an entity twice, or one without a name")
        return self

    @property
    def failover_interval(self) -> timedelta:
        return timedelta(seconds=self.failover_interval_s)

    @property
    def ping_primary_interval(self) -> timedelta:
        return timedelta(seconds=self.ping_primary_interval_s)

    @property
    def syphon_retry_interval(self) -> timedelta:
        return timedelta(seconds=self.syphon_retry_interval_s)

    @property
    def watches_all(self) -> bool:
        return self.watched == "*"

    @property
    def entities(self) -> tuple[EntityConfig, ...]:
        """The queues and topics that are named; none if all are watched."""
        return () if self.watched == "*" else tuple(map(_entity, self.watched))

    @property
    def crosses_regions(self) -> bool:
        """Whether the namespaces are known to be in different regions."""
        regions = {(end.region or "").lower() for end in (self.primary, self.secondary)}
        return len(regions) == 2 and "" not in regions

    def scope(self, namespace: str) -> str:
        """The billing scope of one of the pair's namespaces: its subscription, or else the pair's name."""
        endpoint = self.secondary if namespace == self.secondary.namespace else self.primary
        return endpoint.subscription or self.name


def connection_string_parts(connection_string: str) -> dict[str, str]:
    """The parts of a Service Bus connection string by lower-cased name."""
    pairs = (part.partition("=") for part in connection_string.split(";") if "=" in part)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def require_connection_strings(pairs: Iterable[PairConfig], variables: Mapping[str, str] | None = None) -> None:
    """Raise PairsFileError if the variable of a connection string is not set, or holds something else."""
    for end in (end for pair in pairs for end in (pair.primary, pair.secondary)):
        end.address(variables)


def require_two_namespaces(pair: PairConfig, variables: Mapping[str, str] | None = None) -> None:
    """Raise PairsFileError if both ends of the pair are one namespace, with which no process connects."""
    address = pair.primary.address(variables)
    if address == pair.secondary.address(variables):
        raise PairsFileError(
            f"The primary and the secondary of pair {pair.name} are the same namespace, {address}: an outage would "
            "take both. Give a second namespace as the secondary."
        )


class _File(BaseModel):
    """The whole file."""

    pairs: dict[Name, PairConfig] = Field(min_length=1)


def load_pairs(file: Path | None = None, variables: Mapping[str, str] | None = None) -> dict[str, PairConfig]:
    """The pairs of PAIRS_FILE by name, in file order. Raises PairsFileError."""
    file = settings.PAIRS_FILE if file is None else file
    try:
        found = _File.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).pairs
        return {name: _named(name, pair, Environment(variables)) for name, pair in found.items()}
    except FileNotFoundError:
        problem = "there is no such file; write one with a table [pairs.NAME], or set PAIRS_FILE."
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}."
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problem = f"it is not TOML: {error}."
    except ImproperlyConfigured as error:
        problem = str(error)
    raise PairsFileError(f"{file}: {problem}")


def _named(name: str, pair: PairConfig, environment: Environment) -> PairConfig:
    """The pair with its name, and those of its namespaces."""
    primary = _with_name(f"pairs.{name}.primary", pair.primary, environment, fallback=name)
    secondary = _with_name(f"pairs.{name}.secondary", pair.secondary, environment)
    if primary.namespace == secondary.namespace:
        raise ImproperlyConfigured(f"pairs.{name}: both ends are the same namespace, {primary.namespace}.")
    return pair.model_copy(update={"name": name, "primary": primary, "secondary": secondary})


def _with_name(where: str, end: EndpointConfig, environment: Environment, fallback: str = "") -> EndpointConfig:
    """The end with its namespace's name: given, or the first label of its host, unless that is an IP address."""
    if end.namespace:
        return end
    host = end.fully_qualified_namespace or _host(where, end.connection_string_env or "", environment)
    label, _, rest = host.partition(".")
    name = label if rest and not re.fullmatch(r"[\d.]+|\[.*", host) else fallback
    if not name:
        raise ImproperlyConfigured(f'{where}: {host} does not contain the name of the namespace; add namespace = "…".')
    return end.model_copy(update={"namespace": name})


def _host(where: str, variable: str, environment: Environment) -> str:
    value = environment.text(variable, "")
    if not value:
        raise ImproperlyConfigured(f"{where}: set {variable} to the connection string of the namespace.")
    endpoint = connection_string_parts(value).get("endpoint", "")
    host = re.fullmatch(r"(?:sb|amqps?|https?)://(\[[^\]]+\]|[^:/]+)(?::\d+)?/?", endpoint)
    if host is None:
        raise ImproperlyConfigured(f"{where}: {variable} is not a connection string; one begins with Endpoint=sb://….")
    return host[1]


def _entity(text: str) -> EntityConfig:
    kind, colon, path = text.partition(":")
    if colon and kind in ("queue", "topic"):
        return EntityConfig(path, "topic" if kind == "topic" else "queue")
    return EntityConfig(text, "queue")
