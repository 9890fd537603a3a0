"""The audit trail of operators. An entry is created before the action, completed once after it, then never changed."""

from typing import Any

from django.db import models

from dashboard.models.visibility import OfPair

NEW_END = "The hold of "
"""How the answer begins if a hold got another end."""


class AuditEntry(OfPair):
    """One action of one person. An entry without an outcome: the process ended during the action."""

    request_id = models.CharField(max_length=36, unique=True, help_text="The same request sent twice is one entry.")
    at = models.DateTimeField()
    operator = models.CharField(max_length=150)
    via = models.CharField(
        max_length=80, blank=True, help_text="Empty: the pages. Otherwise a shell, or the token's name."
    )
    verb = models.CharField(max_length=40)
    pair = models.CharField(max_length=63)
    target = models.TextField(default="*", help_text="`*`: the whole pair. Several entities are separated by `, `.")
    reason = models.TextField(blank=True)
    outcome = models.CharField(
        max_length=9,
        blank=True,
        choices=(("done", "done"), ("unchanged", "unchanged"), ("refused", "refused"), ("failed", "failed")),
    )
    detail = models.TextField(blank=True)

    class Meta:
        ordering = ("-at", "-id")
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(outcome__in=("", "done", "unchanged", "refused", "failed")),
                name="audit_outcome_is_known",
            ),
        )
        indexes = (
            models.Index(fields=("-at", "-id"), name="audit_by_time"),
            models.Index(fields=("pair", "-at"), name="audit_by_pair"),
        )

    def __str__(self) -> str:
        return f"{self.operator}: {self.verb} {self.target}"

    @property
    def what_it_set(self) -> str:
        """What lines of the action show beside its reason: the rate of a pace, the new end of a hold."""
        is_shown = self.verb == "pace_syphon" or (self.verb == "hold" and self.detail.startswith(NEW_END))
        return self.detail if is_shown and self.outcome == "done" else ""

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("An audit entry is written once.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("An audit entry is never deleted.")

    @classmethod
    def complete(cls, request_id: str, outcome: str, detail: str = "") -> bool:
        """Store the outcome of an action, once. False: it had one already."""
        return bool(cls._base_manager.filter(request_id=request_id, outcome="").update(outcome=outcome, detail=detail))
