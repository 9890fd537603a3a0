"""Compare a month with its bill or with metrics, from local files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.costs import measured_connections
from dashboard.costs.reconciliation import Against, against_bill, against_metrics, read_bounded, take_statement
from dashboard.costs.statements import StatementError
from dashboard.management.commands.compute_charges import month
from dashboard.models import Invoice, Statement
from dashboard.templatetags.costs import exact_money, money_span, rounded, rounded_signed, signed_money, span


class Command(OneSentenceCommand):
    """Stores the files as the page does, and prints the differences."""

    help = "Compare a computed month with an Azure cost export (CSV) or metrics of Azure Monitor (JSON)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--month", type=month, required=True, help="the calendar month (UTC), YYYY-MM")
        parser.add_argument("--export", type=Path, help="a cost and usage details file, of any account type")
        parser.add_argument("--metrics", type=Path, help="a response of the metrics API, or a diagnostic export")

    def handle(self, *args: Any, **options: Any) -> None:
        for source in Statement.Source:
            if path := options[source.value]:
                self._take(options["month"], source, path)
        self._tell(options["month"])

    def _take(self, its_month: str, source: Statement.Source, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = read_bounded(file)
            statement = take_statement(its_month, source, path.name, data, "command", timezone.now())
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
        except StatementError as error:
            raise CommandError(f"{path}: {error}") from None
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in statement.skipped.items())
        left_out = f"; left out: {reasons}" if reasons else ""
        self.stdout.write(f"{path.name}: {statement.rows:,} rows{left_out}")

    def _tell(self, its_month: str) -> None:
        invoice = Invoice.objects.filter(month=its_month).first()
        if invoice is None:
            raise CommandError(f"The charges of {its_month} are not computed: run compute_charges first.")
        if (against := against_bill(its_month, invoice.currency)) is not None:
            self._tell_bill(against)
        for seen in against_metrics(its_month):
            bounds = f"{rounded(seen.range.least)} to {rounded(seen.range.most)}"
            reported = f"computed {span(seen.computed)}, metrics {bounds}: {seen.finding}"
            self.stdout.write(f"{seen.namespace}, {seen.range.label.lower()}, {seen.since} to {seen.until}: {reported}")
        connections = measured_connections.compare(its_month)
        for each in connections.namespaces if connections else []:
            reported = f"computed {rounded(each.computed)}, measured {rounded(each.measured)}: {each.finding}"
            self.stdout.write(f"{each.namespace}, connections in {len(each.hours)} hours: {reported}")

    def _tell_bill(self, against: Against) -> None:
        for meter in against.meters:
            found = meter.quantity
            rest = "explained" if found.is_explained else f"unexplained {rounded_signed(found.unexplained)}"
            self.stdout.write(f"{found.label}: computed {span(found)}, billed {rounded(found.billed)}, {rest}")
        cost, (computed, billed) = against.cost, against.currencies
        rest = "explained" if cost.is_explained else f"unexplained {signed_money(cost.unexplained)}"
        self.stdout.write(
            f"{cost.label} until {against.until}: computed {money_span(cost)} {computed}, billed "
            f"{exact_money(cost.billed)} {billed}, {rest if against.is_in_one_currency else 'not compared'}"
        )
        for namespace, name, quantity, amount in against.elsewhere:
            self.stdout.write(
                f"not metered here: {namespace}, {name}: {rounded(quantity)}, {exact_money(amount)} {billed}"
            )
