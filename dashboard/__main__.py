"""The command line of the control plane: `manage.py` in a checkout, `paired-namespaces` where the wheel is installed.

A configuration that cannot work is one sentence, not a traceback.
"""

import os
import sys
from importlib.metadata import version
from smtplib import SMTPException


def main() -> None:
    """Run the command in sys.argv."""
    if sys.argv[1:] in (["--version"], ["version"]):  # Django would print its own
        print(version("paired-namespaces"))
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        _ = settings.INSTALLED_APPS  # Django would swallow the sentence, and then not know the command
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"error: {error}")
    except (ConnectionError, TimeoutError, SMTPException) as error:
        sys.exit(f"error: A server that the command needs does not answer ({error}).")
    except DatabaseError as error:
        from dashboard.site.database import problem_of

        sys.exit(f"error: {problem_of(error)}")


if __name__ == "__main__":
    main()
