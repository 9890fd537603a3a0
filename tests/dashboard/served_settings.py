"""The settings of the control plane, with passwords that are checked in no time: Argon2 takes 0.2 s of a processor."""

from dashboard.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
