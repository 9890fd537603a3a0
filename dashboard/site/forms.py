"""Shared by the forms of several rooms."""

from typing import Any

from django import forms


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
