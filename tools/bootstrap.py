"""Sets up this checkout on a fresh machine and then runs what was asked for.

    python3 tools/bootstrap.py demo | quick | test | nightly | check | docs | bench | campaign | soak [arguments]
    python3 tools/bootstrap.py setup | spark | object-stores

Standard library only, because nothing is installed yet. It makes `.venv`, installs the hashed requirements and this
project into it, and finds (or, as root on Debian, installs) redis-server, a Java runtime, Chromium, PostgreSQL and
Prometheus. Packages of the host and of Python are installed side by side. Every step is skipped when it was done before
and its inputs have not changed. What cannot be had is said in one sentence.

`demo` leaves Spark and Java to `spark`, which the demo runs while the dashboard already serves.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from typing import NoReturn

from host_packages import (
    can_wait_for_java,
    ensure_browser,
    ensure_faketime,
    ensure_image_builder,
    ensure_java,
    ensure_java_classes,
    ensure_nginx,
    ensure_postgres,
    ensure_prometheus,
    ensure_redis,
    has_java,
    has_redis,
)
from object_stores import install as install_object_stores
from python_packages import add_packages, ensure_packages, ensure_venv, suitable_python
from steps import PYTHON, ROOT, VENV, SetUpError, search_path

SPARK_LATER = "PAIRED_NAMESPACES_SPARK_LATER"
"""Set for the demo: it has to run `spark` before it computes charges."""

# -- dying with those who started us ----------------------------------------------------------------------------------


def die_with_parent() -> None:
    """On Linux, ask the kernel for SIGTERM when make dies, so that kill -9 of make ends the set-up too."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def start_guardian() -> None:
    """Whatever is left behind, also after kill -9 and also of the command that follows, is ended by a guardian."""
    sys.path.insert(0, str(ROOT))
    from dashboard.demo import guardian

    guardian.start(suitable_python())


# -- commands ---------------------------------------------------------------------------------------------------------

TEST_WORKERS = str(min(4 * (os.cpu_count() or 1), 16))
"""Three quarters of the tests' time is waiting for sockets and deadlines, so there are more of them than cores."""

FILE_BY_FILE = ["--dist", "loadscope", "--no-loadscope-reorder"]
TESTS = ["-m", "pytest", "-n", TEST_WORKERS, *FILE_BY_FILE]
QUICK_TESTS = ["-m", "pytest", "--quick", "-n", str(os.cpu_count() or 1), *FILE_BY_FILE]
"""They compute and hardly wait: as many as cores, for each collects all tests first."""

SITE = ["--fail-on-warning", "--keep-going", "--conf-dir", "docs/site", ".", "build/docs"]
WITHOUT_HOST_PACKAGES = ("check", "docs")
ARCHIVED_FOR = ("setup", "test", "nightly")

COMMANDS: dict[str, tuple[str, list[str]]] = {
    "demo": ("demo", ["manage.py", "demo"]),
    "quick": ("test", QUICK_TESTS),
    "test": ("test", TESTS),
    "nightly": ("test", [*TESTS, "--nightly"]),
    "bench": ("test", ["-m", "tests.benchmarks"]),
    "campaign": ("test", ["-m", "tests.campaign"]),
    "soak": ("test", ["-m", "tests.campaign.soak"]),
    "check": ("test", ["tools/check.py"]),
    "docs": ("test", ["-m", "sphinx", *SITE]),
    "setup": ("test", []),
    "spark": ("run", []),
    "object-stores": ("run", []),
}


def set_up(command: str) -> None:
    """Everything that the command needs before it starts."""
    if command in ("spark", "object-stores"):
        ensure_venv()
        add_packages("run")
        ensure_java()
        if command == "object-stores":
            install_object_stores()
        return
    requirements = COMMANDS[command][0]
    of_the_host = threading.Thread(target=install_host_packages, args=(command,), daemon=True)
    of_the_host.start()
    ensure_venv()
    ensure_packages(requirements)
    of_the_host.join()
    if command in WITHOUT_HOST_PACKAGES:
        return
    ensure_redis()
    ensure_spark(command)
    if command == "campaign":
        ensure_faketime()
    elif requirements == "test" and command != "soak":
        ensure_prometheus()
        ensure_nginx()
    if command in ARCHIVED_FOR:
        ensure_java_classes()
    if command in ("test", "nightly"):
        build_clients(command)


def install_host_packages(command: str) -> None:
    """The packages of the host that need nothing of `.venv`, one after another, while Python packages are installed."""
    if command in WITHOUT_HOST_PACKAGES:
        return
    has_redis()
    if command != "demo":
        has_java()
    if COMMANDS[command][0] == "test":
        if command not in ("campaign", "soak"):
            ensure_browser()
        ensure_postgres()
    if command == "nightly":
        ensure_image_builder()


def build_clients(command: str) -> None:
    """Programs of SDKs for other languages, which the tests run; it prints a sentence where one cannot be built."""
    subprocess.run([PYTHON, "-m", "tests.emulator.clients.programs", command], check=True)


def ensure_spark(command: str) -> None:
    """Java, or for the demo, if possible, only the note that it has to run `spark` itself."""
    if command == "demo":
        os.environ[SPARK_LATER] = "1"
        if can_wait_for_java():
            return
    ensure_java()


def become(program: list[str]) -> NoReturn:
    """Go on as the command itself: same process, so that signals and the exit status are the command's own."""
    os.environ["PATH"] = os.pathsep.join([str(VENV / "bin"), search_path()])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # images set it; each process would compile all modules anew
    sys.stdout.flush()
    os.execv(PYTHON, [str(PYTHON), *program])


def main() -> int:
    parser = argparse.ArgumentParser(description="Set up this checkout, then run a command in it.")
    parser.add_argument("command", choices=sorted(COMMANDS))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the command")
    given = parser.parse_args()
    die_with_parent()
    os.chdir(ROOT)
    try:
        start_guardian()
        set_up(given.command)
    except SetUpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    program = COMMANDS[given.command][1]
    if program:
        become([*program, *given.arguments])
    print("ready: everything is set up", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
