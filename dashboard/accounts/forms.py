"""The filters of the audit trail, and the form of a new token."""

from django import forms
from django.db.models import Q, QuerySet

from dashboard.access import registry
from dashboard.models import ApiToken, AuditEntry
from dashboard.site.forms import Filter, TimeField

LIFETIMES = ((7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"))
TEXTS = ("target", "reason", "detail", "via")
"""The columns in which a text is searched."""


def _actions() -> list[tuple[str, str]]:
    known = [(name, verb.label) for name, verb in registry.verbs().items()]
    return [("", "any action"), *sorted(known, key=lambda one: one[1])]


class AuditFilter(Filter):
    """Filters of the audit trail: who, which action, on what, when (UTC), and a text."""

    operator = forms.CharField(required=False, max_length=150, label="Operator")
    verb = forms.ChoiceField(required=False, choices=_actions, label="Action")
    pair = forms.CharField(required=False, max_length=63, label="Pair")
    target = forms.CharField(required=False, max_length=300, label="Entity or queue")
    since = TimeField(label="From (UTC)")
    until = TimeField(label="Before (UTC)")
    q = forms.CharField(
        required=False,
        max_length=200,
        label="Text",
        widget=forms.SearchInput(attrs={"placeholder": "reason, outcome"}),
    )

    lookups = {  # noqa: RUF012
        "operator": "operator__icontains",
        "verb": "verb",
        "pair": "pair",
        "target": "target__icontains",
        "since": "at__gte",
        "until": "at__lt",
    }

    def apply(self, rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:  # type: ignore[override]
        wanted = Q()
        if text := self.cleaned_data.get("q"):
            for column in TEXTS:
                wanted |= Q(**{f"{column}__icontains": text})
        return super().apply(rows.filter(wanted))


class TokenForm(forms.Form):
    """The purpose, scope and lifetime of a new token."""

    name = forms.CharField(max_length=60, label="Used by")
    scope = forms.ChoiceField(choices=ApiToken.Scope.choices, initial=ApiToken.Scope.READ, label="Scope")
    days = forms.TypedChoiceField(choices=LIFETIMES, coerce=int, initial=30, label="Valid for")
    request_id = forms.UUIDField(required=False)
