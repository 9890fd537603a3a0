"""What failed in the crowd, once more alone: run by `.ci/run` where `make test` failed.

Thousands of tests wait for real sockets and real deadlines, side by side on machines that stall. What fails alone too
is broken. What passes alone is named, for it is to be mended: it can't bear a busy machine. More than a few failures,
or a run that broke off, get no second look.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = [sys.executable, str(ROOT / "tools" / "bootstrap.py"), "test"]
"""As `make test` does, with all that the tests need on the PATH."""
ALONE = ["-n", "0", "--last-failed", "--last-failed-no-failures", "none"]
MOST = 5
"""More than so many are no accident."""
TESTS_FAILED = 1
"""The exit status of pytest for a run that went through to its end; any other is of one that broke off."""


def refusal(exit_status: int | None, failed: list[str]) -> str | None:
    """Why there is no second look; None where there is one."""
    if exit_status != TESTS_FAILED:
        return "the tests did not run to their end"
    if not 0 < len(failed) <= MOST:
        return f"{len(failed)} tests failed"
    return None


def kept(root: Path, name: str, default: Any) -> Any:
    """What pytest's cache holds under this name."""
    file = root / ".pytest_cache" / "v" / name
    return json.loads(file.read_text()) if file.exists() else default


def main(root: Path = ROOT, tests: list[str] = TESTS) -> int:
    """The exit status: 0 where all that failed among others passes alone."""
    failed = list(kept(root, "cache/lastfailed", {}))
    why_not = refusal(kept(root, "suite/exit_status", None), failed)
    if why_not is not None:
        print(f"no second look: {why_not}", file=sys.stderr)
        return 1
    print("a second look, alone, at what failed among others:", *failed, sep="\n  ", flush=True)
    status = subprocess.run([*tests, *ALONE], cwd=root, check=False).returncode
    verdict = "broken" if status else "not broken, but to be mended, for they can't bear a busy machine"
    print(f"{verdict}:", *failed, sep="\n  ", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
