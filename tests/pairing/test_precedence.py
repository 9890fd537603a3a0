"""Two places decide which of two reports on an entity stands: the script that Redis runs, and the state machine of each
process. Here both are asked about every pair of what Redis knows and what a process reports (docs/specification.md,
section 11): whatever the script lets stand, the processes must adopt, and what it refuses, its author must give up.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from pairing.clock import ManualClock
from pairing.fleet.coordination import _has_forgotten
from pairing.fleet.shared_health import SharedHealth
from pairing.fleet.shared_state import SharedState
from pairing.health.availability import FAILED_OVER, FAILING, News, PathAvailability, State

PATH, PAIR = "orders", "precedence"
