"""Where the control plane finds its files, in a checkout or installed, and how it keeps its own private."""

import os
import secrets
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

CODE_DIR = Path(__file__).resolve().parents[2]
"""The folder that contains our packages: the checkout, or site-packages."""
IS_CHECKOUT = (CODE_DIR / "manage.py").is_file()
BASE_DIR = CODE_DIR if IS_CHECKOUT else Path.cwd()
"""The folder of `.env`, `pairs.toml` and state: the checkout, or the one in which the command was started."""
TEMPLATES = CODE_DIR / "templates" if IS_CHECKOUT else CODE_DIR / "dashboard" / "templates"
EXAMPLES = CODE_DIR / "examples" if IS_CHECKOUT else CODE_DIR / "dashboard" / "demo" / "examples"
FOLDER, FILE = 0o700, 0o600
KEY_LENGTH = 50
"""The least length of a signing key, as Django's own check of a deployment requires it."""


def manage(*arguments: str) -> list[str]:
    """The command line that runs a management command with this Python."""
    program = [str(CODE_DIR / "manage.py")] if IS_CHECKOUT else ["-m", "dashboard"]
    return [sys.executable, *program, *arguments]


def private_folder(folder: Path) -> Path:
    """The folder, created if missing, inaccessible to other users. Raises ImproperlyConfigured if that fails."""
    try:
        folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        _close(folder, FOLDER)
    except OSError as error:
        raise ImproperlyConfigured(f"STATE_DIR {folder} cannot be used: {error.strerror}. Set another one.") from None
    return folder


def private_file(file: Path) -> Path:
    """The file, created empty if missing, inaccessible to other users. SQLite's additional files inherit its mode.

    Raises ImproperlyConfigured if it cannot be written, or is no regular file, such as /dev/null: its rights are not
    the control plane's to take away.
    """
    if file.exists() and not file.is_file():
        raise ImproperlyConfigured(f"The database {file} is not a regular file.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, FILE))
        for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
            if each.exists():
                _close(each, FILE)
    except OSError as error:
        raise ImproperlyConfigured(f"The database {file} cannot be written: {error.strerror}.") from None
    return file


def _close(path: Path, mode: int) -> None:
    """Remove the rights of other users. Files of another owner are left unchanged."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        path.chmod(status.st_mode & mode)


def kept_secret_key(folder: Path) -> str:
    """The signing key stored in the folder; created on first use, even if several processes start at once."""
    file = folder / "secret_key"
    if not file.exists():
        _make_key(file)
    return file.read_text(encoding="ascii").strip()


def _make_key(file: Path) -> None:
    """Write the key to a temporary file first, so that a concurrently starting process never reads half of it."""
    draft = file.with_name(f".secret_key.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "w") as stream:
        stream.write(secrets.token_urlsafe(64))
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
