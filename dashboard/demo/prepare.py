"""Creates the demo's database: `python -m dashboard.demo.prepare`, DEMO_PASSWORD in the environment."""

import os
import sys

import django
from azure.core.exceptions import AzureError
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from dashboard.demo.untidy import make_untidy
from dashboard.fleet.pairs_file import load_pairs


def main() -> None:
    """Create tables, pairs, a user with all rights, and orphans to clean up."""
    django.setup()
    from django.contrib.auth.models import Group, User

    call_command("migrate", verbosity=0, interactive=False)
    call_command("sync_pairs")
    user = User.objects.create_user("operator", password=os.environ["DEMO_PASSWORD"], is_staff=True)
    user.groups.set(Group.objects.filter(name__in=("operator", "administrator")))
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
