"""Tables as files for a spreadsheet."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal

from django.http import HttpResponse, StreamingHttpResponse

CSV = "text/csv; charset=utf-8"


def csv_download(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> StreamingHttpResponse:
    """Rows as NAME.csv, streamed. No text in it is evaluated as a formula; times are ISO 8601 with offset."""
    answer = StreamingHttpResponse(csv_lines(columns, rows), content_type=CSV)
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def csv_file(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """The same at once, for few rows that are of one reading of the database."""
    return attachment(f"{name}.csv", "".join(csv_lines(columns, rows)), CSV)


def attachment(name: str, content: str | bytes, kind: str) -> HttpResponse:
    """A file that the browser stores under this name."""
    return HttpResponse(content, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a CSV file."""
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_text(value) for value in row])


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int | float | Decimal) else cell(None if value is None else str(value))


class _Echo:
    """A file that hands back what is written."""

    def write(self, line: str) -> str:
        return line


SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""Characters that start a formula, including full-width ones."""
FORMULA = re.compile(rf"^(?=[{SIGNS}\t\r\n]| +[{SIGNS}])|(?<=[;|\t\r\n])(?= *[{SIGNS}])")
"""The start of a cell, also after a separator that some locales use, quoted or not."""


def cell(value: str | None) -> str:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe."""
    return FORMULA.sub("'", value or "")
