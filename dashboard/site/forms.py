"""Shared by the forms of several rooms."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from django import forms
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)
LARGEST_BYTES = 64 * 1024 * 1024
"""The size limit of an uploaded file."""


class TimeInput(forms.DateTimeInput):
    """A time that the browser lets people choose."""

    input_type = "datetime-local"


class TimeField(forms.DateTimeField):
    """An optional time of a filter, in UTC if it has no offset."""

    widget = TimeInput

    default_error_messages = {"invalid": "Write a time such as 2026-11-02 04:00, or 2026-11-02T04:00Z."}  # noqa: RUF012

    def __init__(self, **named: Any) -> None:
        super().__init__(required=False, **named)


class Filter(forms.Form):
    """The filters of a list, which `site/filter_bar.html` draws in the order of the fields."""

    lookups: ClassVar[Mapping[str, str]] = {}
    """The lookup of each field that filters by its value as it is."""

    def apply(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """The rows that match."""
        given = self.given
        return rows.filter(**{lookup: given[name] for name, lookup in self.lookups.items() if name in given})

    @property
    def is_used(self) -> bool:
        return any(self.cleaned_data.values())

    @property
    def given(self) -> dict[str, Any]:
        """The values that filter something, by name."""
        return {name: value for name, value in self.cleaned_data.items() if value}

    def offer(self, name: str, values: Iterable[str], nothing: str) -> None:
        """Have a text chosen from these values. One that is in use is offered, even if it is none of them."""
        chosen, known = self.cleaned_data.get(name), list(values)
        offered = [*known, chosen] if chosen and chosen not in known else known
        self.fields[name].widget = forms.Select(choices=[("", nothing), *((value, value) for value in offered)])


class WithReason(forms.Form):
    """A form that asks for a reason, with an id, so that it is carried out once. If a reason is required, whitespace
    does not count.
    """

    reason = forms.CharField(
        required=False, max_length=500, error_messages={"required": "Enter a reason; it is stored in the audit trail."}
    )
    request_id = forms.UUIDField(required=False)

    def __init__(self, *args: Any, needs_reason: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["reason"].required = needs_reason
