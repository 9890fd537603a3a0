"""Tables as files for a spreadsheet."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from django.http import HttpResponse, StreamingHttpResponse

from dashboard.site.cells import cell

CSV = "text/csv; charset=utf-8"


def csv_download(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> StreamingHttpResponse:
    """Rows as NAME.csv, streamed. No text in it is evaluated as a formula; times are ISO 8601 with offset."""
    answer = StreamingHttpResponse(csv_lines(columns, rows), content_type=CSV)
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def csv_file(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """The same at once, for few rows that are of one reading of the database."""
    answer = HttpResponse("".join(csv_lines(columns, rows)), content_type=CSV)
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a CSV file."""
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_text(value) for value in row])


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int | float) else cell(None if value is None else str(value))


class _Echo:
    """A file that hands back what is written."""

    def write(self, line: str) -> str:
        return line
