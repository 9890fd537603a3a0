"""Template tags of the alerts' pages."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.alerts.actions import describe
from dashboard.models import Alert, AlertRule, Notice
from dashboard.models.alert import ANY
from dashboard.templatetags.dashboard import badge

register = template.Library()
register.filter(describe)

SEVERITIES = {"critical": ("failed-over", "Critical"), "warning": ("failing", "Warning"), "info": ("draining", "Info")}
STATES = {
    "waiting": ("draining", "Waiting"),
    "sent": ("healthy", "Sent"),
    "given_up": ("failed-over", "Given up"),
}
CHANNEL_STATES = {
    "not ready": ("failing", "Not ready", ""),
    "disabled": ("failed-over", "Disabled", ""),
    "failing": ("failing", "Failing", ""),
    "works": ("healthy", "Works", "The last message was accepted."),
    "never used": ("unknown", "Not tried", "No message has been sent yet."),
}
PHASES = {"opened": "", "resolved": "Over: ", "test": "Test"}
PAGES = {"budget": "costs", "workers": "workers", "capacity": "backlog", "ledger": "backlog"}
OF_ENTITIES = ("failover", "forced_expiring", "backlog")


@register.simple_tag
def severity_badge(name: str) -> SafeString:
    """A severity as shape, colour and word."""
    status, word = SEVERITIES[name]
    return badge(status, word, title=f"severity {name}")


@register.simple_tag
def alert_page(alert: Alert) -> str:
    """The page on which an operator can act on the alert; empty if there is none, e.g. for a removed pair."""
    if alert.kind in PAGES:
        return reverse(PAGES[alert.kind])
    if alert.kind == "readiness":
        return f"{reverse('readiness')}?{urlencode({'pair': alert.pair})}"
    try:
        if alert.kind == "dead_letters":
            seen = urlencode({"queue": alert.entity, "show": "dead"})
            return f"{reverse('backlog-messages', args=[alert.pair])}?{seen}"
        if alert.kind in OF_ENTITIES and alert.entity != ANY:
            return reverse("entity-detail", args=[alert.pair, alert.entity])
        return reverse("pair-detail", args=[alert.pair])
    except NoReverseMatch:
        return ""


@register.simple_tag
def delivery_badge(notice: Notice) -> SafeString:
    """The state of a delivery."""
    status, word = STATES[notice.state]
    if notice.state == "waiting" and notice.attempts:
        status, word = "failing", "Trying again"
    return badge(status, word, title=notice.reason or word)


@register.simple_tag
def notice_text(notice: Notice) -> str:
    """The title of a message in one line, sent or not."""
    title = str(notice.message["title"]) if notice.message else notice.alert.title if notice.alert else ""
    return (PHASES[notice.phase] + (": " if notice.phase == "test" and title else "") + title) or "—"


@register.simple_tag
def missing_channels(rule: AlertRule, known: Collection[str]) -> SafeString:
    """The channels of a rule that CHANNELS_FILE does not define."""
    gone = [name for name in rule.channels if name not in known]
    if not gone:
        return SafeString("")
    return format_html('<br><small class="bad">CHANNELS_FILE has no {}</small>', ", ".join(gone))


@register.simple_tag
def channel_badge(channel: dict[str, Any]) -> SafeString:
    """The state of a channel, with the reason of a problem."""
    status, word, meaning = CHANNEL_STATES[channel["state"]]
    problem = channel["problem"]
    shown = badge(status, word, problem or meaning)
    return format_html("{}<br><small>{}</small>", shown, problem) if problem else shown
