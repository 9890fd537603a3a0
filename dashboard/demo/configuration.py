"""The files that configure the demo: pairs, a channel, prices. Pure."""

import json
from collections.abc import Sequence
from decimal import Decimal

from dashboard.demo.history.scenery import (
    BACKLOG_QUEUES,
    LIVE,
    LIVE_PAIR,
    OTHER_PAIR,
    SUBSCRIPTION,
    of_pair,
    secondary_of,
)
from pairing.backlog.rotation import backlog_path

FAILOVER_INTERVAL_S = 5
PING_INTERVAL_S = 2
CANARY = "pairing-canary"
"""The queue for drills; applications do not use it."""
RETURNS = "returns"
"""The queue that the dead letters of an orphan are for; it has no receivers and is none of the sample traffic."""
ORPHANS = (backlog_path(LIVE_PAIR, 9), backlog_path("fabrikam", 0))
"""Backlog queues to clean up: an empty one, and one of another primary, with dead letters."""
REGIONS = {LIVE_PAIR: ("westeurope", "northeurope"), OTHER_PAIR: ("eastus", "westus")}
BANDWIDTH_PER_GB = 0.02
PRICE_FACTOR = 100
"""Operations cost so many times the list price, so that an incident of the demo costs something."""
OPERATIONS = "Standard Messaging Operations"

CHANNELS = """\
[channels.mail]
kind = "email"
to = ["operator@example.com"]
"""
"""One channel, so that rules have a recipient; its mails are written to files."""


def pair_names(has_history: bool) -> Sequence[str]:
    """The pairs of the demo; the second one has a simulated past and no sample applications."""
    return (LIVE_PAIR, OTHER_PAIR) if has_history else (LIVE_PAIR,)


def variable(namespace: str) -> str:
    """The environment variable with the connection string of a namespace."""
    pair, _, is_secondary = namespace.partition("-")
    return f"{pair.upper()}_{'SECONDARY' if is_secondary else 'PRIMARY'}"


def pairs_file(has_history: bool) -> str:
    """The text of PAIRS_FILE."""
    return "\n".join(_pair(name, has_history) for name in pair_names(has_history))


def _pair(pair: str, has_history: bool) -> str:
    entities = [one.configured for one in of_pair(pair)] if has_history else list(LIVE)
    ends = zip(("primary", "secondary"), (pair, secondary_of(pair)), REGIONS[pair], strict=True)
    subscription = SUBSCRIPTION if has_history else "contoso-demo"
    return "\n".join(
        [
            f"[pairs.{pair}]",
            *(
                f'{end} = {{ connection_string_env = "{variable(name)}", namespace = "{name}", '
                f'subscription = "{subscription}", region = "{region}" }}'
                for end, name, region in ends
            ),
            f"backlog_queue_count = {BACKLOG_QUEUES}",
            f"failover_interval_s = {FAILOVER_INTERVAL_S}",
            f"ping_primary_interval_s = {PING_INTERVAL_S}",
            f"bandwidth_per_gb = {BANDWIDTH_PER_GB}",
            f"entities = {json.dumps(entities)}",
            *([f'drill = {{ entity = "{CANARY}" }}'] if pair == LIVE_PAIR else []),
            "",
        ]
    )


def created_entities(has_history: bool) -> list[str]:
    """The entities of the local namespaces, as the emulator's `--entity` takes them."""
    others = [
        f"{LIVE_PAIR}/{CANARY}",
        f"{LIVE_PAIR}/{RETURNS}",
        *(f"{secondary_of(LIVE_PAIR)}/{one}" for one in ORPHANS),
    ]
    if not has_history:
        return [*(f"{LIVE_PAIR}/{path}" for path in LIVE), *others]
    return [*(one.created for name in pair_names(True) for one in of_pair(name)), *others]


def demo_prices(sample: str) -> str:
    """The sample price list with dearer operations."""
    prices = json.loads(sample, parse_float=Decimal)
    del prices["Sample"]  # the demo is not to ask for PRICES_FILE, which it sets itself
    for item in prices["Items"]:
        if item["meterName"] == OPERATIONS:
            for name in ("retailPrice", "unitPrice"):
                item[name] *= PRICE_FACTOR
    return json.dumps(
        prices | {"Demo": "Prices of the demo: operations cost a hundred times the list price."}, default=float
    )
