"""The page of workers: heartbeats and leases."""

from datetime import timedelta

from django.utils import timezone

from dashboard import projection


def test_workers_are_alive_or_silent(pair, redis_here, as_role):
    projection.record_heartbeat("web-1:10:aaaa", "pings, syphons", timezone.now())
    projection.record_heartbeat("web-2:11:bbbb", "collectors", timezone.now() - timedelta(minutes=3))

    page = as_role("viewer").get("/workers/").text

    assert page.index("web-1:10:aaaa") < page.index("web-2:11:bbbb")
    assert page.count("Alive") == page.count("Silent") == 1


def test_leases_tell_who_drains_which_queue(pair, shared, as_role):
    shared.acquire_lease("contoso/x-servicebus-transfer/3", "web-1:10:aaaa", 60)

    page = as_role("viewer").get("/workers/").text

    assert "contoso/x-servicebus-transfer/3" in page
    assert "web-1:10:aaaa" in page


def test_without_redis_the_page_says_what_it_cannot_know(pair, redis_away, as_role):
    assert "nobody knows who holds what" in as_role("viewer").get("/workers/").text


def test_without_workers_the_page_says_how_to_start_them(pair, redis_here, as_role):
    assert "celery -A workers worker" in as_role("viewer").get("/workers/").text
