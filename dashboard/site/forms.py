"""What the forms of several rooms share."""

from typing import Any

from django import forms


class WithReason(forms.Form):
    """A form that asks why. Where it must be said, blanks say nothing."""

    reason = forms.CharField(
        required=False, max_length=500, error_messages={"required": "Say why; it is kept in the audit trail."}
    )

    def __init__(self, *args: Any, needs_reason: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.fields["reason"].required = needs_reason

    @property
    def lacks_only_reason(self) -> bool:
        """Whether everything else is as it should be."""
        return set(self.errors) == {"reason"}
