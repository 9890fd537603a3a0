"""The shell blocks of the documentation: `sh` as they are typed, `console` with prompts and answers."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page; `number` counts the page's shell blocks from 1."""

    page: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page} {self.number}"

    @property
    def commands(self) -> list[str]:
        """What is typed, one command each, without comments; a command that goes on in the next line is one."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [command for line in lines if (command := _uncommented(line))]


def _uncommented(line: str) -> str:
    """The command without its comment, as a shell reads it: `#` begins one after a blank and outside of quotes."""
    for match in re.finditer(r"(^|\s)#", line):
        before = line[: match.start()]
        try:
            shlex.split(before)
        except ValueError:  # inside quotes
            continue
        return before.strip()
    return line.strip()


def _typed(text: str) -> str:
    """Of a conversation with a shell: what was typed."""
    joined = text.replace("\\\n", " ")
    return "\n".join(line.removeprefix(PROMPT) for line in joined.splitlines() if line.startswith(PROMPT))


def fenced(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of each block of a page."""
    for _, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        yield language, dedent(text)


def of_page(page: Path) -> list[Block]:
    """Its shell blocks, in their order."""
    shell = [(language, text) for language, text in fenced(page) if language in ("sh", "console")]
    return [
        Block(str(page.relative_to(ROOT)), number, text if language == "sh" else _typed(text))
        for number, (language, text) in enumerate(shell, 1)
    ]


def blocks() -> list[Block]:
    """All of them."""
    return [block for page in PAGES for block in of_page(page)]


def block(page: str, number: int) -> Block:
    """One of them."""
    return of_page(ROOT / page)[number - 1]
