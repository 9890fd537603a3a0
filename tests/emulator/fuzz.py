"""Fuzzing guided by coverage: `pip install atheris`, then `python tests/emulator/fuzz.py DIR -max_total_time=3600`.

What it finds is kept as a test in test_fuzzing.py. It stands apart from fuzzing.py because only what is imported under
its eyes is watched.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["emulator"]):
    from tests.emulator import fuzzing

atheris.Setup(sys.argv, fuzzing.one_input)
atheris.Fuzz()
