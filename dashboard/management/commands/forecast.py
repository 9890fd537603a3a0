"""Forecast the cost and the backlog of an outage."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.costs.forecasts import current_month as present
from dashboard.costs.forecasts.forecast import Forecast
from dashboard.costs.forecasts.tariffs import tariff
from dashboard.costs.forms import ForecastForm, assumed, forecast_of
from dashboard.costs.prices import prices_of
from dashboard.costs.rules import rule_of
from dashboard.costs.runs.jobs import JobFailed
from dashboard.site.money import cents, money


class Command(OneSentenceCommand):
    """Needs no Spark."""

    help = "Forecast the cost of an outage, with the metered or the given traffic."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pair", default="", help="the pair whose traffic is used (default: all)")
        for name, field in ForecastForm.base_fields.items():
            parser.add_argument(f"--{name.replace('_', '-')}", help=str(field.label))

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        pair, month = options["pair"], f"{now:%Y-%m}"
        try:
            prices = prices_of(month)
            priced = tariff(pair, prices, month)
        except JobFailed as error:
            raise CommandError(str(error)) from None
        traffic = present.traffic(pair, now)
        fields = assumed(traffic, present.configured(pair), priced)
        given = {name: options[name] for name in fields if options[name] is not None}
        form = ForecastForm(fields | given)
        if not form.is_valid():
            name, errors = next(iter(form.errors.items()))
            raise CommandError(f"--{name.replace('_', '-')} is {given[name]!r}: {errors[0]}")
        rule = rule_of(month)
        made = forecast_of(form, priced, rule)
        self._tell(rule, made, prices.currency)
        self._tell_room(made, prices.currency)
        if prices.is_sample:
            self.stdout.write("Priced with the bundled sample list: set PRICES_FILE to the prices of your region.")

    def _tell(self, rule: str, made: Forecast, currency: str) -> None:
        done = made.operations
        self.stdout.write(
            f"{rule}: {done.total:,} operations, {done.extra:,} more than without the outage "
            f"({done.pings:,} pings, {done.polls:,} polls); {money(cents(made.charge))} {currency}, "
            f"{money(cents(made.extra_charge))} more; the next million at {money(cents(made.rate * 10**6))}"
        )

    def _tell_room(self, made: Forecast, currency: str) -> None:
        room = "sufficient" if made.fits else f"at least {made.queues_needed} needed"
        self.stdout.write(
            f"backlog: {made.outage.messages:,} messages, {float(made.gigabytes):.2f} GB in "
            f"{made.outage.queues} queues "
            f"of 5 GB: {room}; draining takes at least {made.drain_s:,} s; "
            f"traffic between regions costs {money(cents(made.bandwidth))} {currency}"
        )
