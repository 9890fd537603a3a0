"""The audit trail, tokens and identities in Django's admin."""

from django.contrib import admin

from dashboard import models
from dashboard.site.read_only import ReadOnly, register


@admin.register(models.AuditEntry)
class AuditAdmin(ReadOnly):
    list_display = ("at", "operator", "verb", "pair", "target", "outcome", "reason")
    list_filter = ("verb", "outcome", "pair")
    search_fields = ("operator", "target", "reason", "detail")
    date_hierarchy = "at"


register(
    models.ApiToken,
    ("prefix", "name", "owner", "scope", "made_at", "expires_at", "used_at", "revoked_at", "revoked_by"),
    ("scope", ("revoked_at", admin.EmptyFieldListFilter)),
    ("name", "prefix", "owner__username"),
)
register(
    models.Identity,
    ("user", "issuer", "subject", "made_at", "seen_at"),
    ("issuer",),
    ("subject", "user__username"),
)
