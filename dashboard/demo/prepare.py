"""Makes the demo's database: `python -m dashboard.demo.prepare`, DEMO_PASSWORD in the environment."""

import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command


def main() -> None:
    """Tables, pairs, and a user who may do everything."""
    django.setup()
    from django.contrib.auth.models import Group, User

    call_command("migrate", verbosity=0, interactive=False)
    call_command("sync_pairs")
    user = User.objects.create_user("operator", password=os.environ["DEMO_PASSWORD"], is_staff=True)
    user.groups.set(Group.objects.filter(name__in=("operator", "administrator")))


if __name__ == "__main__":
    try:
        main()
    except (ImproperlyConfigured, CommandError) as error:
        sys.exit(f"error: {error}")
