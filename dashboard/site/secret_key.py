"""The signing key of a control plane nobody gave one: made once, kept where only its owner reads it."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def kept_secret_key(folder: Path) -> str:
    """The key kept in the folder; made on first use with mode 0600, also when several processes start at once."""
    file = folder / "secret_key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            _make(file)
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The signing key cannot be kept in {file}: {error.strerror}; set SECRET_KEY or another STATE_DIR."
        ) from None


def _make(file: Path) -> None:
    """Write a whole file under another name first: a process that starts meanwhile must not read half a key."""
    draft = file.with_name(f".secret_key.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_urlsafe(64))
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
