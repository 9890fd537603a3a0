"""Compare a month with its bill, from a local file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.command_line.errors import OneSentenceCommand
from dashboard.costs.actions import RECONCILE_EXPORT, by_command, described
from dashboard.costs.bill.reconciliation import Against, against_bill, import_bill, read_bounded
from dashboard.costs.bill.statements import StatementError
from dashboard.management.commands.compute_charges import month
from dashboard.templatetags.costs import exact_money, money_span, rounded, rounded_signed, signed_money, span


class Command(OneSentenceCommand):
    """Stores the file as the page does, and prints the differences."""

    help = "Compare a computed month with an Azure cost export (CSV)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--month", type=month, required=True, help="the calendar month (UTC), YYYY-MM")
        parser.add_argument("--export", type=Path, help="a cost and usage details file, of any account type")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["export"]:
            self._take(options["month"], options["export"])
        if (against := against_bill(options["month"])) is None:
            raise CommandError(f"{options['month']} has no bill or no charges: give --export, or run compute_charges.")
        self._tell_bill(against)

    def _take(self, its_month: str, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = read_bounded(file)
            statement = import_bill(its_month, path.name, data, "command", timezone.now())
            RECONCILE_EXPORT.record(by_command(its_month), described(statement))
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
        except StatementError as error:
            raise CommandError(f"{path}: {error}") from None
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in statement.skipped.items())
        left_out = f"; left out: {reasons}" if reasons else ""
        self.stdout.write(f"{path.name}: {statement.rows:,} rows{left_out}")

    def _tell_bill(self, against: Against) -> None:
        days = f"{against.explained_days} of {len(against.days)} days"
        self.stdout.write(f"The bill follows the rule {against.rule}: {days} are explained.")
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
