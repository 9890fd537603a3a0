"""The control plane's own work: computing charges, and sending alerts. Read from the database."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Min, Q
from prometheus_client import Metric

from dashboard.metrics.families import Sample, counter, each, gauge, moment
from dashboard.models import Alert, AlertRound, ChannelState, ChargeRun, Notice


def metrics(now: datetime) -> Iterator[Metric]:
    """Runs of the charges job, alerts and their messages."""
    succeeded = ChargeRun.objects.filter(status="succeeded", finished_at__isnull=False)
    runs = list(succeeded.order_by("-finished_at")[:1])
    yield counter("pipeline_runs_total", "Runs of the charges job, by result.", _runs())
    yield gauge(
        "pipeline_last_success_timestamp_seconds",
        "When charges were last computed.",
        [({}, moment(run.finished_at)) for run in runs],
    )
    yield gauge(
        "pipeline_last_duration_seconds",
        "Duration of that computation.",
        [({}, (run.finished_at - run.started_at).total_seconds()) for run in runs if run.finished_at],
    )
    yield gauge("pipeline_last_rows", "Usage records that it read.", [({}, run.rows) for run in runs])
    yield gauge("alerts_open", "Open alerts.", _open())
    looked = AlertRound.objects.values_list("ran_at")[:1]
    yield gauge("alerts_look_timestamp_seconds", "When alert conditions were last evaluated.", each(looked))
    yield counter("alert_messages_total", "Messages to channels, by result.", _messages())
    due = Notice.open_ones().order_by().values_list("channel")
    unsent, oldest = due.annotate(n=Count("pk")), due.annotate(at=Min("created_at"))
    yield gauge("alert_outbox_messages", "Messages that are due and not sent.", each(unsent, "channel"))
    about = "When the oldest unsent message was created."
    yield gauge("alert_outbox_oldest_timestamp_seconds", about, each(oldest, "channel"))
    yield gauge("alert_channel_failing", "1 if a channel accepts no messages.", _channels())


def _runs() -> Iterator[Sample]:
    rows = ChargeRun.objects.filter(status__in=("succeeded", "failed")).order_by().values_list("status")
    return each(rows.annotate(count=Count("pk")), "status")


def _open() -> Iterator[Sample]:
    rows = Alert.objects.filter(resolved_at__isnull=True).order_by().values_list("kind", "severity")
    for kind, severity, count, seen in rows.annotate(
        count=Count("pk"), seen=Count("pk", filter=Q(acknowledged_at__isnull=False))
    ):
        yield {"kind": kind, "severity": severity, "acknowledged": "true"}, seen
        yield {"kind": kind, "severity": severity, "acknowledged": "false"}, count - seen


def _messages() -> Iterator[Sample]:
    rows = Notice.objects.exclude(state="waiting").order_by().values_list("channel", "state")
    return each(rows.annotate(n=Count("pk")), "channel", "state")


def _channels() -> Iterator[Sample]:
    rows = ChannelState.objects.values_list("channel", "failing_since")
    return (({"channel": channel}, float(since is not None)) for channel, since in rows)
