"""The units in deploy/systemd: verified by systemd's own tool, held to the product, and started as plain processes."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import redis

from tests.deployment import product, systemd
from tests.deployment.systemd import FOLDER, Host, Values
from tests.ports import free_port
from tests.postgres import cluster, programs

GATEWAY = FOLDER / "paired-namespaces-gateway@.service"  # test_gateway_files.py starts it
UNITS = sorted(set(FOLDER.glob("*.service")) - {GATEWAY})
SERVICES = [unit for unit in UNITS if "migrate" not in unit.name]
OLDEST = 250
"""The first systemd with credentials in a folder named by %d, and the one that its tool checks units for offline."""
PATIENCE_S = 300
OWN_OPTIONS = {"WEB_OPTIONS", "WORKER_OPTIONS"}
"""Variables that the units read themselves: they become arguments."""
COMPILES = "paired-namespaces-worker@.service"
"""The unit whose processes include a Java, and so cannot have MemoryDenyWriteExecute."""


def name_of(unit: Path) -> str:
    return unit.name


def analyze() -> str | None:
    """systemd's tool, if it is new enough for the units."""
    found = shutil.which("systemd-analyze")
    if found is None:
        return None
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return found if int((re.findall(r"^systemd (\d+)", version) or ["0"])[0]) >= OLDEST else None


ANALYZE = analyze()


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze of systemd 250 or later: units not verified")
def test_systemd_finds_no_fault_in_the_units_and_little_exposure(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    for unit in [*UNITS, GATEWAY, *FOLDER.glob("*.target")]:
        text = re.sub(r"/opt/paired-namespaces/bin/[\w-]+", str(program), unit.read_text(encoding="utf-8"))
        (tmp_path / unit.name.replace("@.", "@1.")).write_text(text, encoding="utf-8")
    shutil.copytree(systemd.SECRETS.parent, tmp_path / systemd.SECRETS.parent.name)
    units = sorted(tmp_path.glob("*.service"))

    verified = analyzed("verify", "--recursive-errors=no", *units, *tmp_path.glob("*.target"))
    assert verified.returncode == 0, verified.stderr
    ours = [line for line in verified.stderr.splitlines() if str(tmp_path) in line or "paired-namespaces" in line]
    assert not ours
    for unit in units:
        exposed = analyzed("security", "--offline=true", "--threshold=20", "--no-pager", unit)  # of 100
        assert exposed.returncode == 0, exposed.stdout


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE
    return subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_runs_commands_of_the_package(unit: Path) -> None:
    commands = [line.split() for line in systemd.read(unit)["ExecStart"]]
    assert commands
    for program, command, *_ in commands:
        assert Path(program).name in product.programs()
        assert command in product.subcommands()


@pytest.mark.parametrize("file", [*UNITS, systemd.SECRETS, systemd.EXAMPLE], ids=name_of)
def test_variables_are_settings_and_no_secret_is_among_them(file: Path) -> None:
    if file == systemd.EXAMPLE:
        names = set(re.findall(r"^#?(\w+)=", file.read_text(encoding="utf-8"), re.MULTILINE))
    else:
        names = {name for line in systemd.read(file)["Environment"] for name in systemd.assignments(line)}
    assert names
    assert not product.unknown_variables(names - OWN_OPTIONS)
    assert not product.inline_secrets(names)


def test_each_credential_is_the_file_of_its_setting() -> None:
    secrets = systemd.read(systemd.SECRETS)
    loaded = {line.partition(":")[0]: line.partition(":")[2] for line in secrets["LoadCredential"]}
    named = {name: value for line in secrets["Environment"] for name, value in systemd.assignments(line).items()}

    assert named == {f"{name.upper()}_FILE": f"%d/{name}" for name in loaded}
    assert loaded == {name: f"{systemd.ETC}/secrets/{name}" for name in loaded}
    assert {name.removesuffix("_FILE") for name in named} <= product.SECRETS | product.PAIR


def test_all_units_are_sandboxed_in_the_same_way() -> None:
    def sandbox(unit: Path) -> set[str]:
        text = unit.read_text(encoding="utf-8").partition("# What the process may do")[2].partition("[Install]")[0]
        return {line for line in text.splitlines() if "=" in line and not line.startswith("#")}

    common = set.intersection(*map(sandbox, [*UNITS, GATEWAY]))
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "CapabilityBoundingSet="} <= common
    for unit in UNITS:
        assert sandbox(unit) - common == ({"MemoryDenyWriteExecute=yes"} if unit.name != COMPILES else set())


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_has_an_account_and_a_private_folder_of_its_own(unit: Path) -> None:
    values = systemd.read(unit)
    account = (FOLDER / "sysusers.d" / "paired-namespaces.conf").read_text(encoding="utf-8")

    assert re.search(rf"^u {values['User'][0]} ", account, re.MULTILINE)
    assert values["StateDirectory"] == ["paired-namespaces"]
    assert values["StateDirectoryMode"] == ["0700"]
    assert "STATE_DIR=%S/paired-namespaces" in values["Environment"]


@pytest.mark.parametrize("unit", SERVICES, ids=name_of)
def test_a_service_is_started_again_whatever_ends_it_and_after_the_migrations(unit: Path) -> None:
    values = systemd.read(unit)

    assert values["Restart"] == ["always"]
    assert values["StartLimitIntervalSec"] == ["0"]  # else systemd gives up after five starts in ten seconds
    assert "paired-namespaces-migrate.service" in values["After"][0].split()


PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "CONTOSO_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "CONTOSO_SECONDARY", namespace = "contoso-dr" }
entities = ["orders"]
"""
NOBODY_LISTENS = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=K;SharedAccessKey=V;UseDevelopmentEmulator=true"


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/control-plane.sqlite3"
    else:
        with cluster() as url:
            yield url


def installed(folder: Path, port: int, secrets: dict[str, str]) -> Host:
    """A host as docs/deployment.md sets it up: the settings of the example, the pairs, and a file for each secret."""
    host = Host(folder, (sys.executable, str(product.ROOT / "manage.py")))
    (host.etc / "secrets").mkdir(parents=True)
    host.state.mkdir(parents=True, mode=0o700)
    for name, value in secrets.items():
        (host.etc / "secrets" / name).write_text(value, encoding="utf-8")
    (host.etc / "pairs.toml").write_text(PAIRS, encoding="utf-8")
    own = f'WEB_OPTIONS="--host 127.0.0.1 --port {port}"\n'
    (host.etc / systemd.EXAMPLE.name).write_text(systemd.EXAMPLE.read_text(encoding="utf-8") + own, encoding="utf-8")
    (host.etc / "worker-2.env").write_text('WORKER_OPTIONS="-Q pings,syphons"\n', encoding="utf-8")
    return host


def unit(name: str) -> Values:
    return systemd.read(FOLDER / f"paired-namespaces-{name}.service", systemd.SECRETS)


def environment(host: Host, values: Values, instance: str) -> dict[str, str]:
    """Nothing of ours but what the unit says: the rest is what any process has."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
    return inherited | host.environment(values, instance)


@contextmanager
def running(host: Host, name: str, instance: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The process of a service, until the block ends; then it is asked to end, and does."""
    values = unit(name)
    (command,) = host.commands(values, instance)
    with (
        (host.root / f"{name}{instance}.log").open("wb") as log,
        subprocess.Popen(
            command, cwd=host.state, env=environment(host, values, instance), stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def await_that(what: str, condition: Callable[[], bool], processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert all(process.poll() is None for process in processes), f"a process ended before {what}"
        assert time.monotonic() < deadline, what
        time.sleep(0.2)  # between two looks


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_the_units_start_becomes_ready_and_runs_tasks(kind: str, tmp_path: Path, redis_url: str) -> None:
    if kind == "postgres" and programs() is None:
        pytest.skip("there is no PostgreSQL here")
    port = free_port()
    with ExitStack() as stack:
        url = stack.enter_context(database(kind, tmp_path))
        strings = {"contoso_primary": NOBODY_LISTENS, "contoso_secondary": NOBODY_LISTENS.replace(":1;", ":2;")}
        host = installed(tmp_path, port, strings | {"database_url": url, "redis_url": redis_url})
        migrate = unit("migrate")
        for command in host.commands(migrate):
            subprocess.run(command, cwd=host.state, env=environment(host, migrate, ""), check=True, timeout=PATIENCE_S)
        names = [("web", ""), ("worker@", "1"), ("worker@", "2"), ("beat", "")]
        processes = [stack.enter_context(running(host, *name)) for name in names]

        await_that("it is ready", lambda: ready(port), processes)
        await_that("a task runs", lambda: "collectors.health" in tasks(port), processes)
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            await_that("both workers", lambda: len(workers(client)) == 2, processes)
        assert not list(host.state.glob("secret_key*")) or (host.state / "secret_key").stat().st_mode & 0o077 == 0
    assert all(process.returncode is not None for process in processes)


def ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def tasks(port: int) -> set[str]:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    return set(re.findall(r'^paired_task_starts_total\{task="([^"]+)"\} [1-9]', text, re.MULTILINE))


def workers(client: "redis.Redis") -> set[str]:
    return {str(name).partition("@")[0] for name in client.hkeys("workers:heartbeat")}
