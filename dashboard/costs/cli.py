"""`pairing costs`: the cost of a month, and its causes."""

from django.core.management.base import CommandError
from django.utils import timezone

from dashboard.command_line.subcommands import Answer, Options, Subcommands, add_subcommand, pair_named, table
from dashboard.costs import report as cost_report
from dashboard.costs.report import Filters, Report
from dashboard.models import Invoice
from dashboard.site.money import money
from pipeline.months import is_month


def add(commands: Subcommands) -> None:
    """Declare the subcommand."""
    costs = add_subcommand(commands, "costs", "the cost of a month, by part and by entity", run)
    costs.add_argument("month", nargs="?", metavar="YYYY-MM", help="default: the newest computed month")
    costs.add_argument("--pair", default="", help="only the charges of this pair")
    costs.add_argument("--rule", default="", choices=("published", "settlements"), help="the counting rule")


def run(options: Options) -> Answer:
    """Show the stored charges, without computing anything."""
    newest = Invoice.objects.order_by("-month").values_list("month", flat=True).first()
    month = options["month"] or newest or f"{timezone.now():%Y-%m}"
    if not is_month(month):
        raise CommandError(f"{month} is not a month: write YYYY-MM, for example 2026-10.")
    if options["pair"]:
        pair_named(options["pair"])
    found = cost_report.report(month, options["rule"], Filters(pair=options["pair"]))
    if found is None:
        raise CommandError(f"{month} has not been computed: `manage.py compute_charges --month {month}`.")
    return Answer(_document(found), _lines(found))


def _document(found: Report) -> dict[str, object]:
    return {
        "month": found.month,
        "rule": found.rule,
        "pair": found.pair or None,
        "currency": found.currency,
        "amount": money(found.total),
        "because_of_failover": money(found.because_of_failover),
        "parts": [{"name": part.name, "amount": money(part.cents)} for part in found.parts],
        "not_attributed": list(found.not_attributed.names),
        "entities": [
            {"entity": part.name, "operations": part.operations, "amount": money(part.cents)}
            for part in found.by_entity
        ],
    }


def _lines(found: Report) -> list[str]:
    head = f"{found.month}, {found.rule}: {money(found.total)} {found.currency}"
    extra = f"because of failover: {money(found.because_of_failover)} {found.currency}"
    parts = table(("part", "operations", "amount"), [(p.label, p.operations, money(p.cents)) for p in found.parts])
    missing = (
        [f"not attributed to a pair: {', '.join(found.not_attributed.names)}"] if found.not_attributed.names else []
    )
    rows = [(part.name, part.operations, money(part.cents)) for part in found.by_entity]
    return [head, extra, "", *parts, *missing, "", *table(("entity", "operations", "amount"), rows)]
