"""The Java that Spark runs on."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pipeline.errors import PipelineError

OLDEST = 17


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
