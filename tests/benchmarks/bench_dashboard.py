"""The control plane's pages at size: the overview of 10,000 entities, and charts over 1,000,000 depth samples, of an
hour and of up to thirty days. Medians of server time.
"""

import json
import os
import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from tests.benchmarks.processes import measured, size

ENTITIES, SAMPLES, ROUNDS = size(10_000, 60), size(1_000_000, 400), size(31, 1)
BATCH = 20_000
OF_A_TRANSACTION = ("BEGIN", "COMMIT")
"""A page is read in one transaction. Its two statements are no queries."""
SPANS = ("6h", "1d", "7d", "30d")
ROWS = [
    (
        "overview of 10,000 entities, 20 of them failed over",
        "at most 13 queries, 60 ms",
        "{overview[queries]} queries, {overview[median_ms]} ms",
    ),
    (
        "a pair with its charts over an hour, a day, thirty days",
        "under 100 ms",
        "{pair_with_charts[median_ms]}, {pair_over_1d[median_ms]} and {pair_over_30d[median_ms]} ms",
    ),
    (
        "an entity with its chart over an hour and thirty days",
        "under 100 ms",
        "{entity_with_chart[median_ms]} and {entity_over_30d[median_ms]} ms",
    ),
]


def run() -> dict[str, Any]:
    """Server time of one answer in ms (median, worst) and its queries; in a process and database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer: dict[str, Any] = measured(
            "bench_dashboard",
            DJANGO_SETTINGS_MODULE="dashboard.settings",
            DATABASE_URL=os.environ.get("DATABASE_URL") or f"sqlite:///{folder}/control-plane.sqlite3",
            STATE_DIR=folder,
            PAIRS_FILE=f"{folder}/pairs.toml",
            ALLOWED_HOSTS="testserver",
            DEMO="0",
        )
        return answer


def measure() -> dict[str, Any]:
    """Fill the database that the environment names, and ask for pages."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    client = _fill(ENTITIES, SAMPLES)
    pages = {
        "overview": "/",
        "search": "/?q=entity-099",
        "pair_with_charts": "/pairs/contoso/",
        "entity_with_chart": "/pairs/contoso/entities/folder-00/entity-00000/",
        **{f"pair_over_{span}": f"/pairs/contoso/?span={span}" for span in SPANS},
        **{f"entity_over_{span}": f"/pairs/contoso/entities/folder-00/entity-00000/?span={span}" for span in SPANS},
    }
    rolled_up_s = _rolled_up()
    return {
        "entities": ENTITIES,
        "samples": SAMPLES,
        "rolled_up_s": rolled_up_s,
        **{name: _timed(client, url) for name, url in pages.items()},
    }


def _fill(entities: int, samples: int) -> Any:
    from datetime import timedelta

    from django.contrib.auth.models import Group, User
    from django.test import Client
    from django.utils import timezone

    from dashboard.models import BacklogQueue, DepthSample, EntityHealth, Pair, PairDepth, WaitingSample

    now = timezone.now()
    pair = Pair.objects.create(name="contoso", primary_namespace="a", secondary_namespace="b", synced_at=now)
    EntityHealth.objects.bulk_create(
        EntityHealth(
            pair=pair,
            path=f"folder-{n % 40:02}/entity-{n:05}",
            state="failed_over" if n % 500 == 0 else "healthy",
            since=now,
            waiting=0,
        )
        for n in range(entities)
    )
    troubled = EntityHealth.objects.get(path="folder-00/entity-00000")
    queues = [BacklogQueue.objects.create(pair=pair, path=f"backlog/{n}", index=n, seen_at=now) for n in range(8)]
    for start in range(0, samples, BATCH):
        moments = [now - timedelta(seconds=30 * n) for n in range(start // 10, min(start + BATCH, samples) // 10)]
        PairDepth.objects.bulk_create([PairDepth(pair=pair, at=at, messages=9) for at in moments])
        WaitingSample.objects.bulk_create([WaitingSample(entity=troubled, at=at, waiting=9) for at in moments])
        DepthSample.objects.bulk_create([DepthSample(queue=one, at=at, active=9) for one in queues for at in moments])
    person = User.objects.create_user("operator")
    person.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(person)
    return client


def _rolled_up() -> float:
    """Seconds that workers need to roll all samples up for the first time."""
    from dashboard.fleet.depth.peaks import roll_up
    from dashboard.models import Pair

    began = perf_counter()
    roll_up(Pair.objects.get())
    return round(perf_counter() - began, 2)


def _timed(client: Any, url: str) -> dict[str, float]:
    from django.db import connection

    headers = {"HX-Request": "true"}
    client.get(url, headers=headers)  # once a minute a session notes that it is in use, in three queries more
    connection.force_debug_cursor = True
    client.get(url, headers=headers)
    queries = sum(not query["sql"].startswith(OF_A_TRANSACTION) for query in connection.queries_log)
    connection.force_debug_cursor = False
    took = []
    for _ in range(ROUNDS):
        began = perf_counter()
        answer = client.get(url, headers=headers)
        took.append(1000 * (perf_counter() - began))
        assert answer.status_code == 200, url
    return {"queries": queries, "median_ms": round(median(took), 1), "worst_ms": round(max(took), 1)}


if __name__ == "__main__":
    print(json.dumps(measure()))
