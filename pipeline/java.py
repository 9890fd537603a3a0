"""The Java that Spark runs on. `python -m pipeline.java` prints it as JSON, without starting Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import PipelineError

OLDEST = 17
_ASK_S = 5.0


def require_java() -> None:
    """Makes sure Spark finds a Java: the one of JAVA_HOME, of the PATH, or the one set up beside this Python."""
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=str(Path(home, "bin"))):
        return
    beside = Path(sys.prefix, "java")
    if home:
        raise PipelineError(f"JAVA_HOME is {home}, but there is no bin/java in it: correct or unset it.")
    if shutil.which("java"):
        return
    if not (beside / "bin" / "java").exists():
        raise PipelineError(
            f"No Java was found: install a JRE {OLDEST} or newer (apt install default-jre-headless), or set JAVA_HOME."
        )
    os.environ["JAVA_HOME"] = str(beside)


def version_of(reported: str) -> int:
    """The major version in the first line of `java -version`; 0 if there is none. Java 8 calls itself 1.8."""
    found = re.search(r'version "(?:1\.)?(\d+)', reported)
    return int(found[1]) if found else 0


def java_version() -> int:
    """The major version of the Java that Spark would use. Raises PipelineError with the remedy."""
    require_java()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(
            f"{java} cannot be run ({type(error).__name__}): install a JRE {OLDEST} or newer."
        ) from None
    version = version_of(ran.stderr + ran.stdout)
    if version < OLDEST:
        raise PipelineError(f"Java {version or 'of an unknown version'} is too old: install a JRE {OLDEST} or newer.")
    return version


def main() -> None:
    """Print `{"java": 21}`, or `{"error": "…"}` with a sentence."""
    try:
        if find_spec("pyspark") is None:
            raise PipelineError("PySpark is not installed: install paired-namespaces-control-plane[pipeline].")
        found: dict[str, object] = {"java": java_version()}
    except PipelineError as error:
        found = {"error": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
