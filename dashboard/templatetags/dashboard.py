"""Template tags of the control plane: times, states and the labels of actions."""

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms, template
from django.template.context import RequestContext
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.access import registry
from dashboard.actions import entities
from dashboard.fleet.state.event_lines import plain_cause
from dashboard.fleet.state.outages import AWAY
from dashboard.fleet.state.status import MEANINGS, Status
from dashboard.models import FailoverEvent
from dashboard.site import plots
from dashboard.site.durations import lasting, roughly
from dashboard.site.menu import Entry, tabs_on
from pairing.events import KINDS

register = template.Library()
FATE_LABELS = {"restored": "drained", "dead_lettered": "dead-lettered"}
"""The words for outcomes in ledgers that are not their names."""
WEEK_S = 7 * 86_400
BREAKS = re.compile(r"(?<=[/._])(?=.)|(?<=[a-z0-9])(?=[A-Z])")

SHAPES = {
    Status.HEALTHY: '<circle cx="6" cy="6" r="4"/>',
    Status.DRAINING: '<path d="M6 1v6M3 5l3 3 3-3M2 11h8" fill="none"/>',
    Status.FAILING: '<path d="M6 1 11 10.5H1Z"/>',
    Status.FAILED_OVER: '<rect x="1.5" y="1.5" width="9" height="9"/>',
    Status.HELD: '<path d="M2 1.5h3v9H2zM7 1.5h3v9H7z"/>',
    Status.UNKNOWN: '<circle cx="6" cy="6" r="4" fill="none"/>',
}
register.filter(plots.drawing)
register.filter(lasting)
register.filter(roughly)
register.simple_tag(plots.value_axis)


@register.simple_tag
def badge(status: str, word: str = "", title: str = "") -> SafeString:
    """A state as shape, colour and word."""
    known = Status(status)
    return format_html(
        '<span class="badge is-{}" title="{}"><svg viewBox="0 0 12 12" aria-hidden="true">{}</svg>{}</span>',
        known.value,
        title or MEANINGS[known],
        SafeString(SHAPES[known]),
        word or known.word,
    )


@register.simple_tag
def event_badge(kind: str) -> SafeString:
    """The label of an event's kind."""
    known = KINDS.get(kind)
    return badge(known.tone, known.label, title=kind) if known else badge("unknown", kind, title=kind)


@register.simple_tag
def heads(*names: str) -> SafeString:
    """The head of a table. `#` before a name: a column of numbers; `~`: a name for screen readers only."""
    return format_html("<thead><tr>{}</tr></thead>", format_html_join("", "{}", ((_head(name),) for name in names)))


def _head(name: str) -> SafeString:
    if name.startswith("~"):
        return format_html('<th scope="col"><span class="hidden">{}</span></th>', name[1:])
    if name.startswith("#"):
        return format_html('<th scope="col" class="num">{}</th>', name[1:])
    return format_html('<th scope="col">{}</th>', name)


@register.simple_tag
def about(event: FailoverEvent) -> str:
    """The page of the entity of an event, or else the events of the same kind of target."""
    try:
        if (known := KINDS.get(event.kind)) and known.is_of_entity:
            return reverse("entity-detail", args=[event.pair, event.entity])
    except NoReverseMatch:
        pass  # of a pair that PAIRS_FILE does not name
    return f"{reverse('events')}?{urlencode({'pair': event.pair, 'entity': event.entity})}"


@register.simple_tag
def incident_of(event: FailoverEvent) -> str:
    """The page of the incident that this event began; empty where it began none."""
    if event.kind not in AWAY:
        return ""
    try:
        return reverse("incident", args=[event.pair, event.event_id])
    except NoReverseMatch:
        return ""  # of a pair whose name is no part of an address


@register.filter
def plain_cause_of(event: FailoverEvent) -> str:
    """The cause of a failure in a few words; empty for what an operator did, and for other reasons."""
    return "" if event.operator else plain_cause(event.reason, event.kind)


@register.simple_tag
def moment(at: datetime | None, empty: str = "—") -> SafeString:
    """A time, relative as text and absolute (UTC) as title; a script adds the reader's time zone."""
    if at is None:
        return format_html('<span class="quiet">{}</span>', empty)
    exact = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html(
        '<time datetime="{}" title="{}" data-relative="{}">{}</time>',
        at.isoformat(),
        exact,
        exact,
        relative(at, timezone.now()),
    )


@register.simple_tag
def ago(at: datetime) -> SafeString:
    """How long ago a time was, beside its exact form; empty after a week, when it would be the date again."""
    if abs((timezone.now() - at).total_seconds()) >= WEEK_S:
        return SafeString("")
    return format_html("<small>{}</small>", moment(at))


@register.simple_tag
def exact(at: datetime | None) -> SafeString:
    """A time to the second, UTC."""
    if at is None:
        return format_html('<span class="quiet">{}</span>', "—")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), at.isoformat(), at.strftime("%Y-%m-%d %H:%M:%S")
    )


@register.filter
def breakable(path: str) -> SafeString:
    """A path with line breaks allowed after its slashes, dots and underscores, and before its capitals."""
    return format_html_join(SafeString("<wbr>"), "{}", ((part,) for part in BREAKS.split(path)))


@register.filter
def number(value: int | None) -> str:
    """1,204; an em dash if it is not known."""
    return "—" if value is None else f"{value:,}"


@register.filter
def whole(value: float) -> str:
    """13,700: a rate without decimals, rounded to three digits."""
    digits = max(0, len(str(round(abs(value)))) - 3)
    return f"{round(value, -digits):,.0f}"


@register.filter
def short(value: int | None) -> str:
    """12.3k; an em dash if it is not known."""
    return "—" if value is None else plots.short_number(value)


@register.simple_tag
def plot_sizes() -> SafeString:
    """The place of the plot within the drawing, in pixels, for the script that shows values."""
    return SafeString(f'data-top="{plots.TOP}" data-height="{plots.PLOT}"')


@register.simple_tag
def actions_on_selected() -> tuple[entities.EntityAction, ...]:
    """What can be done to several entities at once."""
    return entities.ACTIONS


@register.filter
def verb(name: str, status: str = "") -> str:
    """The label of an action's button, for an entity in this state."""
    return registry.label(name, status)


@register.filter
def fate(name: str) -> str:
    """The label of a message's outcome."""
    return FATE_LABELS.get(name, name.replace("_", " "))


@register.filter
def duration(seconds: float) -> str:
    """3 min 5 s."""
    return lasting(timedelta(seconds=seconds))


@register.filter
def until(start: datetime, end: datetime) -> str:
    """The time between two moments."""
    return lasting(end - start)


@register.simple_tag(takes_context=True)
def tabs_here(context: RequestContext) -> tuple[Entry, ...]:
    """The tabs of the task that the current page belongs to."""
    match: Any = getattr(context.get("request"), "resolver_match", None)
    page = match.url_name if match and not match.namespaces else ""
    menu: tuple[Entry, ...] = context.get("menu") or ()
    return tabs_on(menu, page, is_administrator=bool(context.get("may_administer")))


@register.simple_tag
def form_alert(form: forms.BaseForm | str) -> SafeString:
    """Above a refused form: that nothing was done, and what is wrong, by the labels of the fields."""
    if isinstance(form, str) or not form.is_bound or not form.errors:
        return SafeString("")
    general = [str(error) for error in form.non_field_errors()]
    wrong = [f"{form[name].label}: {errors[0]}" for name, errors in form.errors.items() if name in form.fields]
    return format_html('<p class="alert" role="alert">{}</p>', " ".join(("Nothing was done.", *general, *wrong)))


@register.simple_tag
def field_error(form: forms.BaseForm | str, name: str) -> SafeString:
    """What is wrong with a field, to stand beside it; empty if nothing is, or without a form."""
    if isinstance(form, str) or not form.is_bound or name not in form.errors:
        return SafeString("")
    return format_html('<span class="wrong" id="wrong-{}">{}</span>', name, form.errors[name][0])


@register.simple_tag
def invalid(form: forms.BaseForm | str, name: str) -> SafeString:
    """The attributes of a field that was refused: it is announced as wrong, with the reason beside it."""
    if isinstance(form, str) or not form.is_bound or name not in form.errors:
        return SafeString("")
    return format_html('aria-invalid="true" aria-describedby="wrong-{}" autofocus', name)


def relative(at: datetime, now: datetime) -> str:
    """`12 s ago`, `in 3 min`; the date if it is more than a week away."""
    gap = (now - at).total_seconds()
    size = abs(gap)
    if size < 1:
        return "now"
    if size >= WEEK_S:
        return at.strftime("%Y-%m-%d")
    amount = next(
        f"{size // unit:.0f} {name}"
        for unit, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
        if size >= unit
    )
    return f"{amount} ago" if gap > 0 else f"in {amount}"
