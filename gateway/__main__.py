"""`python -m gateway`: the gateway of a pair until a signal ends it."""

from __future__ import annotations

import sys

from gateway.command import main

sys.exit(main())
