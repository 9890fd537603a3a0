"""What belongs to people: tokens for programs, and identities at the provider."""

from datetime import datetime

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    """One token of one person. It gives at most its scope, and at most the present rights of the person."""

    class Scope(models.TextChoices):
        READ = "read", "read: everything a viewer sees"
        OPERATE = "operate", "operate: the actions of an operator"
        ADMINISTER = "administer", "administer: also discard messages and delete queues with messages"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=60, help_text="The program that uses it; recorded in the audit trail.")
    prefix = models.CharField(max_length=16, unique=True, help_text="Its first characters, for lookups.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the whole token.")
    scope = models.CharField(max_length=10, choices=Scope)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True, help_text="To the minute.")
    used_from = models.GenericIPAddressField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-made_at", "-id")
        verbose_name = "API token"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(scope__in=("read", "operate", "administer")), name="token_scope_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(revoked_at__isnull=True, revoked_by="")
                | (models.Q(revoked_at__isnull=False) & ~models.Q(revoked_by="")),
                name="somebody_revoked_it",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_usable(self, now: datetime) -> bool:
        """Whether it is valid at that moment, if its owner is allowed."""
        return self.revoked_at is None and now < self.expires_at


class Identity(models.Model):
    """A person of one provider, found by issuer and subject, because e-mail addresses and names can be reassigned."""

    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    made_at = models.DateTimeField()
    trusted_until = models.DateTimeField(help_text="Until then tokens of the person work without another sign-in.")

    class Meta:
        ordering = ("user", "issuer")
        verbose_name_plural = "identities"
        constraints = (models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_of_a_provider"),)

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
