"""Statements as no program should write them: read the same, or refused in one sentence; no row is lost uncounted."""

import csv
import io
import json

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.costs.azure_metrics import read_metrics
from dashboard.costs.reconciliation import take_statement
from dashboard.costs.statements import StatementError, read_export
from dashboard.models import AuditEntry
from tests.dashboard.costs.test_costs_connections import answer, point
from tests.dashboard.costs.test_costs_statements import MONTH, RESOURCE, SPELLINGS, metric
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.selection import depth

few = settings(max_examples=depth(120), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
HEAD = SPELLINGS["EA"][0].split(",")
GOOD = [billed(), billed("Standard Base Unit", "1/Hour", "24"), billed(quantity="0.25", date="10/04/2026")]
WILD = st.sampled_from(
    ["", "x", "1e9999", "-1", "NaN", "∞", '"', '""', "\n", "é", "1,5", "0" * 40, "=1+1", "\u2028", "٣"]
)


def parsed(data: bytes, reader=read_export):
    return reader(io.BytesIO(data), MONTH)


def read_or_refused(data: bytes, reader=read_export):
    """What was read; None where the file was refused, in one sentence."""
    try:
        return parsed(data, reader)
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
    wild=st.lists(st.tuples(st.integers(0, 4), st.integers(0, len(HEAD) - 1), WILD), max_size=6),
    cut=st.integers(0, 12),
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
    documents = (
        "\n".join([",".join(HEAD), *GOOD]),
        json.dumps([answer(point(total=3)), {"value": [metric("Size", 1)]}]),
    )
    whole = bytearray(data.draw(st.sampled_from(documents)).encode(data.draw(st.sampled_from(["utf-8", "utf-16"]))))
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=5)):
        whole[place] = byte
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for reader in (read_export, read_metrics):
        read_or_refused(damaged, reader)


VALUES = st.sampled_from([None, True, 5, -5, 1e300, "5", "x", [], {}, "٣", "\ud800", "a\x00b", 10**400])
POINTS = st.fixed_dictionaries(
    {"metricName": st.sampled_from(["IncomingMessages", "ActiveConnections"])},
    optional={
        "time": st.sampled_from(["2026-10-03T04:00:00Z", "2026-10-03T04:00:00", "2026-10-31T23:30:00-02:00", "", 5]),
        "total": VALUES,
        "maximum": VALUES,
        "timeGrain": st.sampled_from(["PT1M", "PT1H", "P1D", "", None, 7, "PT99M"]),
        "resourceId": st.sampled_from(
            [RESOURCE, RESOURCE.replace("Contoso", "a\x00b"), RESOURCE.replace("S1", "\ud800"), 1]
        ),
    },
)


@few
@given(points=st.lists(POINTS, min_size=1, max_size=8))
def test_each_point_of_metrics_is_taken_or_counted_with_a_reason(points):
    found = read_or_refused("\n".join(map(json.dumps, points)).encode(), read_metrics)
    if found is not None:
        assert found.rows + sum(found.skipped.values()) == len(points)
        for place in (*found.sums, *found.peaks):
            assert (place.namespace, place.scope) == ("contoso", "s1")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("a,b\n".encode("utf-16-le"), "zero bytes"),
        ("a,b\n".encode("utf-32"), "zero bytes|not UTF-8 text"),
        (b"\xff\xfea", "not UTF-8 text"),
        ("é,b\n".encode("cp1252"), "not UTF-8 text"),
        (b"PK\x03\x04" + bytes(10_000), "compressed"),  # never unpacked: no bomb goes off
        (b"\x1f\x8b" + bytes(10_000), "compressed"),
    ],
    ids=["UTF-16 without a mark", "UTF-32", "half a character", "Windows", "zip", "gzip"],
)
def test_what_is_no_text_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        parsed(data)


@pytest.mark.django_db
def test_whatever_was_read_can_be_stored() -> None:
    """Names of any length, in any script: the database takes them, and the trail has the file."""
    strange = billed("Ω" * 500, resource=RESOURCE.replace("Contoso", "n" * 400), currency="ABCDEFGHIJKLMN")
    text = "\n".join([",".join(HEAD), strange])
    statement = take_statement(MONTH, "export", "Ω" * 300, text.encode(), "operator", timezone.now())
    assert statement.days.get().meter == "Ω" * 120
    assert AuditEntry.objects.get().outcome == "done"
