"""`make check`: lint of Python and templates, formatting, types, contracts, deployment, migrations, docs, audit."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bootstrap import SITE

BIN = Path(sys.executable).parent
CHECKS: list[list[str]] = [
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["djlint", "templates", "--lint", "--quiet"],
    [
        "check-jsonschema",
        "--quiet",
        "--builtin-schema",
        "vendor.compose-spec",
        *map(str, Path("deploy/container").glob("*.yaml")),
    ],
    ["lint-imports"],
    ["mypy"],
    ["python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
    ["python", "manage.py", "makemigrations", "--check", "--dry-run"],
    ["python", "-m", "sphinx", "--quiet", *SITE],
    [
        "python",
        "-m",
        "pip_audit",
        "--require-hashes",
        "--disable-pip",
        "--progress-spinner",
        "off",
        "-r",
        "requirements/test.txt",
    ],
]


def main() -> int:
    failed = []
    with tempfile.TemporaryDirectory() as state:
        # The deployment checks judge the settings of a production server, not those of this checkout's .env file.
        production = {"HTTPS": "1", "ALLOWED_HOSTS": "bus.example"}
        environment = {**os.environ, **production, "STATE_DIR": state, "DATABASE_URL": f"sqlite:///{state}/check.db"}
        for check in CHECKS:
            print("$", *check, flush=True)
            if subprocess.run([str(BIN / check[0]), *check[1:]], env=environment, check=False).returncode:
                failed.append(" ".join(check))
    for check in failed:
        print(f"failed: {check}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
