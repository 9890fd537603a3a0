#!/usr/bin/env python
"""The command line of the control plane in a checkout."""

from dashboard.__main__ import main

if __name__ == "__main__":
    main()
