"""Prints the structure of the packages: files at the root, imports between rooms, layers, and circles of imports.

    .venv/bin/python tools/structure.py [PACKAGE …]

A room is a module or package directly below the package. Imports for types only count like all others.
"""

import sys
from collections import defaultdict
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pairing", "emulator", "dashboard", "workers", "pipeline")
Imports = dict[str, set[str]]


def imports_of(package: str) -> Imports:
    """Module → modules of the same package that it imports."""
    graph = grimp.build_graph(package, include_external_packages=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def between_rooms(package: str, imports: Imports) -> Imports:
    """Room → rooms that it imports, itself left out; the package's own `__init__` is no room."""
    rooms: Imports = defaultdict(set)
    for module, imported in imports.items():
        for other in imported:
            first, second = _room(module), _room(other)
            if package not in (module, other) and first != second:
                rooms[first].add(second)
    return rooms


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def circles(imports: Imports) -> list[list[str]]:
    """Groups of modules that import each other, directly or not (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for other in sorted(imports.get(module, ())):
            if other not in index:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], index[other])
        if lowest[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in sorted(imports):
        if module not in index:
            visit(module)
    return found


def layers(rooms: Imports) -> int:
    """The length of the longest chain of rooms that import each other; a circle counts as one room."""
    group = {room: min(members) for members in circles(rooms) for room in members}
    below: Imports = defaultdict(set)
    for room, others in rooms.items():
        below[group.get(room, room)] |= {group.get(other, other) for other in others} - {group.get(room, room)}
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            heights[room] = 1 + max((height(other) for other in below.get(room, ())), default=0)
        return heights[room]

    return max(map(height, [*below]), default=1)


def main() -> int:
    sys.path.insert(0, str(ROOT))
    for package in sys.argv[1:] or PACKAGES:
        imports = imports_of(package)
        rooms = between_rooms(package, imports)
        at_root = len(list((ROOT / package).glob("*.py")))
        arrows = sum(map(len, rooms.values()))
        print(
            f"{package}: {len(imports)} modules, {at_root} files at the root, {arrows} imports between rooms,"
            f" {layers(rooms)} layers, {len(circles(imports))} circles of modules, {len(circles(rooms))} of rooms"
        )
        for group in circles(imports):
            print("  circle:", ", ".join(group))
    return 0


if __name__ == "__main__":
    sys.exit(main())
