"""`make bench`: runs every bench_*.py of this folder, prints their ratios and writes them to benchmarks.json.

Each benchmark is a module with `run() -> dict[str, float | dict]`: ratios measured side by side in one run, with the
figures they were made of. Name some to run only those: `make bench ARGS="sender syphon"`.
"""

import argparse
import importlib
import json
import platform
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="*", help=f"which to run; all without one ({', '.join(names())})")
    parser.add_argument("--output", type=Path, default=Path("benchmarks.json"), help="the file of the figures")
    given = parser.parse_args()
    results: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    for name in given.benchmark or names():
        print(f"{name} …", flush=True)
        results[name] = importlib.import_module(f"tests.benchmarks.bench_{name}").run()
        print(json.dumps(results[name], indent=2, default=str), flush=True)
        given.output.write_text(json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8")
    print(f"written to {given.output}")


if __name__ == "__main__":
    main()
