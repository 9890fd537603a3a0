"""No log of the documented command holds a query: it may be a search, or the code of a sign-in (docs/security.md)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.dashboard.site.test_behind_a_proxy import web

WORD = "marigold"
"""It is in every query, and must be in no log."""
PATHS = (
    f"/?search={WORD}",
    f"/login/?next=/pairs/contoso/?search={WORD}",
    f"/oidc/callback/?code={WORD}&state={WORD}",
    f"/pairs/contoso/events/?search={WORD}&kind={WORD}%FF",
    f"/api/v1/pairs?search={WORD}",
    f"/no/such/page?{WORD}",
    f"/metrics?{WORD}",
    f"/healthz?token={WORD}",
    f"/static/nothing.css?{WORD}",
)


SIGN_IN = {"OIDC_ISSUER": "https://127.0.0.1:1/", "OIDC_CLIENT_ID": "control-plane", "OIDC_CLIENT_SECRET": "x" * 40}


@contextmanager
def documented_command(folder: Path, **variables: str) -> Iterator[tuple[httpx.Client, Path]]:
    """A client of the documented command, and the file that everything it says goes to."""
    with web(folder, DJANGO_SETTINGS_MODULE="dashboard.settings", **SIGN_IN, **variables) as port:
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=60) as client:
            yield client, folder / "log"


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_word_in_any_query_is_in_no_log(tmp_path: Path, format: str) -> None:
    with documented_command(tmp_path, LOG_FORMAT=format, LOG_LEVEL="DEBUG") as (client, log):
        for path in PATHS:
            client.get(path)
            client.post(path, data={"username": "somebody", "password": WORD})
        client.get("/", headers={"Host": f"elsewhere.example?{WORD}", "Referer": f"http://x/?{WORD}"})
        if format == "json":
            refused_requests_are_one_line_each(client, log)
    lines = log.read_text().splitlines()
    assert [line for line in lines if "GET /oidc/callback/ HTTP" in line or "GET /login/ HTTP" in line]
    assert [line for line in lines if WORD in line] == []
    assert "Traceback" not in log.read_text()
    if format == "json":
        assert all("event" in json.loads(line) for line in lines)


def refused_requests_are_one_line_each(client: httpx.Client, log: Path) -> None:
    client.get("/login/")
    token, before = {"X-CSRFToken": client.cookies["csrftoken"]}, len(log.read_text().splitlines())
    many = client.post("/login/", data={f"field-{number}": "" for number in range(2000)}, headers=token)
    odd = client.post("/login/", content=b"x", headers=token | {"Content-Type": "multipart/form-data"})
    assert (many.status_code, odd.status_code) == (400, 400)
    said = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    lines = [line for line in said if line["level"] != "debug"]
    assert "exception" not in {name for line in lines for name in line}
    refused = [line for line in lines if line["logger"].startswith(("django.request", "django.security."))]
    assert [line["level"] for line in refused] == ["warning", "warning"]
