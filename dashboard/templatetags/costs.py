"""Template tags of the cost pages: money, kinds and bars."""

from decimal import Decimal
from fractions import Fraction
from urllib.parse import quote

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.costs.bill.reconciliation import Range
from dashboard.costs.reporting.report import LABELS
from dashboard.fleet.state.event_lines import plain_cause
from dashboard.site.money import cents, small_money, unrounded
from dashboard.site.money import money as as_money

register = template.Library()


@register.filter
def money(cents: int | None) -> str:
    """12.34; an em dash where it is not known."""
    return "—" if cents is None else as_money(cents)


@register.filter
def kind_label(kind: str) -> str:
    """The label of a kind of operation."""
    return LABELS.get(kind, kind)


@register.filter
def plain_decimal(text: str) -> str:
    """A decimal text without trailing zeros: 744.000 → 744."""
    return f"{Decimal(text).normalize():,f}"


@register.simple_tag
def bar(width: int, tone: str = "total") -> SafeString:
    """A bar with this percentage as its width; the number beside it is the text alternative."""
    return format_html(
        '<svg class="costbar {}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{}" height="8"/></svg>',
        tone,
        max(0, min(100, width)),
    )


@register.filter
def per_million(rate: Fraction) -> str:
    """The price of a million operations."""
    return small_money(rate * 1_000_000)


@register.filter
def gigabytes(size: Fraction) -> str:
    """71.68, or <0.01 for less."""
    return "<0.01" if 0 < size < Fraction(1, 100) else f"{float(size):,.2f}"


@register.simple_tag(takes_context=True)
def look_into(context: Context, field: str, value: str, pair: str = "") -> str:
    """The address of this page with one filter set, or removed by an empty value; `pair`: and with this pair.

    What is chosen is shown by its rows, a pair by its summary.
    """
    kept = {name: given for name, given in context["request"].GET.items() if name not in ("page", "q")}
    tab = {"tab": "" if field == "pair" else "rows"} if value else {}
    query = kept | tab | {"month": context["month"], field: value}
    query["pair"] = pair or query.get("pair", "")
    return "?" + "&".join(f"{quote(name)}={quote(str(given), safe='')}" for name, given in query.items() if given)


@register.filter
def signed(cents_more: int) -> str:
    """+0.91 or −0.91"""
    return f"{'+' if cents_more >= 0 else '−'}{as_money(abs(cents_more))}"


@register.filter
def plain_or_reported(reason: str) -> str:
    """The plain cause of a failure, where there is room for one: without it the reported reason."""
    return plain_cause(reason) or reason


register.filter(small_money)
register.filter(unrounded)


@register.filter
def signed_money(amount: Fraction) -> str:
    """+0.91 or −0.91; 0.00 without a sign."""
    return signed(cents(amount)) if cents(amount) else "0.00"


@register.filter
def hours(duration: Fraction) -> str:
    """1 hour, 2.5 hours."""
    return f"{float(duration):g} hour{'' if duration == 1 else 's'}"


@register.filter
def hours_plain(duration: Fraction) -> str:
    """The same as a plain number, for an address."""
    return f"{float(duration):g}"


@register.filter
def rounded(amount: Fraction) -> str:
    """A quantity without decimals if it is large, with two if it is small."""
    if abs(amount) >= 100 or amount.denominator == 1:
        return f"{round(amount):,}"
    return f"{float(amount):,.2f}"


@register.filter
def rounded_signed(amount: Fraction) -> str:
    """The same with its sign; 0 has none."""
    sign = "+" if amount > 0 else "−" if amount < 0 else ""
    return f"{sign}{rounded(abs(amount))}"


@register.filter
def span(found: Range) -> str:
    """A computed range: one number, or the least and the most."""
    least, most = rounded(found.least), rounded(found.most)
    return least if least == most else f"{least}–{most}"


@register.filter
def money_span(found: Range) -> str:
    """The same for money."""
    least, most = small_money(found.least), small_money(found.most)
    return least if least == most else f"{least}–{most}"
