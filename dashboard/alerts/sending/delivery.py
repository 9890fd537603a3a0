"""Sends due messages per channel under an expiring claim: after a crash, a message is sent again with its id."""

from __future__ import annotations

import smtplib
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.urls import reverse
from django.utils import timezone

from dashboard.alerts.sending import transport
from dashboard.alerts.sending.channels.base import Mail, Post, Request
from dashboard.alerts.sending.config import load_channels
from dashboard.alerts.sending.message import Message, about, one_line
from dashboard.alerts.sending.results import judge
from dashboard.alerts.sending.transport import Answer
from dashboard.models import ChannelState, Notice

CLAIM_S = 120.0
"""Longer than any attempt: a mail server has ten seconds for each of its responses."""
log = structlog.get_logger(__name__)
Send = Callable[[Request], Answer]


def due_channels(now: datetime) -> list[str]:
    """The channels with due messages."""
    return sorted(set(_due(now).order_by().values_list("channel", flat=True)))


def deliver(channel: str, now: Callable[[], datetime] = timezone.now, send: Send | None = None) -> int:
    """Send the due messages of one channel, oldest first. Returns the number of attempts."""
    tried = 0
    known = set[int]()
    while notice := _due(now()).filter(channel=channel).exclude(pk__in=known).order_by("due_at", "pk").first():
        known.add(notice.pk)
        if notice.claim(now(), CLAIM_S):
            tried += 1
            attempt(notice, now, send or send_for_real)
    return tried


def _due(now: datetime) -> QuerySet[Notice]:
    """The messages to send: a later message about an alert waits until the earlier one is sent or given up."""
    earlier = Notice.open_ones().filter(channel=OuterRef("channel"), alert=OuterRef("alert"), pk__lt=OuterRef("pk"))
    return Notice.unclaimed(now).exclude(Exists(earlier))


def attempt(notice: Notice, now: Callable[[], datetime], send: Send) -> None:
    """One attempt for a claimed notice: compose it, send it, store the result."""
    message = _sealed(notice, now())
    answer = _answer(notice, message, now(), send)
    _record(notice, answer, now())


def _sealed(notice: Notice, now: datetime) -> Message:
    """The content, stored before the first attempt and the same in each further one."""
    if notice.message is None:
        notice.message = asdict(_message(notice, now))
        notice.save(update_fields=["message"])
    return Message(**notice.message)


def _message(notice: Notice, now: datetime) -> Message:
    common = {"id": str(notice.notice_id), "phase": notice.phase, "url": page(), "at": now.isoformat()}
    if notice.alert is not None:
        condition = uuid.uuid5(uuid.NAMESPACE_URL, f"{settings.PUBLIC_URL}:{notice.alert.key}")
        return about(notice.alert, condition=str(condition), **common)
    title = f"{notice.by or 'somebody'} is testing this channel"
    return Message(**common, condition=common["id"], kind="test", severity="info", pair="*", title=title)


def page() -> str:
    """The URL of the alerts, if PUBLIC_URL is set; otherwise empty."""
    return settings.PUBLIC_URL.rstrip("/") + reverse("alerts") if settings.PUBLIC_URL else ""


def _answer(notice: Notice, message: Message, now: datetime, send: Send) -> Answer:
    if (
        ChannelState.objects.filter(channel=notice.channel, disabled_at__isnull=False).exists()
        and notice.phase != Notice.Phase.TEST
    ):
        return Answer(410, "The channel is disabled: its target answered that it is gone.", is_permanent=True)
    try:
        channel = load_channels().get(notice.channel)
        if channel is None:
            return Answer(problem=f"CHANNELS_FILE has no channel {notice.channel}.")
        return send(channel.integration.build(channel.target(), message, now))
    except ImproperlyConfigured as error:
        return Answer(problem=str(error))


def _record(notice: Notice, answer: Answer, now: datetime) -> None:
    result = judge(answer, notice.attempts + 1, notice.created_at, now)
    is_over = result.state != Notice.State.WAITING
    changes = {
        "attempts": F("attempts") + 1,
        "status": answer.status,
        "reason": one_line(answer.problem),
        "state": result.state,
        "ended_at": now if is_over else None,
    }
    if result.due_at:
        changes["due_at"] = result.due_at
    with transaction.atomic():
        if not notice.keep(**changes):
            return
        _note_outcome(notice.channel, result.fare, answer, now)
    said = log.info if result.fare == "well" else log.warning
    said("alert sent" if result.fare == "well" else "alert not sent", channel=notice.channel, problem=answer.problem)


def _note_outcome(channel: str, fare: str, answer: Answer, now: datetime) -> None:
    if fare == "as before":
        return
    row, _ = ChannelState.objects.get_or_create(channel=channel)
    if fare == "well":
        row.failing_since, row.disabled_at, row.reason, row.sent_at = None, None, "", now
    else:
        row.failing_since, row.reason = row.failing_since or now, one_line(answer.problem)
        row.disabled_at = row.disabled_at or (now if fare == "disabled" else None)
    row.save()


def send_for_real(request: Request) -> Answer:
    """Over HTTP or by mail."""
    if isinstance(request, Post):
        return transport.post(request, settings.ALERT_ALLOWED_NETWORKS)
    return _mail(request)


def _mail(mail: Mail) -> Answer:
    sender = mail.sender or settings.DEFAULT_FROM_EMAIL
    written = EmailMessage(mail.subject, mail.text, sender, list(mail.to), headers=dict(mail.headers))
    try:
        written.connection = get_connection()
        written.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _ in error.recipients.values()}
        return _refused(max(codes))
    except smtplib.SMTPResponseException as error:
        return _refused(error.smtp_code)
    except (smtplib.SMTPException, OSError) as error:
        what = error.strerror.lower() if isinstance(error, OSError) and error.strerror else type(error).__name__
        return Answer(problem=f"The mail server did not answer as it should: {what}.")
    except ValueError as error:
        return Answer(problem=f"No mail can be written to or from these addresses: {str(error).rstrip('.')}.")
    return Answer()


def _refused(code: int) -> Answer:
    """SMTP errors 5xx are permanent, except for failed logins, which can be corrected in the settings."""
    is_permanent = 500 <= code < 600 and code not in (530, 534, 535, 538)
    return Answer(problem=f"The mail server refused it with {code}.", is_permanent=is_permanent)
