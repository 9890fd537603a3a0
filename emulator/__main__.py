"""`python -m emulator`: local Service Bus namespaces until a signal ends them."""

from __future__ import annotations

import sys

from emulator.command_line.command import main

sys.exit(main())
