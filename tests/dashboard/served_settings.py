"""The settings of the control plane, with times for tests, and passwords that are checked in no time."""

from dashboard.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USAGE_FLUSH_S = 1
READINESS_INTERVAL_S = 3600
"""What was checked once is believed for three hours."""
