"""The forms of a forecast and of a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import BoundField

from dashboard.costs.forecasts.current_month import Configured, Traffic, Used
from dashboard.costs.forecasts.forecast import Forecast, Outage, forecast
from dashboard.costs.forecasts.tariffs import Tariff
from dashboard.models.charge import SETTLEMENTS

SLIDERS = {"hours": ("0.25", "168"), "messages_per_hour": ("10", "10000000"), "message_bytes": ("100", "1000000")}
"""Fields with a slider, and its range. Values outside the range can be typed."""

MOST_DECIMALS = 12


def calculable(number: Decimal) -> None:
    """Refuse what exact arithmetic would need minutes and all of the memory for, such as 1e-9999999."""
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > MOST_DECIMALS:
        raise ValidationError(f"Write it with at most {MOST_DECIMALS} decimals, and without a larger exponent.")


class ForecastForm(forms.Form):
    """The assumptions about an outage; empty fields are filled with present figures."""

    hours = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=744, validators=[calculable], label="Duration in hours"
    )
    messages_per_hour = forms.DecimalField(
        min_value=0, max_value=10**10, validators=[calculable], label="Messages per hour"
    )
    message_bytes = forms.IntegerField(min_value=0, max_value=100 * 1024 * 1024, label="Bytes per message")
    entities = forms.IntegerField(min_value=1, max_value=100_000, label="Failed-over entities")
    pingers = forms.IntegerField(min_value=1, max_value=100_000, label="Clients that ping independently")
    ping_interval_s = forms.IntegerField(min_value=1, max_value=1_800, label="Seconds between pings")
    queues = forms.IntegerField(min_value=1, max_value=10_000, label="Backlog queues")
    syphon_hosts = forms.IntegerField(min_value=1, max_value=10_000, label="Hosts that run a syphon")
    used = forms.IntegerField(min_value=0, max_value=10**13, label="Operations used this month")
    used_secondary = forms.IntegerField(
        min_value=0, max_value=10**13, required=False, label="… in the secondary's subscription"
    )
    crossings = forms.IntegerField(min_value=0, max_value=3, label="Region crossings")
    per_gigabyte = forms.DecimalField(
        min_value=0, max_value=100, validators=[calculable], label="Price per GB across regions"
    )

    def rows(self) -> Iterator[tuple[BoundField, tuple[str, str] | None]]:
        """Each field with the range of its slider, if any; fields of a second bill only if there are two bills."""
        reported = [field for field in self if field.name != "used_secondary" or field.value() not in (None, "")]
        return ((field, SLIDERS.get(field.name)) for field in reported)

    def outage(self) -> Outage:
        """The outage that the valid fields describe."""
        given = {field.name: self.cleaned_data[field.name] for field in fields(Outage)}
        exact = {name: Fraction(value) for name, value in given.items() if isinstance(value, Decimal)}
        return Outage(**given | exact)


class BeforeFailoverForm(forms.Form):
    """The input of the forecast in the dialog of a forced failover."""

    hours = forms.DecimalField(min_value=Decimal("0.01"), max_value=744, validators=[calculable], required=False)
    entities = forms.IntegerField(min_value=1, max_value=100_000, required=False)


class BudgetForm(forms.Form):
    """A monthly budget; no amount removes it."""

    pair = forms.CharField(max_length=63, required=False, label="Of")
    amount = forms.DecimalField(min_value=0, max_value=10**9, decimal_places=2, required=False, label="Monthly budget")
    alert_percent = forms.IntegerField(min_value=1, max_value=100, required=False, initial=80, label="Alert at, %")


def forecast_of(form: ForecastForm, tariff: Tariff, rule: str) -> Forecast:
    """The outage of a valid form under the counting rule."""
    before = Used(form.cleaned_data["used"], form.cleaned_data["used_secondary"])
    return forecast(form.outage(), tariff.bills(before), settlements=rule == SETTLEMENTS)


def assumed(traffic: Traffic, known: Configured, tariff: Tariff) -> dict[str, Any]:
    """The fields filled with present figures; an unknown price of crossing bytes is shown as 0."""
    used, price = traffic.used, tariff.per_gigabyte or Fraction(0)
    return {
        "hours": 3,
        "messages_per_hour": traffic.messages_per_hour or 10_000,
        "message_bytes": traffic.message_bytes or 1_024,
        "entities": 1,
        "pingers": 1,
        "ping_interval_s": known.ping_interval_s,
        "queues": known.queues,
        "syphon_hosts": 1,
        "used": used.primary,
        "used_secondary": used.secondary,
        "crossings": tariff.crossings,
        "per_gigabyte": Decimal(price.numerator) / price.denominator,
    }
