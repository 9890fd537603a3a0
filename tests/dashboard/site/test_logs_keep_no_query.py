"""No log of the documented command holds a query: it may be a search, or the code of a sign-in (docs/security.md)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests import migrated
from tests.dashboard.served import DATABASE, PAIRS, ROOT
from tests.ports import free_port

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


@contextmanager
def documented_command(folder: Path, **variables: str) -> Iterator[tuple[str, Path]]:
    """The command of docs/deployment.md; its address, and the file that everything it says goes to."""
    (folder / "pairs.toml").write_text(PAIRS)
    migrated.copy(folder / DATABASE)
    port, log = free_port(), folder / "log"
    environment = {
        "PATH": "/usr/bin:/bin",
        "STATE_DIR": str(folder),
        "PAIRS_FILE": str(folder / "pairs.toml"),
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "OIDC_ISSUER": "https://127.0.0.1:1/",
        "OIDC_CLIENT_ID": "control-plane",
        "OIDC_CLIENT_SECRET": "x" * 40,
        "CONTOSO_PRIMARY": "x",
        "CONTOSO_SECONDARY": "x",
        **variables,
    }
    command = (sys.executable, "-m", "uvicorn", "dashboard.asgi:application", "--host", "127.0.0.1")
    options = ("--port", str(port), "--timeout-graceful-shutdown", "3")
    with (
        log.open("wb") as file,
        subprocess.Popen((*command, *options), cwd=ROOT, env=environment, stdout=file, stderr=file) as process,
    ):
        yield f"http://127.0.0.1:{port}", log
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_word_in_any_query_is_in_no_log(tmp_path: Path, format: str) -> None:
    with (
        documented_command(tmp_path, LOG_FORMAT=format, LOG_LEVEL="DEBUG") as (address, log),
        httpx.Client(base_url=address, transport=httpx.HTTPTransport(retries=10), timeout=60) as client,
    ):
        for path in PATHS:
            client.get(path)
            client.post(path, data={"username": "somebody", "password": WORD})
        client.get("/", headers={"Host": f"elsewhere.example?{WORD}", "Referer": f"http://x/?{WORD}"})
    lines = log.read_text().splitlines()
    assert [line for line in lines if "GET /oidc/callback/ HTTP" in line or "GET /login/ HTTP" in line]
    assert [line for line in lines if WORD in line] == []
    assert "Traceback" not in log.read_text()
    if format == "json":
        assert all("event" in json.loads(line) for line in lines)


def test_a_refused_request_is_one_line_of_the_log(tmp_path: Path) -> None:
    with (
        documented_command(tmp_path, LOG_FORMAT="json") as (address, log),
        httpx.Client(base_url=address, transport=httpx.HTTPTransport(retries=10), timeout=60) as client,
    ):
        client.get("/login/")
        token = {"X-CSRFToken": client.cookies["csrftoken"]}
        many = client.post("/login/", data={f"field-{number}": "" for number in range(2000)}, headers=token)
        odd = client.post("/login/", content=b"x", headers=token | {"Content-Type": "multipart/form-data"})
    assert (many.status_code, odd.status_code) == (400, 400)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert "exception" not in {name for line in lines for name in line}
    refused = [line for line in lines if line["logger"].startswith(("django.request", "django.security."))]
    assert [line["level"] for line in refused] == ["warning", "warning"]
