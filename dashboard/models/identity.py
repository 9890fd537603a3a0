"""People who sign in through an OpenID provider, by the provider's permanent identifier."""

from django.conf import settings
from django.db import models


class Identity(models.Model):
    """A person of one provider, found by issuer and subject, because e-mail addresses and names can be reassigned."""

    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    made_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When the person last signed in through the provider.")

    class Meta:
        ordering = ("user", "issuer")
        verbose_name_plural = "identities"
        constraints = (models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_of_a_provider"),)

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
