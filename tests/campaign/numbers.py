"""Numbers of the command line: of a range, so that a campaign does not begin with one that makes no sense."""

import argparse
from collections.abc import Callable


def whole(least: int, most: int) -> Callable[[str], int]:
    """For the parser: a whole number of this range."""

    def read(text: str) -> int:
        _require(int(text), least, most)
        return int(text)

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    """For the parser: a number of this range; nan is in none."""

    def read(text: str) -> float:
        _require(float(text), least, most)
        return float(text)

    return read


def _require(given: float, least: float, most: float) -> None:
    if not least <= given <= most:
        raise argparse.ArgumentTypeError(f"give a number from {least:,} to {most:,}")
