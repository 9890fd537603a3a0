"""`make bench`: runs every bench_*.py of this folder, prints their table, and writes the figures to benchmarks.json.

`make bench ARGS=--document` writes the table into docs/performance.md and docs/sizing.md, too, with the commit.
`make bench ARGS="sender syphon"` runs some of them.
"""

import argparse
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

from tests.benchmarks.processes import ROOT
from tests.benchmarks.table import document, module, names, table


def commit() -> str:
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="*", help=f"which to run; all without one ({', '.join(names())})")
    parser.add_argument("--output", type=Path, default=Path("benchmarks.json"), help="the file of the figures")
    parser.add_argument("--document", action="store_true", help="write the figures into the documents")
    given = parser.parse_args()
    about = {"commit": commit(), "python": platform.python_version(), "machine": platform.machine()}
    results: dict[str, dict[str, Any]] = {}
    for name in given.benchmark or names():
        print(f"{name} …", flush=True)
        results[name] = json.loads(json.dumps(module(name).run()))
        print(json.dumps(results[name], indent=2), flush=True)
        given.output.write_text(json.dumps(about | results, indent=2) + "\n", encoding="utf-8")
    print(f"\n{table(results)}\n\nwritten to {given.output}")
    if given.document:
        document(about, results, is_all=not given.benchmark)


if __name__ == "__main__":
    main()
