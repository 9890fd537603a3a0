"""The pages of alerts, deliveries, rules and channels."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db.models import Case, F, IntegerField, Max, QuerySet, Value, When
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.access.audited import Request
from dashboard.access.idempotency import following
from dashboard.access.rights import require
from dashboard.alerts import actions
from dashboard.alerts.actions import ACKNOWLEDGE_ALERT, DELETE_RULE, MAKE_RULE, ON_CHANNEL, TRY_CHANNEL
from dashboard.alerts.forms import DeliveryFilter, HistoryFilter, LastShown, RuleForm
from dashboard.alerts.sending.channels import kinds
from dashboard.alerts.sending.config import channel_states
from dashboard.models import Alert, AlertRound, AlertRule, EntityHealth, Notice, Pair
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read

PAGE, MOST_OPEN = 14, 20
WORST_FIRST = Case(When(severity="critical", then=Value(0)), When(severity="warning", then=Value(1)), default=Value(2))
STALE_S = 60


@require_GET
def current(request: HttpRequest) -> HttpResponse:
    """Open alerts, most severe first; then closed alerts."""
    form = read(request, HistoryFilter)
    form.offer("pair", Pair.objects.values_list("name", flat=True), "any pair")
    now_so, looked_at = _open_ones(), AlertRound.objects.values_list("ran_at", flat=True).first()
    past = Alert.objects.filter(resolved_at__isnull=False, **form.given)
    context = {
        "open_alerts": now_so[:MOST_OPEN],
        "open_count": now_so.count(),
        "unacknowledged": now_so.filter(acknowledged_at__isnull=True).exists(),
        "last": now_so.aggregate(last=Max("pk"))["last"],
        "page": page_of(request, past, PAGE),
        "form": form,
        "query": query_without_page(request),
        "channels": channel_states()[0],
        "has_rules": AlertRule.objects.filter(is_enabled=True).exists(),
        "looked_at": looked_at,
        "is_stale": looked_at is None or (timezone.now() - looked_at).total_seconds() > STALE_S,
        "request_id": uuid.uuid4(),
    }
    return page_or_part(request, "alerts/list.html", context)


@require_GET
def deliveries(request: HttpRequest) -> HttpResponse:
    """The deliveries with their results."""
    form = read(request, DeliveryFilter)
    form.offer("channel", sorted(set(Notice.objects.order_by().values_list("channel", flat=True))), "any channel")
    rows = Notice.objects.filter(**form.given).select_related("alert")
    context = {"page": page_of(request, rows, PAGE), "form": form, "query": query_without_page(request)}
    return page_or_part(request, "alerts/deliveries.html", context)


@require_GET
def rules(request: HttpRequest) -> HttpResponse:
    """The rules and channels."""
    channels, problem = channel_states()
    context = {
        "rules": AlertRule.objects.all(),
        "channels": channels,
        "problem": problem,
        "known": [one["channel"] for one in channels],
        "channel_kinds": kinds(),
        "request_id": uuid.uuid4(),
    }
    return page_or_part(request, "alerts/rules.html", context)


@require_http_methods(["GET", "POST"])
def rule(request: HttpRequest, rule: int | None = None) -> HttpResponse:
    """One rule, which administrators can change; without a number, a new one."""
    row = AlertRule.objects.filter(pk=rule).first() if rule else None
    known = tuple(one["channel"] for one in channel_states()[0])
    form = RuleForm(request.POST or None, instance=row, known=known)
    is_there = rule is None or row is not None
    if is_there and request.method == "POST" and form.is_valid():
        wanted = _wanted(request, str(form.cleaned_data.get("request_id") or ""))
        messages.success(request, actions.save_rule(wanted, form.save(commit=False)).sentence)
        return redirect("alert-rules")
    require(request.user, MAKE_RULE.right)  # of what is to be done, the audited path decides and records it
    if not is_there:
        raise Http404
    context: dict[str, Any] = {
        "form": form,
        "rule": row,
        "known": known,
        "kinds": Alert.Kind.choices,
        "chosen_kinds": form["kinds"].value() or (),
        "chosen_channels": form["channels"].value() or (),
        "pairs": Pair.objects.values_list("name", flat=True),
        "entities": EntityHealth.objects.present().order_by("path").values_list("path", flat=True).distinct()[:500],
        "request_id": uuid.uuid4(),
    }
    return render(request, "alerts/rule.html", context, status=400 if form.errors else 200)


@require_POST
def delete_rule(request: HttpRequest, rule: int) -> HttpResponse:
    """Delete a rule."""
    if row := AlertRule.objects.filter(pk=rule).first():
        messages.success(request, actions.delete_rule(_wanted(request), row).sentence)
    else:
        require(request.user, DELETE_RULE.right)
        messages.info(request, "The rule no longer exists.")
    return redirect("alert-rules")


@require_POST
def acknowledge(request: HttpRequest, alert: int | None = None) -> HttpResponse:
    """Acknowledge one alert, or all open ones that the page showed."""
    wanted, shown = _wanted(request), LastShown(request.POST)
    if not shown.is_valid():
        raise BadRequest("The newest alert of the page cannot be read. Reload the page.")
    if alert is not None and not Alert.objects.filter(pk=alert).exists():
        require(request.user, ACKNOWLEDGE_ALERT.right)
        raise Http404
    if alert is None:
        outcome = actions.acknowledge_all(wanted, shown.cleaned_data["last"])
    else:
        outcome = actions.acknowledge(wanted, alert)
    messages.success(request, outcome.sentence)
    return redirect("alerts")


@require_POST
def channel(request: HttpRequest, channel: str, verb: str) -> HttpResponse:
    """`test` or `enable` a channel."""
    if verb not in ON_CHANNEL:
        require(request.user, TRY_CHANNEL.right)
        raise Http404
    given = request.POST.get("request_id", "")
    once = following(given, f"{verb} {channel}") if given else ""  # the page has one id for all
    _, run = ON_CHANNEL[verb]
    messages.success(request, run(replace(_wanted(request, once), target=channel)).sentence)
    return redirect("alert-rules")


def _wanted(request: HttpRequest, request_id: str = "") -> Request:
    return Request(request.user, request_id=request_id or request.POST.get("request_id", "")[:36])


def _open_ones() -> QuerySet[Alert]:
    ordered = Case(When(acknowledged_at__isnull=True, then=Value(0)), default=Value(1), output_field=IntegerField())
    return Alert.objects.filter(resolved_at__isnull=True).order_by(
        ordered, WORST_FIRST, F("opened_at").desc(), "entity"
    )
