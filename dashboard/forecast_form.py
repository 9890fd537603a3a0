"""The fields of a forecast, and of a budget."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms

from dashboard.forecast import Outage
from dashboard.present import Traffic


class ForecastForm(forms.Form):
    """What is assumed about an outage; what is left empty is taken from the present."""

    hours = forms.DecimalField(min_value=Decimal("0.01"), max_value=744, label="Hours it lasts")
    messages_per_hour = forms.IntegerField(min_value=0, max_value=10**10, label="Messages an hour")
    message_bytes = forms.IntegerField(min_value=0, max_value=100 * 1024 * 1024, label="Bytes a message")
    entities = forms.IntegerField(min_value=1, max_value=100_000, label="Entities that fail over")
    ping_interval_s = forms.IntegerField(min_value=1, max_value=1_800, label="Seconds between pings")
    queues = forms.IntegerField(min_value=1, max_value=10_000, label="Backlog queues")
    syphon_hosts = forms.IntegerField(min_value=1, max_value=10_000, label="Hosts with a syphon")
    used = forms.IntegerField(min_value=0, max_value=10**13, label="Operations used this month")
    crossings = forms.IntegerField(min_value=0, max_value=3, label="Crossings of regions")
    per_gigabyte = forms.DecimalField(min_value=0, max_value=100, label="Price of a GB that crosses")

    def outage(self, pingers: int = 1) -> Outage:
        """The outage the (valid) fields describe."""
        given = self.cleaned_data
        return Outage(
            hours=Fraction(given["hours"]),
            messages_per_hour=Fraction(given["messages_per_hour"]),
            message_bytes=given["message_bytes"],
            entities=given["entities"],
            pingers=pingers,
            ping_interval_s=given["ping_interval_s"],
            queues=given["queues"],
            syphon_hosts=given["syphon_hosts"],
            used=given["used"],
            crossings=given["crossings"],
            per_gigabyte=Fraction(given["per_gigabyte"]),
        )


class BeforeFailoverForm(forms.Form):
    """What the dialog of a forced failover asks the forecast."""

    hours = forms.DecimalField(min_value=Decimal("0.01"), max_value=744, required=False)
    entities = forms.IntegerField(min_value=1, max_value=100_000, required=False)


class BudgetForm(forms.Form):
    """What a month may cost. No amount: no budget."""

    pair = forms.CharField(max_length=63, required=False)
    amount = forms.DecimalField(min_value=0, max_value=10**9, decimal_places=2, required=False)
    alert_percent = forms.IntegerField(min_value=1, max_value=100, required=False)


def assumed(traffic: Traffic, queues: int) -> dict[str, Any]:
    """The fields as the present has them."""
    return {
        "hours": 3,
        "messages_per_hour": traffic.messages_per_hour or 10_000,
        "message_bytes": traffic.message_bytes or 1_024,
        "entities": 1,
        "ping_interval_s": 60,
        "queues": queues,
        "syphon_hosts": 1,
        "used": traffic.used,
        "crossings": 1,
        "per_gigabyte": Decimal("0.02"),
    }
