"""The pairs of an installation, read from PAIRS_FILE (TOML), which names credentials but does not contain them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dashboard.site.environment import Environment, read_toml
from pairing.ends import Endpoint, Role

EntityKind = Literal["queue", "topic"]
Text = Annotated[str, Field(min_length=1)]
GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
Subscription = Annotated[Text, AfterValidator(lambda text: text.lower() if GUID.fullmatch(text) else text)]
"""One spelling of a GUID, because a subscription is one bill."""
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
    subscription: Subscription | None = None
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
        name = self.connection_string_env or ""
        value = Environment(variables).text(name, "")
        if not value:
            raise PairsFileError(f"{name} is not set: give it the connection string of the namespace.")
        return value

    def endpoint(self, role: Role, credential: Any = None, variables: Mapping[str, str] | None = None) -> Endpoint:
        """The namespace as the library connects to it. Raises PairsFileError."""
        try:
            if self.connection_string_env is None:
                return Endpoint.from_host(role, self.fully_qualified_namespace or "", credential, {})
            return Endpoint.from_connection_string(role, self.connection_string(variables), {})
        except ValueError as error:
            raise PairsFileError(f"{self.connection_string_env or 'fully_qualified_namespace'}: {error}.") from None


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
    tags: dict[Name, Text] = {}

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

    def endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Primary and secondary as the library connects to them, without a credential. Raises PairsFileError."""
        return self.primary.endpoint("primary"), self.secondary.endpoint("secondary")

    @property
    def crosses_regions(self) -> bool:
        """Whether the namespaces are known to be in different regions."""
        regions = {(end.region or "").lower() for end in (self.primary, self.secondary)}
        return len(regions) == 2 and "" not in regions

    def scope(self, namespace: str) -> str:
        """The billing scope of one of the pair's namespaces: its subscription, or else the pair's name."""
        endpoint = self.secondary if namespace == self.secondary.namespace else self.primary
        return endpoint.subscription or self.name


def tags() -> Mapping[str, Mapping[str, str]]:
    """The tags of PAIRS_FILE, such as team and environment, by pair; none without a usable file."""
    try:
        status = settings.PAIRS_FILE.stat()
    except OSError:
        return {}
    return _tags(settings.PAIRS_FILE, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _tags(file: Path, *version: int) -> Mapping[str, Mapping[str, str]]:
    try:
        return {name: pair.tags for name, pair in read_toml(file, _File).pairs.items()}
    except ImproperlyConfigured:
        return {}


def require_connection_strings(pairs: Iterable[PairConfig]) -> None:
    """Raise PairsFileError if the variable of a connection string is not set, or holds something else."""
    for pair in pairs:
        pair.endpoints()


def require_two_namespaces(pair: PairConfig) -> None:
    """Raise PairsFileError if both ends of the pair are one namespace, with which no process connects."""
    primary, secondary = pair.endpoints()
    if primary.address == secondary.address:
        raise PairsFileError(
            f"The primary and the secondary of pair {pair.name} are the same namespace, {primary.address}: an outage "
            "would take both. Give a second namespace as the secondary."
        )


class _File(BaseModel):
    """The whole file."""

    pairs: dict[Name, PairConfig] = Field(min_length=1)


def load_pairs(file: Path | None = None, variables: Mapping[str, str] | None = None) -> dict[str, PairConfig]:
    """The pairs of PAIRS_FILE by name, in file order. Raises PairsFileError."""
    file = settings.PAIRS_FILE if file is None else file
    if not file.exists():
        raise PairsFileError(f"{file}: there is no such file; write one with a table [pairs.NAME], or set PAIRS_FILE.")
    try:
        return {name: _named(name, pair, variables) for name, pair in read_toml(file, _File).pairs.items()}
    except ImproperlyConfigured as error:
        raise PairsFileError(f"{file}: {error}") from None


def _named(name: str, pair: PairConfig, variables: Mapping[str, str] | None) -> PairConfig:
    """The pair with its name, and those of its namespaces."""
    ends = {
        "primary": pair.primary.namespace or pair.primary.endpoint("primary", variables=variables).label or name,
        "secondary": pair.secondary.namespace or pair.secondary.endpoint("secondary", variables=variables).label,
    }
    if not ends["secondary"]:
        raise PairsFileError(f'pairs.{name}.secondary: its host does not contain its name; add namespace = "…".')
    if ends["primary"] == ends["secondary"]:
        raise PairsFileError(f"pairs.{name}: both ends are the same namespace, {ends['primary']}.")
    named = {role: getattr(pair, role).model_copy(update={"namespace": each}) for role, each in ends.items()}
    return pair.model_copy(update={"name": name, **named})


def _entity(text: str) -> EntityConfig:
    kind, colon, path = text.partition(":")
    if colon and kind in ("queue", "topic"):
        return EntityConfig(path, "topic" if kind == "topic" else "queue")
    return EntityConfig(text, "queue")
