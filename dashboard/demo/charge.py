"""Computes the demo's charges: `python -m dashboard.demo.charge`."""

import os
import sys
from datetime import UTC, datetime

import django


def main() -> None:
    """The last line of the output is a sentence for the output of the demo."""
    os.nice(10)  # pages and messages come first
    django.setup()
    from dashboard.demo.charging import ChargingError, compute

    try:
        print(compute(datetime.now(UTC)))
    except ChargingError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
