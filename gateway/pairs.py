"""The pair that a gateway serves, from the file that the control plane reads, too."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from pairing.ends import Endpoint, Role
from pairing.options import SendAvailabilityOptions


class PairError(Exception):
    """The pair cannot be served; the text says why, without any secret."""


@dataclass(frozen=True, slots=True)
class PairEnds:
    """A pair by its name, and its two namespaces. A namespace that is given by its host has no credential yet."""

    name: str
    primary: Endpoint
    secondary: Endpoint
    options: SendAvailabilityOptions


def read_pair(file: Path, name: str, variables: Mapping[str, str], **shared: Any) -> PairEnds:
    """The pair of this name; `shared` are options that are not in the file. Raises PairError."""
    try:
        pairs = tomllib.loads(file.read_text(encoding="utf-8")).get("pairs", {})
    except (OSError, ValueError) as error:
        raise PairError(f"The pairs file {file} cannot be read: {error}.") from None
    if name not in pairs:
        raise PairError(f"{file} has no pair {name}; it has {', '.join(sorted(pairs)) or 'none'}.")
    try:
        primary, secondary = (_endpoint(role, pairs[name][role], variables) for role in get_args(Role))
        return PairEnds(name, primary, secondary, _options(name, pairs[name], shared))
    except (KeyError, TypeError, ValueError) as error:
        raise PairError(f"{file}, pair {name}: {error}.") from None


def _options(name: str, table: Mapping[str, Any], shared: dict[str, Any]) -> SendAvailabilityOptions:
    """The options of the pair's processes; a secondary that is away when the gateway starts is looked for again."""
    intervals = ("failover_interval", "ping_primary_interval", "syphon_retry_interval")
    given: dict[str, Any] = {each: timedelta(seconds=table[f"{each}_s"]) for each in intervals if f"{each}_s" in table}
    return SendAvailabilityOptions(
        pair=name,
        primary_namespace=table["primary"].get("namespace"),
        secondary_namespace=table["secondary"].get("namespace"),
        backlog_queue_count=table.get("backlog_queue_count", 10),
        require_secondary=False,
        **given,
        **shared,
    )


def _endpoint(role: Role, table: Mapping[str, Any], variables: Mapping[str, str]) -> Endpoint:
    variable = table.get("connection_string_env")
    if variable is None:
        return Endpoint.from_host(role, table["fully_qualified_namespace"], None, {})
    text = text_of(variable, variables)
    if not text:
        raise ValueError(f"{variable} is not set: give it the connection string of the {role}")
    return Endpoint.from_connection_string(role, text, {})


def text_of(variable: str, variables: Mapping[str, str]) -> str:
    """The value of a variable, or the content of the file that `NAME_FILE` names."""
    file = variables.get(f"{variable}_FILE")
    return (variables.get(variable) or (Path(file).read_text(encoding="utf-8") if file else "")).strip()
