"""How the library hangs together: no circle of imports, and no rule written twice for its two worlds."""

import grimp
import pytest

from tools.twins import alike, twins

MOST_TWIN_LINES = 300


def test_no_module_imports_itself_through_others_type_only_imports_included() -> None:
    graph = grimp.build_graph("pairing", exclude_type_checking_imports=False, cache_dir=None)
    chains = [
        chain
        for module in sorted(graph.modules)
        for imported in graph.find_modules_directly_imported_by(module)
        if (chain := graph.find_shortest_chain(importer=imported, imported=module)) is not None
    ]
    assert chains == []


def test_the_blocking_files_and_their_asyncio_twins_share_few_lines() -> None:
    found = twins()
    assert {"client", "links", "maintenance", "pinger", "receivers", "sender", "syphon"} <= found.keys()
    assert sum(found.values()) < MOST_TWIN_LINES


@pytest.mark.parametrize(
    ("blocking", "awaited", "lines"),
    [
        ("a = f(1)\nb = f(2)\nc = f(3)\n", "a = await f(1)\nb = await f(2)\nc = await f(3)\n", 3),
        ("a = f(1)\nb = f(2)\n", "a = await f(1)\nb = await f(2)\n", 0),
        ('"""x"""\nimport x\na = 1\n\nb = 2\n# c\nc = 3\n', '"""y"""\na = 1\nb = 2\nc = 3  # d\n', 3),
        ("def __enter__():\n  a\n  b\n  c\n", "async def __aenter__():\n  a\n  b\n  c\n", 4),
    ],
)
def test_twin_lines_are_counted_without_what_distinguishes_the_worlds(blocking: str, awaited: str, lines: int) -> None:
    assert alike(blocking, awaited) == lines
