"""How many lines of the library are written twice, once blocking and once for asyncio.

    python -m tools.twins

Compares each file of ``pairing/aio`` with the blocking file of the same name: lines of code (no imports, docstrings,
comments, blank lines), without the words ``async`` and ``await``, in blocks of three or more that are the same in both.
"""

import ast
import re
from difflib import SequenceMatcher
from pathlib import Path

LIBRARY = Path(__file__).parent.parent / "pairing"
BLOCKING = {"administration": "backlog/administration"}
"""Blocking files that lie elsewhere than beside ``aio``."""
SHORTEST = 3
_WORDS = re.compile(r"\b(async|await) |\b_?(async|aio)[._]|(?<=__)a(?=(enter|exit|iter|next)__)|\bAsync(?=[A-Z])")


def twins() -> dict[str, int]:
    """Lines that are the same in both worlds, by the name of the file."""
    found = {}
    for awaited in sorted((LIBRARY / "aio").glob("*.py")):
        blocking = LIBRARY / f"{BLOCKING.get(awaited.stem, awaited.stem)}.py"
        if awaited.stem != "__init__" and blocking.exists():
            found[awaited.stem] = alike(blocking.read_text(), awaited.read_text())
    return found


def alike(blocking: str, awaited: str) -> int:
    """How many lines two sources have in common, in blocks of three or more."""
    matcher = SequenceMatcher(None, code_lines(blocking), code_lines(awaited), autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks() if block.size >= SHORTEST)


def code_lines(source: str) -> list[str]:
    """The lines of code, without what tells the two worlds apart."""
    left_out = _left_out(ast.parse(source))
    lines = (line.split("  # ")[0].strip() for at, line in enumerate(source.splitlines(), 1) if at not in left_out)
    return [_WORDS.sub("", line) for line in lines if line and not line.startswith("#")]


def _left_out(tree: ast.Module) -> set[int]:
    """The numbers of lines that hold imports and strings that are statements."""
    numbers = set[int]()
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            numbers.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return numbers


def main() -> None:
    """Print the lines of each file, and of all."""
    found = twins()
    for name, lines in found.items():
        print(f"{lines:5} {name}")
    print(f"{sum(found.values()):5} in all")


if __name__ == "__main__":
    main()
