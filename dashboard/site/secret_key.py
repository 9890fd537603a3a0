"""The default signing key: generated once, stored where only its owner can read it."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

KEY_LENGTH = 50
"""The least, as Django's own check of a deployment wants it."""


def kept_secret_key(folder: Path) -> str:
    """The key stored in the folder; created on first use with mode 0600, even if several processes start at once."""
    file = folder / "secret_key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            _make(file)
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it holds something else"
        raise ImproperlyConfigured(
            f"The signing key cannot be kept in {file}: {reason}; set SECRET_KEY or another STATE_DIR."
        ) from None


def _make(file: Path) -> None:
    """Write the key to a temporary file first, so that a concurrently starting process never reads half of it."""
    draft = file.with_name(f".secret_key.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(secrets.token_urlsafe(64))
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
