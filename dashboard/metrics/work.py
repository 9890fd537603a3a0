"""The control plane's own work: computing charges, and sending alerts. Read from the database."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Min, Q
from prometheus_client import Metric

from dashboard.metrics.families import Sample, counter, gauge, moment
from dashboard.models import Alert, AlertRound, ChannelState, ChargeRun, Notice


def metrics(now: datetime) -> Iterator[Metric]:
    """Runs of the charges job, alerts and their messages."""
    runs = list(_last_runs())
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
    yield gauge("alerts_look_timestamp_seconds", "When alert conditions were last evaluated.", _looked())
    yield counter("alert_messages_total", "Messages to channels, by result.", _messages())
    yield gauge("alert_outbox_messages", "Messages that are due and not sent.", _outbox())
    yield gauge("alert_outbox_oldest_timestamp_seconds", "When the oldest unsent message was created.", _waiting())
    yield gauge("alert_channel_failing", "1 if a channel accepts no messages.", _channels())


def _last_runs() -> Iterator[ChargeRun]:
    yield from ChargeRun.objects.filter(status="succeeded", finished_at__isnull=False).order_by("-finished_at")[:1]


def _runs() -> Iterator[Sample]:
    rows = ChargeRun.objects.filter(status__in=("succeeded", "failed")).order_by().values_list("status")
    return (({"status": status}, count) for status, count in rows.annotate(count=Count("pk")))


def _open() -> Iterator[Sample]:
    rows = Alert.objects.filter(resolved_at__isnull=True).order_by().values_list("kind", "severity")
    for kind, severity, count, seen in rows.annotate(
        count=Count("pk"), seen=Count("pk", filter=Q(acknowledged_at__isnull=False))
    ):
        yield {"kind": kind, "severity": severity, "acknowledged": "true"}, seen
        yield {"kind": kind, "severity": severity, "acknowledged": "false"}, count - seen


def _looked() -> Iterator[Sample]:
    return (({}, moment(at)) for at in AlertRound.objects.values_list("ran_at", flat=True)[:1])


def _messages() -> Iterator[Sample]:
    rows = Notice.objects.exclude(state="waiting").order_by().values_list("channel", "state")
    return (({"channel": channel, "state": state}, count) for channel, state, count in rows.annotate(n=Count("pk")))


def _outbox() -> Iterator[Sample]:
    due = Notice.open_ones().order_by().values_list("channel")
    return (({"channel": channel}, count) for channel, count in due.annotate(n=Count("pk")))


def _waiting() -> Iterator[Sample]:
    due = Notice.open_ones().order_by().values_list("channel")
    return (({"channel": channel}, moment(at)) for channel, at in due.annotate(at=Min("created_at")))


def _channels() -> Iterator[Sample]:
    rows = ChannelState.objects.values_list("channel", "failing_since")
    return (({"channel": channel}, float(since is not None)) for channel, since in rows)
