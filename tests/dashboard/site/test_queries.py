"""What of an address cannot be read is reported on the page, never ignored."""

import pytest

from tests.dashboard.markup import one_line

UNREADABLE = {
    "/events/?since=yesterday": "From (UTC) “yesterday” cannot be read",
    "/events/?until=2026-13-01": "Before (UTC) “2026-13-01” cannot be read",
    "/events/?kind=exploded": "Kind “exploded” cannot be read",
    "/events/?page=99": "Page “99” cannot be read and is not used. The last one is shown.",
    "/events/?page=two": "Page “two” cannot be read and is not used. The first one is shown.",
    "/audit/?since=soon": "From (UTC) “soon” cannot be read",
    "/audit/?verb=explode": "Action “explode” cannot be read",
    "/audit/?page=0": "Page “0” cannot be read",
    "/incidents/?month=2026-13": "Month (UTC) “2026-13” cannot be read",
    "/incidents/?state=half-open": "State “half-open” cannot be read",
    "/?state=exploded": "State “exploded” cannot be read",
    "/pairs/contoso/?span=9y": "Range of the chart “9y” cannot be read",
    "/pairs/contoso/entities/orders/?span=9y": "Range of the chart “9y” cannot be read",
    "/alerts/?severity=awful": "Severity “awful” cannot be read",
    "/alerts/deliveries/?state=lost": "State “lost” cannot be read",
    "/readiness/?state=splendid": "Score “splendid” cannot be read",
    "/backlog/contoso/messages/?older_min=long": "Older than, minutes “long” cannot be read",
}


TIMES = ("2026-11-02T03:00:00%2B01:00", "2026-11-02T04:00Z", "2026-11-02 04:00", "2026-11-02T04:00", "2026-11-02")


def test_pages_report_what_they_could_not_read_and_show_the_rest(pair, redis_here, as_role):
    viewer = as_role("viewer")
    for address, sentence in UNREADABLE.items():
        answer = viewer.get(address)
        assert (address, answer.status_code, sentence in one_line(answer.text)) == (address, 200, True)
    for since in TIMES:
        assert "cannot be read" not in viewer.get(f"/events/?since={since}").text, since


def test_a_filter_shows_the_pair_that_is_in_use_even_if_there_is_none_of_that_name(pair, redis_here, as_role):
    viewer = as_role("viewer")
    for page in ("events", "incidents", "readiness", "audit", "alerts"):
        bar = one_line(viewer.get(f"/{page}/?pair=gone").text).partition('name="pair"')[2].partition("</select>")[0]

        assert '<option value="gone" selected>gone</option>' in bar, page
        assert '<option value="contoso" >contoso</option>' in bar, page


def test_a_long_or_hostile_value_is_shown_cut_and_as_text(pair, as_role):
    page = as_role("viewer").get("/events/", {"since": "<script>" + "x" * 500}).text

    assert "<script>x" not in page
    assert "x" * 100 not in page.split("<main", 1)[1].split("<form", 1)[0]


@pytest.mark.parametrize("address", ["/events.csv?since=yesterday", "/audit.csv?until=never"])
def test_a_file_that_would_not_be_what_was_asked_for_is_refused(pair, as_role, address):
    answer = as_role("viewer").get(address)

    assert answer.status_code == 400
    assert "cannot be read" in answer.text


PARTS = {
    "/costs/run/?month=2026-10": "/costs/?month=2026-10",
    "/costs/failover/?pair=contoso": "/costs/forecast/?pair=contoso",
    "/backlog/contoso/jobs/?queue=a%2F0": "/backlog/contoso/messages/?queue=a%2F0",
    "/backlog/contoso/jobs/": "/backlog/contoso/messages/",
}


@pytest.mark.parametrize("part", PARTS)
def test_the_address_of_a_part_leads_to_its_page_and_answers_htmx_with_the_part(pair, redis_here, as_role, part):
    viewer = as_role("viewer")

    opened, swapped = viewer.get(part), viewer.get(part, headers={"HX-Request": "true"})

    assert (opened.status_code, opened.get("Location")) == (302, PARTS[part])
    assert swapped.status_code == 200
    assert "<html" not in swapped.text
