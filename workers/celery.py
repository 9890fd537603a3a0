"""The Celery app and the beat schedule: `celery -A workers worker` and `… beat` need no further options.

Beat only triggers tasks: due times are in Redis, and leases there provide mutual exclusion. So a second beat, a
redelivered task or a lost tick does no harm, and a tick expires before the next ones queue up behind it.
"""

import logging
import os
import sys
from datetime import timedelta
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

from celery import Celery
from celery.schedules import crontab
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from dashboard.site.processes import share_arenas
from workers.broker import EXCHANGE, QUEUES, broker_url

share_arenas()
try:
    settings.REDIS_URL  # noqa: B018 - reads the environment, which may be wrong
except ImproperlyConfigured as error:
    sys.exit(f"error: {error}")

ANSWER_S = 4.0  # how long workers and beat wait for an answer of Redis before they connect again
SLICE_S = 60.0  # how long a looping task keeps its thread until the next tick starts it again

ROOMS = ("pingers", "syphons", "collectors", "watchers", "errands", "pipeline", "heartbeats", "tasks", "worker", "beat")

for chatter in ("celery.app.trace", "celery.worker.strategy", "celery.worker.request", "azure"):
    logging.getLogger(chatter).setLevel(logging.WARNING)  # log lines for every tick and frame are not useful

app = Celery(
    "workers",
    loader="workers.worker:Loader",
    task_cls="workers.worker:Tick",
    amqp="workers.broker:Amqp",
    include=[f"workers.{room}" for room in ROOMS],
)


def every(seconds: float, task: str) -> dict[str, Any]:
    """One entry of the schedule; the tick expires when the next one is due."""
    return {"task": task, "schedule": timedelta(seconds=seconds), "options": {"expires": max(seconds, 2.0)}}


app.conf.update(
    broker_url=broker_url(settings.REDIS_URL),
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # without a limit: workers.broker
    broker_channel_error_retry=True,  # an error that Redis returns is retried, and ends no worker
    worker_enable_remote_control=False,  # not needed, and anyone who reaches Redis could stop the workers with it
    # Redis delivers a task again after visibility_timeout, checked every unacked_restore_interval × throttle
    # seconds (100 by default). The timeout must exceed the longest task that is acknowledged late.
    broker_transport_options={
        "visibility_timeout": 4 * SLICE_S,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        # A Redis that froze, or whose host is gone, ends no connection: without limits beat and workers wait for it
        # until it is back, also if a replica has long been promoted.
        "socket_timeout": ANSWER_S,
        "socket_connect_timeout": ANSWER_S,
        "health_check_interval": ANSWER_S,
    },
    task_queues=[Queue(name, Exchange(EXCHANGE), routing_key=name) for name in QUEUES],
    task_default_queue="samples",
    task_routes={f"{name}.*": {"queue": name} for name in QUEUES},
    task_acks_late=True,
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_consumer="workers.broker:PatientConsumer",
    worker_pool="workers.worker:Threads",
    worker_concurrency=16,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_scheduler="workers.beat:Scheduler",  # there is no state to store in a schedule file
    beat_schedule={
        "pings": every(1, "pings.due"),
        "syphons": every(1, "syphons.ensure"),
        "events": every(1, "collectors.events"),
        "health": every(1, "collectors.health"),
        "usage": every(1, "collectors.usage"),
        "reconcile": every(5, "samples.reconcile"),
        "depths": every(settings.SAMPLE_INTERVAL_S, "samples.depths"),
        "peaks": every(60, "samples.peaks"),
        "entities": every(60, "samples.entities"),
        "primaries": every(300, "samples.primaries"),
        "readiness": every(5, "samples.readiness"),
        "drills": every(1, "backlog.drills"),
        "prune": {"task": "samples.prune", "schedule": crontab(hour="3", minute="20")},
        "backlog": every(1, "backlog.due"),
        "dead-letters": every(1, "backlog.dead_letters"),
        "wanted": every(2, "pipeline.wanted"),
        "alerts": every(5, "alerts.look"),
        "alerts-due": every(1, "alerts.due"),
        "compact": {"task": "pipeline.compact", "schedule": crontab(hour="1", minute="40")},
        "charges": {"task": "pipeline.charges", "schedule": crontab(hour="2", minute="10")},
    },
    timezone="UTC",
)
if settings.CHARGES_INTERVAL_S:
    app.conf.beat_schedule["charges-often"] = every(settings.CHARGES_INTERVAL_S, "pipeline.charges")
