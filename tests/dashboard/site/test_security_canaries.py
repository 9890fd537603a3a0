"""Secrets are nowhere but where they belong: a control plane full of canaries is made to fail, and searched."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
import redis

from tests import forked, migrated
from tests.conftest import start_redis
from tests.dashboard.access.test_browser_roles import addresses
from tests.dashboard.served import DATABASE, PASSWORD, ROOT, SEED, SYNC
from tests.ports import free_port

CHANNELS = """
[channels.on-call]
kind = "webhook"
url_env = "ONCALL_URL"
secrets_env = "ONCALL_SECRETS"

[channels.team]
kind = "slack"
url_env = "TEAM_URL"

[channels.night]
kind = "email"
to = ["night@example.com"]
from = "us@example.com"
"""
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", region = "westeurope" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr", region = "northeurope" }
entities = ["orders", "payments"]
"""
NAMESPACE = "Endpoint=sb://127.0.0.1:{};SharedAccessKeyName=K;SharedAccessKey={};UseDevelopmentEmulator=true;"
QUEUE = "contoso/x-servicebus-transfer/0"
MORE_SEED = f"""
from dashboard.models import BacklogQueue, Pair
pair = Pair.objects.get()
BacklogQueue.objects.create(pair=pair, path="{QUEUE}", index=0, seen_at=timezone.now(), dead_lettered=1)
"""
COMMANDS = (
    ("pairing", "entities", "--json"),
    ("pairing", "fail-over", "contoso", "orders", "--reason", "x", "--user", "operator"),
    ("pairing", "messages", "contoso", QUEUE, "--show", "dead"),
)
MAKE_TOKEN = ("pairing", "make-token", "search", "--user", "administrator", "--scope", "administer")
AT_ONCE = 6  # requests: most of their time they wait for namespaces that do not answer
pytestmark = pytest.mark.timeout(900)  # many processes, each started anew


def canary(name: str) -> str:
    return f"canary-{name}-of-gold-7f3a9c21d04b"


@dataclass
class Aviary:
    """The environment with its canaries, and everything that was said."""

    environment: dict[str, str]
    secrets: list[str]
    folder: Path
    redis_url: str
    token: str = ""
    said: dict[str, str] = field(default_factory=dict)

    def hear(self, where: str, text: str) -> None:
        self.said[where] = self.said.get(where, "") + text


def secrets_of(folder: Path, redis_port: int) -> tuple[dict[str, str], list[str]]:
    """The environment, and each canary in it."""
    (folder / "client-secret").write_text(canary("provider"))
    hidden = {
        "CONTOSO_PRIMARY": NAMESPACE.format(1, canary("primary")),
        "CONTOSO_SECONDARY": NAMESPACE.format(2, canary("secondary")),
        "REDIS_URL": f"redis://:{canary('redis')}@127.0.0.1:{redis_port}/0",
        "SECRET_KEY": canary("signing") + "-and-some-more-characters",
        "METRICS_TOKEN": canary("metrics"),
        "OIDC_CLIENT_SECRET_FILE": str(folder / "client-secret"),
        "EMAIL_URL": f"smtp://us:{canary('mail')}@127.0.0.1:1",
        "ONCALL_URL": f"https://127.0.0.1:1/{canary('hook')}",
        "ONCALL_SECRETS": canary("hook-signing"),
        "TEAM_URL": f"https://127.0.0.1:1/services/{canary('chat')}",
    }
    names = "primary secondary redis signing metrics provider mail hook hook-signing chat database"
    return hidden, [canary(name) for name in names.split()]


@pytest.fixture(scope="module")
def aviary(tmp_path_factory) -> Iterator[Aviary]:
    folder = tmp_path_factory.mktemp("aviary")
    (folder / "pairs.toml").write_text(PAIRS)
    (folder / "channels.toml").write_text(CHANNELS)
    port = free_port()
    server = start_redis(folder, port)
    with redis.Redis(port=port) as client:
        client.config_set("requirepass", canary("redis"))
    hidden, secrets = secrets_of(folder, port)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **hidden,
        "STATE_DIR": str(folder / "state"),
        "PAIRS_FILE": str(folder / "pairs.toml"),
        "CHANNELS_FILE": str(folder / "channels.toml"),
        "LOG_LEVEL": "DEBUG",
        "OIDC_ISSUER": "http://127.0.0.1:1/o",
        "OIDC_CLIENT_ID": "control-plane",
    }
    yield Aviary(environment, secrets, folder, environment["REDIS_URL"])
    server.terminate()
    server.wait(60)


@contextmanager
def running(aviary: Aviary, name: str, *command: str, **changed: str) -> Iterator[None]:
    """A process whose output is heard when it has ended."""
    log = aviary.folder / f"{name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=aviary.environment | changed, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
    aviary.hear(f"the log of {name}", log.read_text(errors="replace"))


def manage(aviary: Aviary, *words: str, **changed: str) -> str:
    ran = forked.run(("manage.py", *words), aviary.environment | changed)
    aviary.hear(f"manage.py {' '.join(words[:2])}", ran.stdout + ran.stderr)
    return ran.stdout


def command_lines() -> str:
    """What every process of this machine was started with, as `ps` shows it to everybody."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def signed_in(client: httpx.Client, name: str) -> None:
    token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', client.get("/login/").text)
    assert token
    sent = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
    assert client.post("/login/", data=sent).status_code == 302


def walk(aviary: Aviary, client: httpx.Client) -> None:
    """Every page and action, as an administrator; then the API by its document."""
    signed_in(client, "administrator")
    every = [*addresses().values(), "/login/", "/healthz", "/readyz", "/metrics"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for address, reported in zip(every, pool.map(partial(visited, client), every), strict=True):
            for what, answer in zip(("page", "answer of"), reported, strict=True):
                aviary.hear(f"the {what} {address}", str(answer.headers) + answer.text)
    unknown, callback = "/pairs/contoso/actions/fail_over/?path=nothing", "/oidc/callback/?code=x&state=y"
    for address in ("/admin/", "/admin/auth/user/", "/nothing", unknown, callback):
        aviary.hear(f"the page {address}", client.get(address, follow_redirects=True).text)
    shown = {"Authorization": f"Bearer {aviary.token}"}
    document = client.get("/api/v1/openapi.json").json()
    asked = [(method, path) for path, operations in document["paths"].items() for method in operations]

    def answered(question: tuple[str, str]) -> httpx.Response:
        method, path = question
        address = path.replace("{pair}", "contoso").replace("{event_id}", "a" * 32)
        about = {"queue": QUEUE} if re.search(r"queue$|drain$|letters$|back$", path) else {"paths": ["orders"]}
        body = {**about, "reason": "x"}
        return client.request(method, address, json=body if method == "post" else None, headers=shown)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (_, path), answer in zip(asked, pool.map(answered, asked), strict=True):
            aviary.hear(f"the API's {path}", str(answer.headers) + answer.text)


def visited(client: httpx.Client, address: str) -> tuple[httpx.Response, httpx.Response]:
    """The page, and what its form is answered."""
    queue = {"path": "orders", "queue": QUEUE, "reason": "x", "verb": "resubmit"}
    page = client.get(address, params={"path": "orders"}, follow_redirects=True)
    token = client.cookies.get("csrftoken") or ""
    return page, client.post(address, data=queue, headers={"X-CSRFToken": token})


@pytest.fixture(scope="module")
def searched(aviary) -> Aviary:
    """Everything has been asked, everything has failed, and all of it was heard."""
    python = sys.executable
    migrated.copy(aviary.folder / "state" / DATABASE)
    manage(aviary, "shell", "-v0", "-c", f"{SYNC}\n{SEED}{MORE_SEED}")
    aviary.token = manage(aviary, *MAKE_TOKEN).partition("token: ")[2].split()[0]
    ports = free_port(), free_port()
    uvicorn = (python, "-m", "uvicorn", "dashboard.asgi:application", "--timeout-graceful-shutdown", "2", "--port")
    celery = (python, "-m", "celery", "-A", "workers", "worker", "-B", "-s", str(aviary.folder / "beat"))
    with ExitStack() as stack:
        stack.enter_context(running(aviary, "web", *uvicorn, str(ports[0])))
        stack.enter_context(running(aviary, "worker", *celery))
        nowhere = f"postgres://us:{canary('database')}@127.0.0.1:1/control"
        stack.enter_context(running(aviary, "web without a database", *uvicorn, str(ports[1]), DATABASE_URL=nowhere))
        # The server may close an idle connection in the moment in which it is used again.
        transports = [httpx.HTTPTransport(retries=10, limits=httpx.Limits(max_keepalive_connections=0)) for _ in ports]
        clients = [
            stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, transport=transport))
            for port, transport in zip(ports, transports, strict=True)
        ]
        walk(aviary, clients[0])
        for address in ("/readyz", "/metrics", "/login/", "/api/v1/health", "/"):
            answer = clients[1].get(address, headers={"Authorization": "Bearer pns_0000000000_" + "x" * 43})
            aviary.hear(f"{address} without a database", answer.text)
        for words in COMMANDS:
            manage(aviary, *words)
        manage(aviary, "migrate", DATABASE_URL=nowhere)
        aviary.hear("the command lines", command_lines())
    with redis.Redis.from_url(aviary.redis_url, decode_responses=True) as client:
        aviary.hear("Redis", " ".join(_kept(client)))
    return aviary


def _kept(client: redis.Redis) -> Iterator[str]:
    readers = {"string": client.get, "hash": client.hgetall, "stream": client.xrange, "set": client.smembers}
    for key in client.scan_iter():
        kind = client.type(key)
        value = client.lrange(key, 0, -1) if kind == "list" else readers.get(kind, lambda _: "")(key)
        yield f"{key} {json.dumps(value, default=str)}"


def test_the_search_itself_finds_what_is_there(searched):
    """What is searched is not empty, and the canaries were where they belong."""
    assert len(searched.said) > 60
    assert "uvicorn" in searched.said["the command lines"]
    assert "contoso" in searched.said["the page /"]
    assert "paired_" in searched.said["the page /metrics"]
    assert len(searched.said["the log of worker"]) > 1000
    assert "Traceback" in searched.said["the log of web without a database"]
    assert "pairing:" in searched.said["Redis"] or "_kombu" in searched.said["Redis"]
    assert all(any(secret in value for value in searched.environment.values()) for secret in searched.secrets[:5])


def test_no_secret_is_revealed_by_anything(searched):
    found = {(secret, where) for where, text in searched.said.items() for secret in searched.secrets if secret in text}

    assert not found


def test_no_token_of_a_program_is_kept_or_revealed(searched):
    assert re.fullmatch(r"pns_[0-9a-f]{10}_\S{43}", searched.token)  # of 256 bits
    reported = {where for where, said in searched.said.items() if searched.token in said}

    assert reported == {"manage.py pairing make-token"}
    kept = b"".join(file.read_bytes() for file in (searched.folder / "state").glob("*.sqlite3*"))
    assert searched.token.encode() not in kept
    assert searched.token[4:14].encode() in kept
