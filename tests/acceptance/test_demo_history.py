"""The demo as `make demo` starts it: with a past, and what Spark makes of it while the dashboard serves."""

import csv
import io
import re
from contextlib import closing

import httpx
import pytest

from dashboard.demo.history.plan import INCIDENTS, MARK, SIMULATION
from tests.acceptance.demo_client import PASSWORD, Demo, DemoClient, eventually

pytestmark = [pytest.mark.nightly, pytest.mark.acceptance, pytest.mark.spark, pytest.mark.timeout(900)]
CHARGES_S = 200.0


@pytest.fixture(scope="module")
def demo_variables() -> dict[str, str]:
    return {"DEMO_HISTORY": "1"}


def signed_in(demo: Demo, name: str) -> httpx.Client:
    """The browser of a user of the demo."""
    client = httpx.Client(base_url=f"http://127.0.0.1:{demo.port}/", follow_redirects=True, timeout=30, trust_env=False)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get("login/").text)
    assert token
    fields = {"csrfmiddlewaretoken": token[1], "username": name, "password": PASSWORD}
    assert client.post("login/", data=fields, headers={"Referer": str(client.base_url)}).status_code == 200
    return client


def test_the_first_page_shows_two_healthy_pairs_and_says_what_is_simulated(demo_client: DemoClient) -> None:
    page = demo_client.http.get("").text

    assert "All 40 entities healthy" in page
    assert "Simulated past" in page
    assert 'data-entity="fleet/positions"' in page


def test_events_and_audit_tell_the_incidents_and_are_marked(demo_client: DemoClient) -> None:
    rows = list(csv.DictReader(io.StringIO(demo_client.http.get("events.csv").text)))
    simulated = [row for row in rows if row["process"].startswith(SIMULATION)]

    assert {incident.reason for incident in INCIDENTS} <= {
        row["reason"].removesuffix(MARK).strip() for row in simulated
    }
    assert all(MARK in row["reason"] for row in simulated)
    assert f"anna {MARK}" in demo_client.http.get("audit/").text


@pytest.mark.parametrize(("name", "may_operate"), [("viewer", False), ("operator-only", True)])
def test_beside_the_operator_there_is_who_may_less(running_demo: Demo, name: str, may_operate: bool) -> None:
    with closing(signed_in(running_demo, name)) as client:
        assert client.get("audit/").status_code == 200
        asked = client.get("pairs/contoso/actions/fail_over/", params={"path": "orders"}).status_code
        assert asked == (200 if may_operate else 403)
        assert client.get("admin/auth/user/").status_code == 403


def test_spark_computes_both_months(running_demo: Demo, demo_client: DemoClient) -> None:
    reported = eventually(lambda: [line for line in running_demo.said if "are computed" in line], CHARGES_S, "charges")
    this, before = re.findall(r"\d{4}-\d\d", reported[0])
    charges = list(csv.DictReader(io.StringIO(demo_client.http.get("costs.csv", params={"month": this}).text)))

    assert demo_client.http.get("costs.csv", params={"month": before}).text.count("\n") > 1
    assert {row["namespace"] for row in charges} >= {"contoso", "northwind"}
    assert sum(float(row["charge"]) for row in charges if row["kind"] == "send_backlog") > 0
