"""The pairs of an installation, read from PAIRS_FILE (TOML), which names credentials but does not contain them."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from dashboard.site.environment import Environment
from pairing.ends import Endpoint

EntityKind = Literal["queue", "topic"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
PAIR_KEYS = {
    "primary": "a table",
    "secondary": "a table",
    "backlog_queue_count": "a whole number of at least 1",
    "failover_interval_s": "seconds from 0 to 3600",
    "ping_primary_interval_s": "seconds from 1 to 1800",
    "syphon_retry_interval_s": "seconds from 1 to 120",
    "bandwidth_per_gb": "the price of a GB between the two regions, from 0 to 100",
    "bandwidth_meter": "the name of a meter of the price list",
    "entities": 'a list such as ["orders", "topic:shipments"], or "*"',
    "drill": 'a table such as { entity = "pairing-canary", every_days = 30 }',
}
DRILL_KEYS = ("entity", "every_days")
ENDPOINT_KEYS = (
    "connection_string_env",
    "fully_qualified_namespace",
    "namespace",
    "subscription",
    "region",
    "tier",
    "messaging_units",
)
TIERS = ("basic", "standard", "premium")


class PairsFileError(ImproperlyConfigured):
    """PAIRS_FILE is invalid; the text names the file, the key and the expected value."""


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """A queue or topic of the primary namespace that is watched even if no process sends to it."""

    path: str
    kind: EntityKind


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """One namespace of a pair: its host, its subscription, and the variable with its connection string."""

    namespace: str
    connection_string_env: str | None
    fully_qualified_namespace: str | None
    subscription: str | None
    region: str | None
    tier: str
    messaging_units: int = 1

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


@dataclass(frozen=True, slots=True)
class DrillConfig:
    """The queue or topic for drills, and the interval of scheduled drills; None: only on request."""

    entity: str
    every_days: float | None = None


@dataclass(frozen=True, slots=True)
class PairConfig:
    """One primary and one secondary namespace, with the options that all processes of the fleet use."""

    name: str
    primary: EndpointConfig
    secondary: EndpointConfig
    backlog_queue_count: int
    failover_interval: timedelta
    ping_primary_interval: timedelta
    syphon_retry_interval: timedelta
    entities: tuple[EntityConfig, ...]
    watches_all: bool
    bandwidth_per_gb: float | None = None
    bandwidth_meter: str = ""
    drill: DrillConfig | None = None

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


def load_pairs(file: Path | None = None, variables: Mapping[str, str] | None = None) -> dict[str, PairConfig]:
    """The pairs of PAIRS_FILE by name, in file order. Raises PairsFileError."""
    file = settings.PAIRS_FILE if file is None else file
    reader = _Reader(file, os.environ if variables is None else variables)
    return {name: reader.pair(name, table) for name, table in reader.pairs().items()}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one file; its errors name the file."""

    file: Path
    variables: Mapping[str, str]

    def error(self, sentence: str) -> PairsFileError:
        return PairsFileError(f"{self.file}: {sentence}")

    def pairs(self) -> dict[str, Any]:
        try:
            document = tomllib.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.error("there is no such file; write one with a table [pairs.NAME], or set PAIRS_FILE.") from None
        except OSError as error:
            raise self.error(f"it cannot be read: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.error(f"it is not TOML: {error}.") from None
        pairs = document.get("pairs")
        if not isinstance(pairs, dict) or not pairs:
            raise self.error("it has no pair; write one table [pairs.NAME] for each.")
        return pairs

    def pair(self, name: str, table: Any) -> PairConfig:
        where = f"[pairs.{name}]"
        if not NAME.fullmatch(name):
            raise self.error(f"{where}: a pair's name consists of at most 63 letters, digits, - and _.")
        if not isinstance(table, dict):
            raise self.error(f"{where} is not a table.")
        self.refuse_unknown(where, table, tuple(PAIR_KEYS))
        entities = table.get("entities", "*")
        pair = PairConfig(
            name=name,
            primary=self.endpoint(where, table, "primary", fallback=name),
            secondary=self.endpoint(where, table, "secondary", fallback=None),
            backlog_queue_count=int(self.number(where, table, "backlog_queue_count", 10, 1, 10_000, whole=True)),
            failover_interval=timedelta(seconds=self.number(where, table, "failover_interval_s", 60, 0, 3600)),
            ping_primary_interval=timedelta(seconds=self.number(where, table, "ping_primary_interval_s", 60, 1, 1800)),
            syphon_retry_interval=timedelta(seconds=self.number(where, table, "syphon_retry_interval_s", 1, 1, 120)),
            entities=() if entities == "*" else self.entities(where, entities),
            watches_all=entities == "*",
            bandwidth_per_gb=(
                self.number(where, table, "bandwidth_per_gb", 0, 0, 100) if "bandwidth_per_gb" in table else None
            ),
            bandwidth_meter=self.text(where, table, "bandwidth_meter"),
            drill=self.drill(where, table["drill"]) if "drill" in table else None,
        )
        if pair.primary.namespace == pair.secondary.namespace:
            raise self.error(f"{where}: primary and secondary are the same namespace, {pair.primary.namespace}.")
        return pair

    def endpoint(self, where: str, table: dict[str, Any], role: str, fallback: str | None) -> EndpointConfig:
        end, where = table.get(role), f"{where} {role}"
        if not isinstance(end, dict):
            raise self.error(f'{where} is missing; write {role} = {{ connection_string_env = "…" }}.')
        self.refuse_unknown(where, end, ENDPOINT_KEYS)
        texts = {key: value for key, value in end.items() if key != "messaging_units"}
        wrong = next((key for key, value in texts.items() if not isinstance(value, str) or not value), None)
        if wrong:
            raise self.error(f"{where}: {wrong} must be a non-empty string.")
        if ("connection_string_env" in end) == ("fully_qualified_namespace" in end):
            raise self.error(f"{where}: give connection_string_env or fully_qualified_namespace, one of the two.")
        tier = end.get("tier", "standard").lower()
        if tier not in TIERS:
            raise self.error(f"{where}: tier is {tier!r}; write one of {', '.join(TIERS)}.")
        return EndpointConfig(
            namespace=self.namespace(where, end, fallback),
            connection_string_env=end.get("connection_string_env"),
            fully_qualified_namespace=end.get("fully_qualified_namespace"),
            subscription=end.get("subscription"),
            region=end.get("region"),
            tier=tier,
            messaging_units=self.messaging_units(where, end),
        )

    def drill(self, where: str, reported: Any) -> DrillConfig:
        where = f"{where} drill"
        if (
            not isinstance(reported, dict)
            or not isinstance(reported.get("entity"), str)
            or not reported["entity"].strip()
        ):
            raise self.error(f"{where} is {reported!r}; write {PAIR_KEYS['drill']}.")
        self.refuse_unknown(where, reported, DRILL_KEYS)
        days = reported.get("every_days")
        fits = days is None or (isinstance(days, int | float) and not isinstance(days, bool) and 0 < days <= 366)
        if not fits:
            raise self.error(f"{where}: every_days is {days!r}; write a number of days up to 366, or leave it out.")
        return DrillConfig(reported["entity"], None if days is None else float(days))

    def messaging_units(self, where: str, end: dict[str, Any]) -> int:
        units = end.get("messaging_units", 1)
        if not isinstance(units, int) or isinstance(units, bool) or not 1 <= units <= 64:
            raise self.error(f"{where}: messaging_units is {units!r}; write a whole number from 1 to 64.")
        return units

    def text(self, where: str, table: dict[str, Any], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.error(f"{where}: {key} is {value!r}; write {PAIR_KEYS[key]}.")
        return value

    def namespace(self, where: str, end: dict[str, str], fallback: str | None) -> str:
        """The namespace's name: given, or the first label of its host, unless the host is an IP address."""
        if "namespace" in end:
            return end["namespace"]
        host = end.get("fully_qualified_namespace") or self.host(where, end["connection_string_env"])
        label, _, rest = host.partition(".")
        if rest and not re.fullmatch(r"[\d.]+|\[.*", host):
            return label
        if fallback is None:
            raise self.error(f'{where}: {host} does not contain the name of the namespace; add namespace = "…".')
        return fallback

    def host(self, where: str, variable: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise self.error(
                f"{where}: connection_string_env is the name of a variable, not the connection string itself."
            )
        value = Environment(self.variables).text(variable, "")
        if not value:
            raise self.error(f"{where}: set {variable} to the connection string of the namespace.")
        endpoint = connection_string_parts(value).get("endpoint", "")
        host = re.fullmatch(r"(?:sb|amqps?|https?)://(\[[^\]]+\]|[^:/]+)(?::\d+)?/?", endpoint)
        if host is None:
            raise self.error(f"{where}: {variable} is not a connection string; one begins with Endpoint=sb://….")
        return host[1]

    def number(
        self,
        where: str,
        table: dict[str, Any],
        key: str,
        default: float,
        least: float,
        most: float,
        whole: bool = False,
    ) -> float:
        value = table.get(key, default)
        fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not fits or not least <= value <= most:
            raise self.error(f"{where}: {key} is {value!r}; write {PAIR_KEYS[key]}.")
        return float(value)

    def entities(self, where: str, value: Any) -> tuple[EntityConfig, ...]:
        if not isinstance(value, list) or not all(isinstance(entity, str) and entity for entity in value):
            raise self.error(f"{where}: entities is {value!r}; write {PAIR_KEYS['entities']}.")
        found = tuple(_entity(text) for text in value)
        twice = {entity.path.lower() for entity in found}
        if len(twice) != len(found) or not all(entity.path for entity in found):
            raise self.error(f"{where}: entities names an entity twice, or one without a name.")
        return found

    def refuse_unknown(self, where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
        unknown = next((key for key in table if key not in known), None)
        if unknown is not None:
            raise self.error(f"{where}: {unknown} is not known; the keys are {', '.join(known)}.")


def _entity(text: str) -> EntityConfig:
    kind, colon, path = text.partition(":")
    if colon and kind in ("queue", "topic"):
        return EntityConfig(path, "topic" if kind == "topic" else "queue")
    return EntityConfig(text, "queue")
