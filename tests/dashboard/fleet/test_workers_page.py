"""The page of workers: heartbeats and leases."""

from datetime import timedelta

from django.utils import timezone

from dashboard.alerts.watching.conditions_now import missing_workers
from dashboard.fleet.state import projection
from dashboard.models import Pair
from dashboard.readiness.gathering import pair_facts
from dashboard.site.redis import shared_state
from pairing.fleet.presence import GatewayTraffic, Presence, Presences
from workers import heartbeats
from workers.watchers import store_reported_states


def test_workers_are_alive_or_silent(pair, redis_here, as_role):
    projection.record_heartbeat("web-1:10:aaaa", "pings, syphons", timezone.now())
    projection.record_heartbeat("web-2:11:bbbb", "collectors", timezone.now() - timedelta(minutes=3))

    page = as_role("viewer").get("/workers/").text

    assert page.index("web-1:10:aaaa") < page.index("web-2:11:bbbb")
    assert page.count("Alive") == page.count("Silent") == 1


def test_a_worker_s_lease_and_its_heartbeat_name_the_same_process(pair, shared, redis_here, as_role):
    now = timezone.now()
    projection.record_heartbeat("worker-1@host", "syphons", now)
    beat = heartbeats.Heartbeat(now, ("syphons",), process="host:4711")
    redis_here.hset(heartbeats.KEY, "worker-1@host", beat.to_json())
    shared.acquire_lease("contoso/x-servicebus-transfer/3", "host:4711:0a1b2c3d", 60)

    page = as_role("viewer").get("/workers/").text

    assert page.count("worker-1@host") == 2
    assert page.count("host:4711") == 2
    assert heartbeats.Heartbeat.from_json(beat.to_json()) == beat


def test_a_gateway_is_shown_with_its_clients_and_its_silence_is_an_alert(pair, shared, redis_here, as_role):
    traffic = GatewayTraffic({"azsdk-net/7.21.0": 2, "<unknown>": 1}, links=7, retained=0, redirected=12, refused=3)
    Presences(shared).report("gw:10:aaaa", Presence(sends=True, gateway=traffic))
    store_reported_states("contoso")

    page = as_role("viewer").get("/workers/").text
    assert page.count("gw:10:aaaa") == 2
    assert all(shown in page for shown in ("azsdk-net/7.21.0", "&lt;unknown&gt;", ">12<", "gateway of contoso"))
    facts = pair_facts(pair, {}, timezone.now())
    assert (facts.gateways, facts.gateway_heard_at is None) == ({"gw:10:aaaa": None}, False)

    assert list(missing_workers(timezone.now())) == []
    (alert,) = missing_workers(timezone.now() + timedelta(minutes=2))
    assert (alert.title, alert.pair) == ("No gateway of contoso is alive", "contoso")
    Pair.objects.update(is_configured=False)
    assert list(missing_workers(timezone.now() + timedelta(minutes=2))) == []


def test_readiness_knows_the_gateways_of_a_pair_with_a_long_name(db, redis_here):
    pair = Pair.objects.create(name="p" * 63, primary_namespace="a", secondary_namespace="b", synced_at=timezone.now())
    traffic = GatewayTraffic({}, links=0, retained=0, redirected=0, refused=0)
    Presences(shared_state(pair.name)).report("gw:10:aaaa", Presence(sends=True, gateway=traffic))
    store_reported_states(pair.name)

    assert pair_facts(pair, {}, timezone.now()).gateway_heard_at


def test_without_redis_the_page_says_what_it_cannot_know(pair, redis_away, as_role):
    assert "the lease holders are not known" in as_role("viewer").get("/workers/").text


def test_without_workers_the_page_says_how_to_start_them(pair, redis_here, as_role):
    assert "celery -A workers worker" in as_role("viewer").get("/workers/").text


def test_a_worker_that_is_kept_from_some_of_its_work_says_from_which(pair, redis_here, as_role):
    queue = "contoso/x-servicebus-transfer/3"
    reported = {queue: "receives and delivers nothing since 10:00:00 UTC: <refused>", "pairs file": "it is not TOML"}
    projection.record_heartbeat("web-1:10:aaaa", "syphons", timezone.now(), reported)
    projection.record_heartbeat("web-2:11:bbbb", "pings", timezone.now())

    page = as_role("viewer").get("/workers/").text

    assert page.count("Degraded") == page.count("Alive<") == 1
    assert queue in page
    assert "receives and delivers nothing since 10:00:00 UTC: &lt;refused&gt;" in page
    assert "it is not TOML" in page

    projection.record_heartbeat("web-1:10:aaaa", "syphons", timezone.now())
    assert "Degraded" not in as_role("viewer").get("/workers/").text
