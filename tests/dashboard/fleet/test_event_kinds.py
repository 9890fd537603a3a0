"""A new kind of event needs its declaration and nothing else: pages, filters, API, collector and table follow."""

import json

import pytest
from django.core.management import call_command
from django.test import RequestFactory

from dashboard.fleet.api.events import Event as Published
from dashboard.fleet.state import projection
from dashboard.fleet.state.outages import AWAY, BACK
from dashboard.fleet.state.status import Status
from dashboard.models import FailoverEvent
from dashboard.templatetags.dashboard import about, incident_of
from pairing.events import KINDS, EventKind
from tests.dashboard.fleet.test_projection import event
from workers.collectors import known_event


@pytest.fixture
def drowsy(monkeypatch) -> str:
    declared = EventKind(label="Drowsy", meaning="the entity answers late", tone="held", is_of_entity=True)
    monkeypatch.setitem(KINDS, "drowsy", declared)
    return "drowsy"


def test_a_new_kind_is_collected_stored_and_shown(drowsy, pair, as_role):
    projection.record_events([known_event(event(kind=drowsy).to_json())])
    viewer = as_role("viewer")

    page = viewer.get("/events/", {"kind": drowsy}).text

    assert 'class="badge is-held" title="drowsy"' in page
    assert page.count("Drowsy") == 2  # the event, and the filter's option
    assert viewer.get("/events/", {"kind": "failed_over"}).text.count("Drowsy") == 1
    assert [one["kind"] for one in json.loads(viewer.get("/api/v1/events").text)["items"]] == [drowsy]
    assert about(FailoverEvent.objects.get()) == "/pairs/contoso/entities/orders/"


def test_a_new_kind_needs_no_migration(drowsy, db):
    assert (drowsy, "Drowsy") in FailoverEvent._meta.get_field("kind").choices
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_tone_of_every_kind_is_a_state_that_pages_show():
    assert {kind.tone for kind in KINDS.values()} <= set(Status)


def test_the_api_s_document_names_every_kind():
    described = Published.model_json_schema()["properties"]["kind"]["description"]

    assert all(name in described for name in KINDS)


def test_kinds_that_begin_an_outage_lead_to_its_incident(rf: RequestFactory):
    assert (AWAY, BACK) == (("failed_over", "forced"), ("recovered",))
    for kind in KINDS:
        one = FailoverEvent(event_id="a" * 32, pair="contoso", entity="orders", kind=kind)
        assert bool(incident_of(one)) == (kind in AWAY)
