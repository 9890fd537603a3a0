"""One metric, and how it is written down. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

PREFIX = "paired_"
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """A name without its prefix, what it tells, and its samples: labels and value."""

    name: str
    about: str
    kind: Literal["gauge", "counter"]
    samples: Iterable[Sample]


def written(metric: Metric) -> str:
    """The lines of a metric."""
    name = PREFIX + metric.name
    head = f"# HELP {name} {metric.about}\n# TYPE {name} {metric.kind}\n"
    return head + "".join(_line(name, labels, value) for labels, value in metric.samples)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    number = repr(float(value)).removesuffix(".0")
    return f"{name}{{{inner}}} {number}\n" if inner else f"{name} {number}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def moment(at: datetime | None) -> float:
    """A time as Prometheus has it, seconds of Unix time; 0 where there was none."""
    return round(at.timestamp(), 3) if at else 0.0
