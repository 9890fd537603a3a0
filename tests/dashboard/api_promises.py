"""What `test_api_document.py` runs: each operation of the document, with what its rules allow and what they forbid."""

import json

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from django.utils import timezone
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode

from dashboard.access import tokens
from dashboard.fleet.state import projection
from dashboard.models import AuditEntry, BacklogQueue, Budget, ChargeRun
from dashboard.routes import api
from tests.dashboard.conftest import NOW, health
from tests.dashboard.fleet.test_projection import event
from tests.selection import is_nightly

QUEUE = "contoso/x-servicebus-transfer/0"
ROOT = "/api/v1/"
EXAMPLES = 3 if is_nightly() else 1
"""Drawn for each operation; at night beside those that every rule of the document is tried with. Always the same."""


@pytest.fixture
def headers(people, redis_here, pair, alive, settings, monkeypatch):
    """What an administrator's program shows, in a place where there is something to see."""
    settings.API_REQUESTS_PER_MINUTE = 1_000_000
    settings.ALLOWED_HOSTS = ["*"]
    monkeypatch.setattr("dashboard.api.authentication.MOST_FAILURES", 10**9)
    projection.record_events([event(), event("b" * 32, "recovered")])
    projection.apply_all_health("contoso", [health()])
    BacklogQueue.objects.create(pair=pair, path=QUEUE, index=0, seen_at=NOW, dead_lettered=1)
    ChargeRun.objects.create(month="2026-10", status="succeeded", started_at=NOW, heard_at=NOW)
    Budget.objects.create(pair="*", cents=100, set_by="operator", set_at=NOW)
    AuditEntry(request_id="1", at=NOW, operator="operator", verb="hold", pair="contoso").save()
    token = tokens.make(people["administrator"], "schemathesis", "administer", 30, timezone.now())[1]
    return {"Authorization": f"Bearer {token}"}


config = SchemathesisConfig()
config.projects.default.generation.update(modes=list(GenerationMode), deterministic=True)
config.projects.default.phases.coverage.enabled = is_nightly()
document = schemathesis.openapi.from_dict(
    json.loads(json.dumps(api.get_openapi_schema(path_prefix=ROOT))), config=config
)
document.app = get_wsgi_application()


@document.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
def test_every_operation_keeps_its_promises(case: Case, headers):
    case.call_and_validate(headers=headers)
