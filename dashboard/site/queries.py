"""What the query of an address asks for. What of it cannot be read is reported by the page, never silently ignored.

Somebody who filters for an hour and sees the whole year may take it for the hour.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from django import forms
from django.core.exceptions import BadRequest
from django.core.paginator import EmptyPage, Page, PageNotAnInteger, Paginator
from django.http import HttpRequest

from pipeline.months import is_month

LONGEST_SHOWN = 60
_ATTRIBUTE = "unread_values"
Form = TypeVar("Form", bound=forms.Form)
Value = TypeVar("Value")


def unread(request: HttpRequest) -> list[str]:
    """The sentences about values that could not be read, for the head of the page."""
    found: list[str] = getattr(request, _ATTRIBUTE, [])
    return found


def read(request: HttpRequest, form: type[Form], **options: Any) -> Form:
    """The validated form of a page's filters. A value that cannot be read filters nothing, and is reported."""
    filled = form(request.GET, **options)
    filled.is_valid()
    for name, errors in filled.errors.items():
        field = filled[name] if name in filled.fields else None
        report(request, str(field.label if field else "Filter"), request.GET.get(name, ""), str(errors[0]))
    return filled


def choice_of(request: HttpRequest, name: str, known: Mapping[str, Value], label: str) -> Value:
    """The chosen value; that of the empty choice if there is none, which is reported unless nothing was chosen."""
    given = request.GET.get(name, "")
    if given not in known:
        report(request, label, given, f"It is one of {', '.join(one for one in known if one)}.")
    return known.get(given, known[""])


def month_of(request: HttpRequest, otherwise: str) -> str:
    """The chosen month; this one if there is none, or if it cannot be read, which is reported."""
    given = request.GET.get("month") or otherwise
    if not is_month(given):
        report(request, "Month", given, "Write it as YYYY-MM, for example 2026-10.")
    return given if is_month(given) else otherwise


def page_of(request: HttpRequest, rows: Any, size: int) -> Page[Any]:
    """The page of a list that the address asks for; the nearest one if there is none, which is reported."""
    pages, given = Paginator(rows, size), request.GET.get("page") or "1"
    try:
        return pages.page(given)
    except PageNotAnInteger:
        report(request, "Page", given, "The first one is shown.")
        return pages.page(1)
    except EmptyPage:
        report(request, "Page", given, "The last one is shown.")
        return pages.page(pages.num_pages)


def require_readable(request: HttpRequest) -> None:
    """Raise BadRequest if something could not be read: a file cannot say that it is not what was asked for."""
    if sentences := unread(request):
        raise BadRequest(" ".join(sentences))


def report(request: HttpRequest, label: str, given: str, why: str) -> None:
    """Have the page say that a value was not used."""
    shown = given if len(given) <= LONGEST_SHOWN else f"{given[:LONGEST_SHOWN]}…"
    setattr(request, _ATTRIBUTE, [*unread(request), f"{label} “{shown}” cannot be read and is not used. {why}"])
