"""Compute a month's charges on Spark and store them."""

import signal
import sys
import threading
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from dashboard.command_line.commands import OneSentenceCommand
from dashboard.costs.files import csv_of
from dashboard.costs.runs.charges import ChargesRequest, compute_month, store_result, take_requested
from dashboard.costs.runs.jobs import JobFailed
from dashboard.models import ChargeRun
from dashboard.site.money import money
from pipeline.months import is_month


def month(text: str) -> str:
    """A month written YYYY-MM."""
    if not is_month(text):
        raise ArgumentTypeError(f"“{text}” is not a month: write it as YYYY-MM, for example 2026-10.")
    return text


GIVEN = (
    *("month", "usage", "prices", "region", "rule", "allocation", "hours_in_month"),
    *("todays_inputs", "allow_empty", "max_quarantined"),
)


class Command(OneSentenceCommand):
    """Replaces the month's charges of all billing scopes in one transaction. Needs neither Redis nor PAIRS_FILE."""

    help = (
        "Compute the charges of a month from the usage records, on Spark, and store them. "
        "For example: manage.py compute_charges --month 2026-10 --output charges.csv"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--month", type=month, help="the calendar month (UTC), YYYY-MM")
        what.add_argument("--wanted", action="store_true", help="the month requested on the page, if any")
        what.add_argument(
            "--store", type=Path, metavar="FILE", help="store the result file of a job that ran elsewhere"
        )
        parser.add_argument(
            "--usage", default="", help="folder or URL with usage/ and connections/ (default: USAGE_DIR)"
        )
        parser.add_argument("--prices", default="", help="response of the Retail Prices API (default: PRICES_FILE)")
        parser.add_argument(
            "--region", default="", help="armRegionName, if the price list has several (default: PRICES_REGION)"
        )
        parser.add_argument(
            "--rule",
            choices=("published", "settlements"),
            default="",
            help="the counting rule: whether settlements are billed (default: as in the last run of a past month, else "
            "as set for the installation)",
        )
        parser.add_argument(
            "--allocation",
            choices=("time", "pro-rata"),
            default="",
            help="allocation of the included operations: to the first operations of the month, or to all by share "
            "(default: the same)",
        )
        parser.add_argument(
            "--hours-in-month",
            type=int,
            help="divisor of the connection peaks (default: 24 × days)",
        )
        parser.add_argument(
            "--todays-inputs",
            action="store_true",
            help="compute a past month with prices, tiers, regions and rule of today, not with those of its last run",
        )
        parser.add_argument(
            "--allow-empty", action="store_true", help="store a month without usage, even if it had some before"
        )
        parser.add_argument(
            "--max-quarantined",
            metavar="SHARE",
            help="store this run although up to this share of its rows or files is unusable (default: 0.05)",
        )
        parser.add_argument("--output", type=Path, help="also write the charges to this CSV file")

    def handle(self, *args: Any, **options: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the run is marked as interrupted
        if options["wanted"]:
            self._compute_wanted()
        else:
            self._finish(self._store(options) if options["store"] else self._compute(options), options)

    def _compute_wanted(self) -> None:
        while (run := take_requested(timezone.now())) is not None:
            todays = run.details.get("todays_inputs", False)
            request = ChargesRequest(month=run.month, todays_inputs=todays)
            try:
                self._summary(compute_month(request, self._tell, run))
            except JobFailed as error:  # reported on the page that requested it; the next request is not affected
                self.stderr.write(f"{run.month}: {error}")

    def _store(self, options: dict[str, Any]) -> ChargeRun:
        if ignored := [name for name in GIVEN if options[name] and name not in ("month", "rule", "allow_empty")]:
            raise CommandError(f"--store stores a result as it is: leave out --{ignored[0].replace('_', '-')}.")
        try:
            return store_result(options["store"], options["rule"], "command", allow_empty=options["allow_empty"])
        except JobFailed as error:
            raise CommandError(str(error)) from None

    def _compute(self, options: dict[str, Any]) -> ChargeRun:
        request = ChargesRequest(**{name: options[name] for name in GIVEN}, started_by="command")
        try:
            return compute_month(request, self._tell)
        except JobFailed as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted: the charges stored before are unchanged.") from None

    def _finish(self, run: ChargeRun, options: dict[str, Any]) -> None:
        if options["output"]:
            self._write(options["output"], run)
        self._summary(run)

    def _tell(self, run: ChargeRun) -> None:
        rows = f", {run.rows:,} rows" if run.rows else ""
        self.stderr.write(f"{run.percent:3d} % {run.stage}{rows}", self.style.NOTICE)

    def _write(self, path: Path, run: ChargeRun) -> None:
        try:
            with path.open("w", newline="", encoding="utf-8") as out:
                out.writelines(csv_of(run.month))
        except OSError as error:
            raise CommandError(f"The charges are stored, but {path} cannot be written: {error.strerror}.") from None

    def _summary(self, run: ChargeRun) -> None:
        counts = run.details["counts"]
        self.stdout.write(
            f"{run.month}: {counts['read']} rows read, {counts['accepted']} billed, {counts['copies']} repeated, "
            f"{counts['quarantined']} quarantined."
        )
        for reason, count in counts["reasons"].items():
            self.stdout.write(f"  quarantined: {count} × {reason}")
        for path, reason in counts["rejected"]:
            self.stdout.write(f"  left out: {path} {reason}")
        if run.details.get("sample_prices"):
            self.stdout.write("Priced with the bundled sample list: set PRICES_FILE to the prices of your region.")
        for invoice in run.invoices.all():
            self.stdout.write(f"{invoice.scope}: {money(invoice.cents)} {invoice.currency} ({invoice.rule})")
        if not run.invoices.exists():
            self.stdout.write("No usage in this month: nothing to charge.")
