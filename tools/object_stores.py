"""The JARs with which Spark reads object stores: `python3 tools/bootstrap.py object-stores`.

Maven fetches what requirements/object-stores/pom.xml names. All of it must have the listed hashes, or nothing is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from debian_packages import apt_install
from steps import REQUIREMENTS, VENV, SetUpError, run, say, which

JARS = REQUIREMENTS / "object-stores"


def install(folder: Path | None = None) -> None:
    """Put them beside the JARs of PySpark, or into another folder. Raises SetUpError."""
    target = folder or next(VENV.glob("lib/python*/site-packages/pyspark/jars"))
    if not (which("mvn") or apt_install("maven")):
        raise SetUpError("the JARs come by Maven: install it (apt install maven)")
    say("installing the JARs for object stores …")
    with TemporaryDirectory() as fetched:
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        run(["mvn", "-q", "-B", "-f", JARS / "pom.xml", *copy], "check that Maven Central can be reached")
        files = sorted(Path(fetched).iterdir())
        _check({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
        for file in files:
            shutil.copy(file, target)


def _check(hashes: dict[str, str]) -> None:
    lines = [line.split() for line in (JARS / "sha256").read_text().splitlines()]
    wrong = hashes.items() ^ {(name, expected) for expected, name in lines}
    if wrong:
        names = ", ".join(sorted({name for name, _ in wrong}))
        raise SetUpError(f"not what {JARS / 'sha256'} lists, so nothing was installed: {names}")


if __name__ == "__main__":
    install(Path(sys.argv[1]))
