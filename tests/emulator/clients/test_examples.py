"""The programs of docs/emulator-compared.md, as they stand there."""

import shutil

import pytest

from tests.documented.blocks import ROOT, fenced
from tests.emulator.clients.installed import node_packages
from tests.emulator.clients.programs import HERE, command

pytestmark = pytest.mark.nightly
PAGE = ROOT / "docs" / "emulator-compared.md"
PROGRAMS = [(language, text) for language, text in fenced(PAGE) if language != "csharp"]


@pytest.mark.parametrize(("language", "text"), PROGRAMS, ids=[language for language, _ in PROGRAMS])
def test_a_documented_program_says_hello(served, tmp_path, language, text):
    if language == "js":
        (tmp_path / "hello.mjs").write_text(text)
        (tmp_path / "node_modules").symlink_to(node_packages() / "node_modules")
        run = ["node", str(tmp_path / "hello.mjs")]
    elif language == "java":
        (tmp_path / "Hello.java").write_text(text)
        program = command("JMS" if "jakarta.jms" in text else "Java")
        run = ["java", "-cp", program[program.index("-cp") + 1].partition(":")[2], str(tmp_path / "Hello.java")]
    else:
        command("Go")
        for name in ("go.mod", "go.sum"):
            shutil.copy(HERE / "go" / name, tmp_path)
        (tmp_path / "main.go").write_text(text)
        run = ["go", "run", "-C", str(tmp_path), "."]
    assert served.run(run).strip() == "hello"
