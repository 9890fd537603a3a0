"""Two teams: `contoso` belongs to one, and another pair, with a row in every table, to the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import models as fields
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.drills.course import Course, Step
from dashboard.fleet.state.projection import gateway_role
from dashboard.models import (
    Alert,
    AlertRule,
    AuditEntry,
    Budget,
    ChargeRun,
    DeadLetterJob,
    Drill,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    Invoice,
    Notice,
    Outage,
    Pair,
    PrunedCount,
    ReadinessChange,
)
from dashboard.models.visibility import OfPair
from pipeline.price_tiers import OPERATIONS
from tests.dashboard.conftest import NOW, ROLES, user

HIDDEN, ENTITY, WORD = "othersteam-pair", "othersteam-orders", "othersteam"
"""Names of the other team's, which addresses contain; `WORD` is a part of every one."""
CONTENT = "others-secret-words"
"""What rows of the other team say: no answer may contain it, whatever was asked for. Long, as tokens are random."""
EVENT = "e" * 32
MONTH = f"{NOW:%Y-%m}"
NOBODY = 2**30
"""A key that no row has."""


@dataclass
class Planted:
    """The other team's rows by table, and people who are in none of its groups."""

    rows: dict[type[Model], Model]
    people: dict[str, User]

    def client(self, role: str) -> Client:
        client = Client(raise_request_exception=True)
        if role != "stranger":
            client.force_login(self.people[role])
        return client

    def key(self, model: type[Model]) -> Any:
        return self.rows[model].pk


_number = count(1)


def value_of(field: Any, rows: dict[type[Model], Model]) -> Any:
    """A value for a field that needs one: a text says the word, a relation leads to the other team's row."""
    if field.is_relation:
        return plant(field.related_model, rows)
    if field.name in ("pair", "entity", "path", "month"):
        return {"pair": HIDDEN, "month": MONTH}.get(field.name, ENTITY)
    if field.choices:
        return field.choices[0][0]
    match field:
        case fields.CharField() | fields.TextField():
            return CONTENT[: field.max_length] if not field.unique else f"{CONTENT}{next(_number)}"[: field.max_length]
        case fields.DateTimeField():
            return NOW
        case fields.DateField():
            return date(NOW.year, NOW.month, NOW.day)
        case fields.BooleanField():
            return False
        case fields.JSONField():
            return {CONTENT: CONTENT}
    return 1


DETAILS = {
    "counts": dict.fromkeys(("read", "accepted", "copies", "quarantined"), 1),
    "prices": [{"meter": OPERATIONS, "unit": "1M", "from": "0", "price": "0.8", "currency": "EUR"}],
    "sample_prices": True,
    "note": CONTENT,
}
ABOUT = {
    Pair: {"name": HIDDEN, "primary_namespace": "othersteam-primary", "secondary_namespace": "othersteam-secondary"},
    EntityHealth: {"state": "failed_over", "since": NOW, "reason": CONTENT, "waiting": 7, "dead_lettered": 3},
    FailoverEvent: {"event_id": EVENT, "kind": "failed_over", "reason": CONTENT, "time": NOW},
    Alert: {"detail": CONTENT, "kind": "failover"},
    AlertRule: {"pair": HIDDEN, "channels": ["mail"]},
    Notice: {"pair": HIDDEN},
    AuditEntry: {"operator": CONTENT, "detail": CONTENT, "reason": CONTENT, "target": ENTITY, "outcome": "done"},
    Budget: {"pair": HIDDEN},
    DeadLetterJob: {"kind": "resubmit"},
    Drill: {"path": ENTITY, "reason": CONTENT, "course": Course(Step.PREPARING, 9).as_json()},
    ChargeRun: {"status": "succeeded", "finished_at": NOW, "rule": "published", "error": CONTENT, "details": DETAILS},
    Invoice: {"rule": "published", "currency": "EUR", "exact": "1", "scope": CONTENT},
    Outage: {"extra": {"published": 1, "settlements": 1, "crossing_bytes": 0, "places": []}},
    PrunedCount: {"pair": HIDDEN},
    ReadinessChange: {"results": {CONTENT: "bad"}},
}
"""What some rows say beyond what their fields need, so that pages show them."""
NUMBERS = {"exact": "1", "cost": "1", "quantity": "1", "currency": "EUR", "rule": "published", "kind": "ping"}


def plant(model: type[Model], rows: dict[type[Model], Model]) -> Model:
    """The other team's row of a table, made once."""
    if model not in rows:
        needed = [
            field
            for field in model._meta.concrete_fields
            if not field.primary_key and not field.has_default() and not field.blank and not field.null
        ]
        given: dict[str, Any] = {
            field.name: NUMBERS.get(field.name) or value_of(field, rows)
            for field in needed
            if not getattr(field, "generated", False)
        }
        given |= {"pair": given["pair"]} if "pair" in given else {}
        rows[model] = model._base_manager.create(**given | ABOUT.get(model, {}))
    return rows[model]


def tables() -> list[type[OfPair]]:
    return [model for model in apps.get_app_config("dashboard").get_models() if issubclass(model, OfPair)]


@pytest.fixture
def planted(pair, redis_here, alive, settings) -> Planted:
    """Two teams: `contoso` belongs to one, the planted pair to the other. The people are in the first."""
    settings.API_REQUESTS_PER_MINUTE = 1_000_000
    ours, theirs = Group.objects.create(name="ours"), Group.objects.create(name="theirs")
    pair.groups.set([ours])
    rows: dict[type[Model], Model] = {}
    for model in tables():
        plant(model, rows)
    rows[Pair].groups.set([theirs])
    Heartbeat.objects.create(process=f"{WORD}-host", role=gateway_role(HIDDEN), seen_at=NOW)
    people = {role: user(f"our-{role}", role, "ours") for role in ROLES}
    people |= {"nobody": user("our-nobody", "ours"), "roleless": user("roleless", "theirs")}
    people |= {"theirs": user("their-viewer", "viewer", "theirs")}
    people["superuser"] = User.objects.create_superuser("root", password="x")
    return Planted(rows, people)


def theirs(planted: Planted) -> dict[str, Any]:
    """What addresses name, of the other team."""
    return {
        "pair": HIDDEN, "path": ENTITY, "event_id": EVENT, "alert": planted.key(Alert), "rule": planted.key(AlertRule),
        "drill": planted.key(Drill), "run": planted.key(ChargeRun), "prefix": "0123456789", "channel": "mail",
    }  # fmt: skip


NOTHING = {
    "pair": "no-such-pair", "path": "no-such-entity", "event_id": "0" * 32, "alert": NOBODY, "rule": NOBODY,
    "drill": NOBODY, "run": NOBODY, "prefix": "0123456789", "channel": "mail",
}  # fmt: skip
"""The same of nobody."""


def patterns(found: Any = None, before: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Every address with its name; those of the API are read from its document."""
    for each in get_resolver().url_patterns if found is None else found:
        if isinstance(each, URLResolver):
            if each.namespace != "api-v1":
                yield from patterns(each.url_patterns, f"{before}{each.namespace}:" if each.namespace else before)
        elif each.name:
            yield f"{before}{each.name}", each


def names_in(pattern: URLPattern) -> list[str]:
    """The names of the parts of an address that differ."""
    return list(pattern.pattern.converters) or sorted(re.compile(pattern.pattern.regex.pattern).groupindex)


def body_of(answer: Any) -> str:
    """All that an answer says, in small letters."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return content.decode("utf-8", "replace").lower() + str(dict(answer.headers)).lower()
