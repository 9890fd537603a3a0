"""The set-up of `make demo`: Spark only when the dashboard serves already."""

import os
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The set-up, whose steps do nothing."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import bootstrap  # type: ignore[import-not-found]

    steps = ("has_java", "ensure_venv", "ensure_redis", "ensure_java", "ensure_browser", "ensure_postgres")
    for name in (*steps, "ensure_prometheus", "ensure_nginx", "has_redis"):
        monkeypatch.setattr(bootstrap, name, lambda: None)
    for name in ("ensure_packages", "add_packages"):
        monkeypatch.setattr(bootstrap, name, lambda requirements: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return bootstrap


def pins(name: str) -> set[str]:
    return set(re.findall(r"^\S+==\S+", (REQUIREMENTS / f"{name}.txt").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("can_wait", "ensured"), [(True, []), (False, ["java"])])
def test_the_demo_installs_spark_itself_and_java_too_if_there_is_none(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, can_wait: bool, ensured: list[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(bootstrap, "can_wait_for_java", lambda: can_wait)
    monkeypatch.setattr(bootstrap, "ensure_java", lambda: done.append("java"))
    monkeypatch.setattr(bootstrap, "ensure_packages", done.append)

    bootstrap.set_up("demo")

    assert done == ["demo", *ensured]
    assert os.environ[bootstrap.SPARK_LATER] == "1"


def test_what_the_demo_starts_with_is_everything_but_spark() -> None:
    assert {pin.split("==")[0] for pin in pins("run") - pins("demo")} == {"pyspark", "py4j"}
    assert pins("demo") <= pins("run")
