"""Where the control plane finds its files: in a checkout, or installed from its wheel, which contains them."""

import sys
from pathlib import Path

CODE_DIR = Path(__file__).resolve().parents[2]
"""The folder that contains our packages: the checkout, or site-packages."""
IS_CHECKOUT = (CODE_DIR / "manage.py").is_file()
BASE_DIR = CODE_DIR if IS_CHECKOUT else Path.cwd()
"""The folder of `.env`, `pairs.toml` and state: the checkout, or the one in which the command was started."""
TEMPLATES = CODE_DIR / "templates" if IS_CHECKOUT else CODE_DIR / "dashboard" / "templates"
EXAMPLES = CODE_DIR / "examples" if IS_CHECKOUT else CODE_DIR / "dashboard" / "demo" / "examples"


def manage(*arguments: str) -> list[str]:
    """The command line that runs a management command with this Python."""
    program = [str(CODE_DIR / "manage.py")] if IS_CHECKOUT else ["-m", "dashboard"]
    return [sys.executable, *program, *arguments]
