"""Where the control plane finds its files: in a checkout, or installed from its wheel, which contains them."""

import sys
from pathlib import Path

_CODE = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (_CODE / "manage.py").is_file()
BASE_DIR = _CODE if IS_CHECKOUT else Path.cwd()
"""The folder of `.env`, `pairs.toml` and state: the checkout, or the one in which the command was started."""
TEMPLATES = _CODE / "templates" if IS_CHECKOUT else _CODE / "dashboard" / "templates"
EXAMPLES = _CODE / "examples" if IS_CHECKOUT else _CODE / "dashboard" / "demo" / "examples"


def manage(*arguments: str) -> list[str]:
    """The command line that runs a management command with this Python."""
    program = [str(_CODE / "manage.py")] if IS_CHECKOUT else ["-m", "dashboard"]
    return [sys.executable, *program, *arguments]
