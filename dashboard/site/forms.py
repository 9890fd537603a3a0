"""Shared by the forms of several rooms."""

from typing import Any

from django import forms


class TimeField(forms.DateTimeField):
    """An optional time of a filter, in UTC if it has no offset."""

    default_error_messages = {"invalid": "Write a time such as 2026-11-02 04:00, or 2026-11-02T04:00Z."}  # noqa: RUF012

    def __init__(self, **named: Any) -> None:
        super().__init__(required=False, **named)


class WithReason(forms.Form):
    """A form that asks for a reason. If it is required, whitespace does not count."""

    reason = forms.CharField(
        required=False, max_length=500, error_messages={"required": "Enter a reason; it is stored in the audit trail."}
    )

    def __init__(self, *args: Any, needs_reason: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["reason"].required = needs_reason

    @property
    def lacks_only_reason(self) -> bool:
        """Whether everything except the reason is valid."""
        return set(self.errors) == {"reason"}
