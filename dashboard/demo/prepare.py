"""Creates the demo's database: `python -m dashboard.demo.prepare`, DEMO_PASSWORD in the environment."""

import os
import sys

import django
from azure.core.exceptions import AzureError
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from dashboard.demo.history.plan import history
from dashboard.demo.untidy import make_untidy
from dashboard.fleet.pairs.pairs_file import load_pairs

ACCOUNTS = {"operator": ("operator", "administrator"), "operator-only": ("operator",), "viewer": ("viewer",)}
"""The groups of the users. They have the same password."""


def main() -> None:
    """Create tables, pairs, users, the simulated past, and orphans to clean up."""
    django.setup()
    from django.contrib.auth.models import Group, User

    call_command("migrate", verbosity=0, interactive=False)
    call_command("sync_pairs")
    for name, groups in ACCOUNTS.items():
        user = User.objects.create_user(name, password=os.environ["DEMO_PASSWORD"], is_staff="administrator" in groups)
        user.groups.set(Group.objects.filter(name__in=groups))
    if settings.SIMULATED_UNTIL:
        from dashboard.demo.history.loading import load

        load(history(settings.SIMULATED_UNTIL))
    try:
        pair = load_pairs()["contoso"]
        make_untidy(pair.primary.connection_string(), pair.secondary.connection_string())
    except (AzureError, KeyError) as error:
        print(f"warning: there are no orphans to clean up on the backlog page: {type(error).__name__}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (ImproperlyConfigured, CommandError) as error:
        sys.exit(f"error: {error}")
