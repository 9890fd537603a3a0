"""Requests have ids; log lines carry them, as text or as JSON; neither queries nor bodies are in them."""

import io
import json
import logging
import sys

import pytest
import structlog
from django.test import Client

from dashboard.middleware import request_id
from dashboard.site.processes import FORMATS, formatter
from tests.dashboard.conftest import PASSWORD


@pytest.fixture
def lines():
    """What the control plane's loggers write, as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter("json"))
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel("INFO")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)
    formatter()


def test_an_answer_shows_the_id_of_its_request(db, client):
    first, second = (client.get("/healthz")["X-Request-ID"] for _ in range(2))
    assert first != second
    assert client.get("/healthz", headers={"X-Request-ID": "proxy-1.a_b"})["X-Request-ID"] == "proxy-1.a_b"


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\nb", "<script>", "é"])
def test_an_id_that_is_none_is_not_taken_over(given):
    assert request_id(given) != given
    assert len(request_id(given)) == 32


def test_what_changes_something_and_no_look_is_a_line_without_query_and_body(people, client, lines):
    client.get("/healthz")
    answer = Client().post("/login/?next=/SECRET-QUERY/", {"username": "operator", "password": PASSWORD})
    (line,) = [one for one in lines() if one["event"] == "request"]

    assert line["request_id"] == answer["X-Request-ID"]
    assert (line["method"], line["path"], line["status"], line["user"]) == ("POST", "/login/", 302, "operator")
    assert PASSWORD not in json.dumps(lines())
    assert "SECRET-QUERY" not in json.dumps(lines())


def test_what_other_libraries_say_about_a_request_carries_its_id(db, client, lines):
    answer = client.get("/no-such-page/", headers={"X-Request-ID": "abc"})
    logging.getLogger("django.request").warning("outside of any request")

    assert answer.status_code in (302, 404)
    with structlog.contextvars.bound_contextvars(request_id="inside"):
        logging.getLogger("somebody.else").warning("said within")
    said = {line["event"]: line.get("request_id") for line in lines()}
    assert said["said within"] == "inside"
    assert said["outside of any request"] is None


@pytest.mark.parametrize("format", FORMATS)
def test_each_record_is_one_line_in_either_format(format):
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        record = logging.LogRecord("theirs", logging.ERROR, "", 0, "broken by con\ntoso", (), sys.exc_info())
    with structlog.contextvars.bound_contextvars(task_id="42"):
        (line,) = formatter(format).format(record).splitlines()

    assert "ZeroDivisionError" in line
    if format == "json":
        assert list(json.loads(line))[:4] == ["timestamp", "level", "logger", "event"]
        assert (json.loads(line)["event"], json.loads(line)["task_id"]) == ("broken by con\ntoso", "42")
    else:
        assert ("event='broken by con" in line, "task_id='42'" in line) == (True, True)
