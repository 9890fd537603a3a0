"""What importing the library costs an application beside importing the SDK, counted in modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST = 1.125


def loaded(*modules: str) -> set[str]:
    """The modules of an interpreter that has imported these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    ("library", "sdk"),
    [
        ("pairing", ("azure.servicebus", "azure.servicebus.management")),
        ("pairing.aio", ("azure.servicebus.aio", "azure.servicebus.aio.management")),
    ],
)
def test_importing_the_library_loads_at_most_an_eighth_more_modules_than_importing_the_sdk(
    library: str, sdk: tuple[str, ...]
) -> None:
    with_library, with_sdk = loaded(library), loaded(*sdk)

    assert len(with_library) <= MOST * len(with_sdk)
    tops = {name.partition(".")[0] for name in with_library - with_sdk}
    assert tops - sys.stdlib_module_names == {"pairing"}
