"""Statements as no program should write them: read the same, or refused in one sentence; no row is lost uncounted."""

import csv
import io

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.costs.bill.reconciliation import import_bill
from dashboard.costs.bill.statements import StatementError, read_export
from tests.dashboard.costs.test_costs_statements import MONTH, RESOURCE, SPELLINGS
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.selection import depth

few = settings(max_examples=depth(120), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
HEAD = SPELLINGS["EA"][0].split(",")
GOOD = [billed(), billed("Standard Base Unit", "1/Hour", "24"), billed(quantity="0.25", date="10/04/2026")]
WILD = st.sampled_from(
    ["", "x", "1e9999", "-1", "NaN", "∞", '"', '""', "\n", "é", "1,5", "0" * 40, "=1+1", "\u2028", "٣"]
)


def parsed(data: bytes):
    return read_export(io.BytesIO(data), MONTH)


def read_or_refused(data: bytes):
    """What was read; None where the file was refused, in one sentence."""
    try:
        return parsed(data)
    except StatementError as error:
        said = str(error)
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 600
    return None


def sheet(rows: list[list[str]], delimiter: str, quoting: int, newline: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=newline).writerows(rows)
    return out.getvalue()


@few
@given(
    order=st.permutations(range(len(HEAD))),
    delimiter=st.sampled_from([",", ";"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    newline=st.sampled_from(["\n", "\r\n", "\n\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    spelling=st.sampled_from([str, str.upper, lambda name: name.replace("Meter", "Meter ")]),
)
def test_order_quotes_separators_and_encodings_do_not_matter(order, delimiter, quoting, newline, encoding, spelling):
    rows = [HEAD, *(row.split(",") for row in GOOD)]
    rows[0] = [spelling(name) for name in rows[0]]
    text = sheet([[row[place] for place in order] for row in rows], delimiter, quoting, newline)
    assert parsed(text.encode(encoding)) == parsed("\n".join([",".join(HEAD), *GOOD]).encode())


@few
@given(
    wild=st.lists(st.tuples(st.integers(0, 4), st.integers(0, len(HEAD) - 1), WILD), max_size=6), cut=st.integers(0, 12)
)
def test_each_row_of_a_bill_is_added_up_or_counted_with_a_reason(wild, cut):
    rows = [row.split(",") for row in [*GOOD, *GOOD]]
    for number, column, value in wild:
        rows[number][column] = value
    rows[5] = rows[5][:cut]
    reported = sum(1 for row in rows if row)
    found = read_or_refused(sheet([HEAD, *rows], ",", csv.QUOTE_MINIMAL, "\n").encode())
    if found is not None:
        assert found.rows + sum(found.skipped.values()) == reported


@few
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_sentence(data):
    document = "\n".join([",".join(HEAD), *GOOD])
    whole = bytearray(document.encode(data.draw(st.sampled_from(["utf-8", "utf-16"]))))
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=5)):
        whole[place] = byte
    read_or_refused(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


@pytest.mark.django_db
def test_whatever_was_read_can_be_stored():
    """Names of any length, in any script: the database takes them."""
    strange = billed("Ω" * 500, resource=RESOURCE.replace("Contoso", "n" * 400), currency="ABCDEFGHIJKLMN")
    text = "\n".join([",".join(HEAD), strange])
    statement = import_bill(MONTH, "Ω" * 300, text.encode(), "operator", timezone.now())
    assert statement.days.get().meter == "Ω" * 120
