"""Fuzzing guided by coverage: `pip install atheris`, then `python tests/emulator/fuzz.py DIR -max_total_time=3600`.

DIR holds what led to new places, from run to run; it is begun with well-formed input. What is found is kept as a test
in test_fuzzing.py. It stands apart from fuzzing.py because only what is imported under its eyes is watched.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["emulator"]):
    from tests.emulator import fuzzing

corpus = next((Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")), None)
if corpus is not None:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(fuzzing.starting_corpus()):
        (corpus / f"seed-{number}").write_bytes(seed)

atheris.Setup(sys.argv, fuzzing.one_input)
atheris.Fuzz()
