"""Pauses and paces of syphons in Django's admin."""

from django.contrib import admin

from dashboard import models
from dashboard.site.read_only import ReadOnly, register


@admin.register(models.SyphonPause)
class PauseAdmin(ReadOnly):
    list_display = ("pair", "queue", "by", "at", "reason")
    list_filter = ("pair",)


register(models.SyphonPace, ("pair", "target", "rate", "by", "at", "reason"), ("pair",))
