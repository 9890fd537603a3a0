"""Who signs in through an OpenID provider: the provider's name for a person, which never changes hands."""

from django.conf import settings
from django.db import models


class Identity(models.Model):
    """A person of one provider. Found by issuer and subject: e-mail addresses and names can be given to others."""

    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    made_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When the provider last spoke of the person.")

    class Meta:
        ordering = ("user", "issuer")
        verbose_name_plural = "identities"
        constraints = (models.UniqueConstraint(fields=("issuer", "subject"), name="one_person_of_a_provider"),)

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
