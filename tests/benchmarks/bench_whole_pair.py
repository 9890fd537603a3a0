"""Operators' actions on a pair of 10,000 entities: from the click to the last one reported and written down.

The goal is 5 s for each verb, on a private Redis and SQLite (or the database that DATABASE_URL names).
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.conftest import start_redis
from tests.ports import free_port

ENTITIES = 10_000


def run(entities: int = ENTITIES) -> dict[str, Any]:
    """Seconds by verb; in a process and database of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = start_redis(Path(folder), port)
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
            "DATABASE_URL": os.environ.get("DATABASE_URL") or f"sqlite:///{folder}/control-plane.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "STATE_DIR": folder,
        }
        command = (sys.executable, "-m", "tests.benchmarks.bench_whole_pair", str(entities))
        try:
            done = subprocess.run(
                command, env=environment, cwd=Path(__file__).parents[2], check=True, capture_output=True
            )
        finally:
            server.kill()
            server.wait(10)
    answer: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    return answer


def measure(entities: int) -> dict[str, Any]:
    """Fill the database that the environment names, and act on all entities at once."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.utils import timezone

    from dashboard.access.audited import Request
    from dashboard.actions.entities import FAIL_OVER, MARK_HEALTHY, RELEASE
    from dashboard.models import EntityHealth, Pair

    call_command("migrate", verbosity=0)
    pair = Pair.objects.create(
        name="contoso", primary_namespace="contoso", secondary_namespace="contoso-dr", synced_at=timezone.now()
    )
    paths = [f"region-{number % 9}/store-{number}" for number in range(entities)]
    EntityHealth.objects.bulk_create(EntityHealth(pair=pair, path=path) for path in paths)
    request = Request(pair=pair, user=User.objects.create_superuser("ada"), target="*", reason="drill")
    took: dict[str, Any] = {"entities": entities}
    for action in (FAIL_OVER, RELEASE, MARK_HEALTHY):
        began = perf_counter()
        action.run_on(request, paths)
        took[f"{action.name}_s"] = round(perf_counter() - began, 2)
    return took


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
