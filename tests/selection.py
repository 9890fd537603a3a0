"""Which tests run when: `make quick` for the inner loop, `make test` for a change, `make nightly` for what is long.

Each is contained in the next. `nightly` marks what only the nightly run does. `sampled` marks a test with many
parameters: `make test` runs it with combinations that have every value of every parameter at least once, the nightly
run with all of them. Models drawn by Hypothesis have their full depth at night and a part of it otherwise.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SHARE = 10
"""The nightly run draws this many times as many examples as `make test`."""
FEWEST = 10
FULL = 100
"""What Hypothesis draws where a test says nothing."""
NIGHTLY = "NIGHTLY_TESTS"
"""The environment variable by which tests that run pytest themselves pass the choice on."""
LIVES = "PAIRING_MODEL_RUNS"
"""The environment variable with how many lives a model lives in this run."""

# How fast examples are drawn and tried depends on what else the machine does.
_unhurried = {"suppress_health_check": [HealthCheck.too_slow], "deadline": None}
# The nightly run draws anew; the others repeat, so that a run that passed once passes again.
settings.register_profile("nightly", settings.get_profile("default"), max_examples=FULL, print_blob=True, **_unhurried)
_repeated = settings(settings.get_profile("nightly"), derandomize=True, database=None)
settings.register_profile("quick", _repeated, max_examples=FEWEST)
settings.register_profile("suite", _repeated, max_examples=FULL // SHARE)

SLOW_FOLDERS = ("tests/acceptance/", "tests/contract/", "tests/pipeline/")
SLOW_MARKERS = ("slow", "spark")
SLOW_FIXTURES = frozenset(
    {"browser", "spark", "live_server", "primary", "secondary", "namespaces", "local_namespaces", "connection_string"}
)
"""Fixtures that start a process other than Redis: `make quick` runs no test that needs one."""
STARTERS = ("subprocess", "running", "forked")
"""What a test module imports that starts processes by itself: the standard library's, the emulator's, the tests'."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection", "which tests run")
    group.addoption("--nightly", action="store_true", help="run also what is long: every combination, models in full")
    group.addoption("--quick", action="store_true", help="run only what starts no process: the inner loop")


def configure(config: pytest.Config) -> None:
    """Before any test module is imported: their `depth(…)` asks for it."""
    if config.getoption("nightly"):
        os.environ[NIGHTLY] = "1"
    named = "quick" if config.getoption("quick") else "suite"
    settings.load_profile("nightly" if is_nightly() else named)


def is_nightly() -> bool:
    """Whether this run, or the one whose test started it, is the nightly one."""
    return os.environ.get(NIGHTLY) == "1"


def depth(examples: int) -> int:
    """How many examples Hypothesis draws where the nightly run draws this many."""
    now = settings().max_examples
    return max(examples * now // FULL, min(examples, FEWEST))


def lives(examples: int) -> int:
    """As `depth`, unless the environment asks for a number of lives of a model."""
    return int(os.environ.get(LIVES, 0)) or depth(examples)


def nightly(*values: object) -> list[Any]:
    """Values of a parameter that only the nightly run tries."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what this run leaves to a longer one. Tests that are named one by one (file::test) always run."""
    if is_nightly() or (config.args and all("::" in argument for argument in config.args)):
        return
    left = [item for item in items if item.get_closest_marker("nightly")]
    left += [item for file in _combinations(items).values() for item in _beyond_representatives(file.values())]
    if config.getoption("quick"):
        left += [item for item in items if _is_slow(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        unwanted = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in unwanted]


def _is_slow(item: pytest.Item) -> bool:
    """Whether it is marked so, needs a process other than Redis, or belongs to a module that starts some."""
    if item.nodeid.startswith(SLOW_FOLDERS) or any(map(item.get_closest_marker, SLOW_MARKERS)):
        return True
    module = getattr(item, "module", None)
    if any(hasattr(module, name) for name in STARTERS):
        return True
    return not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _combinations(items: Iterable[pytest.Item]) -> Mapping[str, Mapping[str, list[pytest.Item]]]:
    """Tests marked `sampled`, by file and by the function they are combinations of."""
    found: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("sampled") and hasattr(item, "callspec"):
            file, _, function = item.nodeid.partition("[")[0].partition("::")
            found[file][function].append(item)
    return found


def _beyond_representatives(functions: Iterable[Sequence[pytest.Item]]) -> Iterator[pytest.Item]:
    """All but combinations that together have each value; values used less in the file so far are preferred.

    Parameters that the mark names take turns: a test need not see all their values, the file does.
    """
    used: Counter[tuple[int, str]] = Counter()
    for items in functions:
        values = {item: frozenset(enumerate(item.callspec._idlist)) for item in items}  # type: ignore[attr-defined]
        missing = set().union(*values.values()) - _in_turn(items, values)
        rest = list(items)
        while len(rest) == len(items) or missing:
            best = max(rest, key=lambda one: (len(values[one] & missing), -sum(used[value] for value in values[one])))
            rest.remove(best)
            missing -= values[best]
            used.update(values[best])
        yield from rest


def _in_turn(items: Sequence[pytest.Item], values: Mapping[pytest.Item, frozenset[tuple[int, str]]]) -> set[Any]:
    """The values of the parameters that the mark names."""
    names = [name for mark in items[0].iter_markers("sampled") for name in mark.args]
    specs = [item.callspec for item in items]  # type: ignore[attr-defined]
    texts = {str(spec.params[name]) for spec in specs for name in names if name in spec.params}
    return {value for found in values.values() for value in found if value[1] in texts}
