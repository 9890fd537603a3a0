"""Computes the demo's charges: `python -m dashboard.demo.charge MONTH…`, the first month first."""

import os
import sys

import django


def main() -> None:
    """The last line of the output is a sentence for the output of the demo."""
    os.nice(10)  # pages and messages come first
    django.setup()
    from dashboard.demo.charging import ChargingError, compute

    try:
        print(compute(sys.argv[1:]))
    except ChargingError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
